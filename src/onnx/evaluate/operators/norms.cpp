// Operators that divide numbers by a norm of them and their neighbours, without an offset. Sums are
// double.
#include <algorithm>
#include <cmath>

#include "onnx/evaluate/loops.h"
#include "onnx/evaluate/op_table.h"

namespace mantissa::onnx {
namespace {

Status local_response_normalisation(OpCall& call) {
  MANTISSA_RETURN_IF_ERROR(call.check_float(1));
  const Dims& dims = call.dims(0);
  const int64_t window = call.integer("size", 0);
  if (dims.size() < 2 || window < 1) return invalid_input("a rank below 2, or size below 1");
  const float alpha = call.real("alpha", 1e-4f);
  const float beta = call.real("beta", 0.75f);
  const float bias = call.real("bias", 1.0f);
  MANTISSA_RETURN_IF_ERROR(call.make(0, ElementType::kFloat, dims));
  if (call.shapes_only()) return {};
  const int64_t size = count_of({dims.begin() + 2, dims.end()});
  for (int64_t row = 0; row < dims[0] * dims[1]; ++row) {
    const int64_t c = row % dims[1];
    const float* image = call.data<float>(0) + (row - c) * size;
    const int64_t first = std::max<int64_t>(0, c - (window - 1) / 2);
    const int64_t last = std::min(dims[1] - 1, c + window / 2);
    for (int64_t i = 0; i < size; ++i) {
      float squares = 0;
      for (int64_t k = first; k <= last; ++k) squares += image[k * size + i] * image[k * size + i];
      const float scale = bias + alpha / static_cast<float>(window) * squares;
      call.out<float>(0)[row * size + i] = image[c * size + i] / std::pow(scale, beta);
    }
  }
  return {};
}

Status lp_normalisation(OpCall& call) {
  MANTISSA_RETURN_IF_ERROR(call.check_float(1));
  MANTISSA_ASSIGN(const int64_t axis, call.axis(call.integer("axis", -1), call.rank(0)));
  const int64_t p = call.integer("p", 2);
  if (p != 1 && p != 2) return invalid_input("p is neither 1 nor 2");
  const Dims& dims = call.dims(0);
  MANTISSA_RETURN_IF_ERROR(call.make(0, ElementType::kFloat, dims));
  if (call.shapes_only() || count_of(dims) == 0) return {};
  const int64_t inner = count_of({dims.begin() + axis + 1, dims.end()});
  for (int64_t row = 0; row < count_of(dims) / dims[axis]; ++row) {
    const int64_t start = row / inner * dims[axis] * inner + row % inner;
    double sum = 0;
    for (int64_t i = 0; i < dims[axis]; ++i) {
      const double x = call.data<float>(0)[start + i * inner];
      sum += p == 1 ? std::fabs(x) : x * x;
    }
    const double norm = p == 1 ? sum : std::sqrt(sum);
    for (int64_t i = 0; i < dims[axis]; ++i) {
      const double x = call.data<float>(0)[start + i * inner];
      call.out<float>(0)[start + i * inner] = norm == 0 ? 0 : static_cast<float>(x / norm);
    }
  }
  return {};
}

// Without a mean: the root of the mean square divides.
Status rms_normalisation(OpCall& call) {
  MANTISSA_RETURN_IF_ERROR(call.check_float(2));
  MANTISSA_ASSIGN(const int64_t axis, call.axis(call.integer("axis", -1), call.rank(0)));
  if (call.integer("stash_type", 1) != 1) return invalid_input("a stash_type other than float");
  const Dims& dims = call.dims(0);
  const Dims inner(dims.begin() + axis, dims.end());
  MANTISSA_ASSIGN(const Dims both, broadcast(inner, call.dims(1)));
  if (both != inner) return invalid_input("a scale of dims " + to_text(call.dims(1)));
  const auto epsilon = static_cast<double>(call.real("epsilon", 1e-5f));
  MANTISSA_RETURN_IF_ERROR(call.make(0, ElementType::kFloat, dims));
  if (call.shapes_only() || count_of(dims) == 0) return {};
  const int64_t size = count_of(inner);
  const Loops loops = merged({inner, {broadcast_strides(call.dims(1), inner)}});
  for (int64_t row = 0; row < count_of(dims) / size; ++row) {
    const float* in = call.data<float>(0) + row * size;
    float* out = call.out<float>(0) + row * size;
    double squares = 0;
    for (int64_t i = 0; i < size; ++i) squares += static_cast<double>(in[i]) * in[i];
    const double inverse = 1 / std::sqrt(squares / static_cast<double>(size) + epsilon);
    walk(loops, [&](const int64_t* offsets, const int64_t* steps, int64_t count) {
      const float* scale = call.data<float>(1) + offsets[0];
      for (int64_t i = 0; i < count; ++i) {
        *out++ = static_cast<float>(*in++ * inverse * scale[i * steps[0]]);
      }
    });
  }
  return {};
}

// Over all numbers that differ only in the reduced dimensions.
Status mean_variance_normalisation(OpCall& call) {
  MANTISSA_RETURN_IF_ERROR(call.check_float(1));
  const Dims& dims = call.dims(0);
  std::vector<int64_t> axes = call.integers("axes");
  if (!call.has_attribute("axes")) axes = {0, 2, 3};
  Dims kept = dims;
  for (const int64_t axis : axes) {
    MANTISSA_ASSIGN(const int64_t place, call.axis(axis, call.rank(0)));
    kept[place] = 1;
  }
  MANTISSA_RETURN_IF_ERROR(call.make(0, ElementType::kFloat, dims));
  if (call.shapes_only() || count_of(dims) == 0) return {};
  const Dims strides = strides_of(dims);
  Dims inner = dims;
  for (size_t d = 0; d < dims.size(); ++d) inner[d] = kept[d] == dims[d] ? 1 : dims[d];
  const Loops loops = merged({inner, {strides}});
  const auto size = static_cast<double>(count_of(inner));
  walk(merged({kept, {strides}}), [&](const int64_t* starts, const int64_t* gaps, int64_t groups) {
    for (int64_t group = 0; group < groups; ++group) {
      const int64_t start = starts[0] + group * gaps[0];
      const auto each = [&](auto function) {
        walk(loops, [&](const int64_t* offsets, const int64_t* steps, int64_t count) {
          for (int64_t i = 0; i < count; ++i) function(start + offsets[0] + i * steps[0]);
        });
      };
      const float* in = call.data<float>(0);
      double sum = 0;
      each([&](int64_t place) { sum += in[place]; });
      const double mean = sum / size;
      double squares = 0;
      each([&](int64_t place) { squares += (in[place] - mean) * (in[place] - mean); });
      const double deviation = std::sqrt(squares / size) + 1e-9;
      each([&](int64_t place) {
        call.out<float>(0)[place] = static_cast<float>((in[place] - mean) / deviation);
      });
    }
  });
  return {};
}

constexpr OpRow kNormRows[] = {
    {"LRN", 1, local_response_normalisation, 1, "alpha beta bias size"},
    {"LpNormalization", 1, lp_normalisation, 1, "axis p"},
    {"MeanVarianceNormalization", 9, mean_variance_normalisation, 1, "axes"},
    {"RMSNormalization", 23, rms_normalisation, 2, "axis epsilon stash_type"},
};

}  // namespace

std::span<const OpRow> norm_operators() { return kNormRows; }

}  // namespace mantissa::onnx
