// Losses of classes: the negative logarithm of a probability, or of a softmax.
#include <algorithm>
#include <cmath>
#include <optional>

#include "onnx/evaluate/op_table.h"

namespace mantissa::onnx {
namespace {

// Scores [N, C, ...] and a class for each [N, ...].
struct Classes {
  int64_t batch = 0, classes = 0, places = 1;
  std::optional<int64_t> ignored;
  std::string reduction;
  std::vector<int64_t> targets;
};

Result<Classes> classes_of(OpCall& call) {
  const Dims& dims = call.dims(0);
  Classes c;
  if (dims.size() < 2) return invalid_input("scores of rank below 2");
  Dims wanted = dims;
  wanted.erase(wanted.begin() + 1);
  if (call.dims(1) != wanted) {
    return invalid_input("classes of dims " + to_text(call.dims(1)) + " for scores of dims " +
                         to_text(dims));
  }
  c.batch = dims[0];
  c.classes = dims[1];
  c.places = count_of({dims.begin() + 2, dims.end()});
  if (call.has_attribute("ignore_index")) c.ignored = call.integer("ignore_index", 0);
  c.reduction = call.text("reduction", "mean");
  if (c.reduction != "none" && c.reduction != "sum" && c.reduction != "mean") {
    return invalid_input("reduction '" + c.reduction + "'");
  }
  if (call.has(2) && (call.dims(2) != Dims{c.classes} || call.type(2) != call.type(0))) {
    return invalid_input("weights that are not one number of the scores' type for each class");
  }
  if (call.type(1) != ElementType::kInt32 && call.type(1) != ElementType::kInt64) {
    return invalid_input("classes that are no whole numbers");
  }
  if (call.shapes_only()) return c;
  MANTISSA_ASSIGN(c.targets, whole_numbers(call.input(1)));
  for (const int64_t target : c.targets) {
    if (target == c.ignored || (target >= 0 && target < c.classes)) continue;
    return invalid_input("class " + std::to_string(target) + " of " + std::to_string(c.classes));
  }
  return c;
}

// Output 0 from logarithms of probabilities.
template <typename T>
void write_loss(OpCall& call, const Classes& c, const T* logarithms) {
  double sum = 0;
  double weights = 0;
  for (int64_t i = 0; i < c.batch * c.places; ++i) {
    const int64_t target = c.targets[i];
    double loss = 0;
    if (target != c.ignored) {
      const double weight = call.has(2) ? static_cast<double>(call.data<T>(2)[target]) : 1.0;
      const int64_t row = i / c.places * c.classes + target;
      loss = -weight * static_cast<double>(logarithms[row * c.places + i % c.places]);
      weights += weight;
    }
    if (c.reduction == "none") call.out<T>(0)[i] = static_cast<T>(loss);
    sum += loss;
  }
  if (c.reduction == "sum") call.out<T>(0)[0] = static_cast<T>(sum);
  if (c.reduction == "mean") call.out<T>(0)[0] = static_cast<T>(sum / weights);
}

Status negative_log_likelihood(OpCall& call) {
  MANTISSA_ASSIGN(const Classes c, classes_of(call));
  return with_type(Floats(), call.type(0), [&]<typename T>() -> Status {
    const Dims dims = c.reduction == "none" ? call.dims(1) : Dims();
    MANTISSA_RETURN_IF_ERROR(call.make(0, call.type(0), dims));
    if (!call.shapes_only()) write_loss(call, c, call.data<T>(0));
    return {};
  });
}

Status softmax_cross_entropy(OpCall& call) {
  MANTISSA_ASSIGN(const Classes c, classes_of(call));
  return with_type(Floats(), call.type(0), [&]<typename T>() -> Status {
    const Dims dims = c.reduction == "none" ? call.dims(1) : Dims();
    MANTISSA_RETURN_IF_ERROR(call.make(0, call.type(0), dims));
    MANTISSA_RETURN_IF_ERROR(call.make(1, call.type(0), call.dims(0)));
    if (call.shapes_only()) return {};
    T* logarithms = call.out<T>(1);
    for (int64_t i = 0; i < c.batch * c.places; ++i) {
      const int64_t start = i / c.places * c.classes * c.places + i % c.places;
      const T* in = call.data<T>(0) + start;
      T most = in[0];
      for (int64_t k = 1; k < c.classes; ++k) most = std::max(most, in[k * c.places]);
      double sum = 0;
      for (int64_t k = 0; k < c.classes; ++k) {
        sum += std::exp(static_cast<double>(in[k * c.places] - most));
      }
      const double logarithm = std::log(sum);
      for (int64_t k = 0; k < c.classes; ++k) {
        const double score = static_cast<double>(in[k * c.places]) - static_cast<double>(most);
        logarithms[start + k * c.places] = static_cast<T>(score - logarithm);
      }
    }
    write_loss(call, c, logarithms);
    return {};
  });
}

constexpr OpRow kLossRows[] = {
    {"NegativeLogLikelihoodLoss", 12, negative_log_likelihood, {2, 3}, "ignore_index reduction"},
    {"SoftmaxCrossEntropyLoss",
     12,
     softmax_cross_entropy,
     {2, 3},
     "ignore_index reduction",
     kNewestOpset,
     2},
};

}  // namespace

std::span<const OpRow> loss_operators() { return kLossRows; }

}  // namespace mantissa::onnx
