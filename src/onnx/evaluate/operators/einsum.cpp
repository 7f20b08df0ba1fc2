// Sums of products by Einstein's notation, and determinants.
#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "onnx/evaluate/loops.h"
#include "onnx/evaluate/op_table.h"

namespace mantissa::onnx {
namespace {

// An index of a term: a letter, or a dimension of the ellipsis, counted from its last one.
using Label = int;
constexpr Label kEllipsis = 256;

// The labels of a term for a value of this rank; its ellipsis takes the dimensions that are left.
Result<std::vector<Label>> labels_of(const std::string& term, int64_t rank) {
  std::vector<Label> labels;
  const auto letters = static_cast<int64_t>(
      std::count_if(term.begin(), term.end(), [](char c) { return c != '.'; }));
  for (size_t i = 0; i < term.size(); ++i) {
    const char c = term[i];
    if (c == '.' && term.substr(i, 3) == "..." && rank >= letters) {
      for (int64_t d = rank - letters; d-- > 0;) labels.push_back(kEllipsis + static_cast<int>(d));
      i += 2;
    } else if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
      labels.push_back(c);
    } else {
      return invalid_input("the term '" + term + "'");
    }
  }
  if (static_cast<int64_t>(labels.size()) == rank) return labels;
  return invalid_input("the term '" + term + "' for a value of rank " + std::to_string(rank));
}

struct Equation {
  std::vector<std::vector<Label>> terms;
  std::vector<Label> result;
  std::map<Label, int64_t> sizes;
};

// Without an arrow: the ellipsis, then all letters that occur once, in alphabetical order.
std::vector<Label> implied_result(const Equation& equation, int64_t ellipsis) {
  std::map<Label, int> occurrences;
  for (const std::vector<Label>& term : equation.terms) {
    for (const Label label : term) ++occurrences[label];
  }
  std::vector<Label> result;
  for (int64_t d = ellipsis; d-- > 0;) result.push_back(kEllipsis + static_cast<int>(d));
  for (const auto& [label, count] : occurrences) {
    if (label < kEllipsis && count == 1) result.push_back(label);
  }
  return result;
}

Status add_term(OpCall& call, size_t i, const std::string& term, Equation& equation) {
  MANTISSA_ASSIGN(std::vector<Label> labels, labels_of(term, call.rank(i)));
  for (size_t d = 0; d < labels.size(); ++d) {
    const int64_t size = call.dims(i)[d];
    int64_t& known = equation.sizes.emplace(labels[d], size).first->second;
    if (known == 1) known = size;
    if (size != known && size != 1) {
      return invalid_input("the term '" + term + "' with dims " + to_text(call.dims(i)));
    }
  }
  equation.terms.push_back(std::move(labels));
  return {};
}

Result<Equation> equation_of(OpCall& call) {
  std::string text = call.text("equation", "");
  std::erase(text, ' ');
  const size_t arrow = text.find("->");
  std::string left = text.substr(0, arrow);
  Equation equation;
  for (size_t i = 0; i < call.input_count(); ++i) {
    if (!call.has(i) || call.type(i) != call.type(0)) {
      return invalid_input("inputs of different types");
    }
    const size_t comma = left.find(',');
    if ((comma == std::string::npos) != (i + 1 == call.input_count())) {
      return invalid_input("an equation of other terms than inputs");
    }
    MANTISSA_RETURN_IF_ERROR(add_term(call, i, left.substr(0, comma), equation));
    left.erase(0, comma == std::string::npos ? comma : comma + 1);
  }
  int64_t ellipsis = 0;
  for (const auto& [label, size] : equation.sizes) {
    if (label >= kEllipsis) ellipsis = std::max<int64_t>(ellipsis, label - kEllipsis + 1);
  }
  if (arrow == std::string::npos) {
    equation.result = implied_result(equation, ellipsis);
    return equation;
  }
  const std::string right = text.substr(arrow + 2);
  const auto letters = std::count_if(right.begin(), right.end(), [](char c) { return c != '.'; });
  const bool dots = right.find('.') != std::string::npos;
  MANTISSA_ASSIGN(equation.result, labels_of(right, letters + (dots ? ellipsis : 0)));
  for (const Label label : equation.result) {
    const bool once = std::count(equation.result.begin(), equation.result.end(), label) == 1;
    if (!once || !equation.sizes.contains(label)) {
      return invalid_input("the result '" + right + "'");
    }
  }
  return equation;
}

// Strides of a value along all labels; a label that occurs twice walks along the diagonal.
Dims strides_along(const std::vector<Label>& order, const std::vector<Label>& labels,
                   const Dims& dims) {
  const Dims own = strides_of(dims);
  Dims strides(order.size(), 0);
  for (size_t d = 0; d < labels.size(); ++d) {
    if (dims[d] == 1) continue;
    const auto place = std::find(order.begin(), order.end(), labels[d]);
    strides[place - order.begin()] += own[d];
  }
  return strides;
}

using EinsumTypes = Types<float, double, int32_t, int64_t, uint32_t, uint64_t>;

// Whole numbers wrap around; real ones are summed in double.
template <typename T>
using EinsumSum = std::conditional_t<std::is_floating_point_v<T>, double, uint64_t>;

Status einsum(OpCall& call) {
  MANTISSA_ASSIGN(const Equation equation, equation_of(call));
  std::vector<Label> order = equation.result;
  for (const auto& [label, size] : equation.sizes) {
    if (std::find(order.begin(), order.end(), label) == order.end()) order.push_back(label);
  }
  Loops loops;
  Dims dims;
  for (const Label label : order) loops.dims.push_back(equation.sizes.at(label));
  dims.assign(loops.dims.begin(), loops.dims.begin() + std::ssize(equation.result));
  for (size_t i = 0; i < call.input_count(); ++i) {
    loops.strides.push_back(strides_along(order, equation.terms[i], call.dims(i)));
  }
  loops.strides.push_back(strides_along(order, equation.result, dims));
  return with_type(EinsumTypes(), call.type(0), [&]<typename T>() -> Status {
    MANTISSA_RETURN_IF_ERROR(call.make(0, call.type(0), dims));
    if (call.shapes_only()) return {};
    const size_t inputs = call.input_count();
    std::vector<EinsumSum<T>> sums(static_cast<size_t>(count_of(dims)));
    walk(merged(loops), [&](const int64_t* offsets, const int64_t* steps, int64_t count) {
      for (int64_t k = 0; k < count; ++k) {
        EinsumSum<T> product{1};
        for (size_t i = 0; i < inputs; ++i) {
          product *= static_cast<EinsumSum<T>>(call.data<T>(i)[offsets[i] + k * steps[i]]);
        }
        sums[offsets[inputs] + k * steps[inputs]] += product;
      }
    });
    std::transform(sums.begin(), sums.end(), call.out<T>(0),
                   [](EinsumSum<T> sum) { return static_cast<T>(sum); });
    return {};
  });
}

// By elimination with the largest number of each column first.
double determinant(std::vector<double> matrix, int64_t size) {
  double result = 1;
  for (int64_t k = 0; k < size; ++k) {
    int64_t best = k;
    for (int64_t row = k + 1; row < size; ++row) {
      if (std::fabs(matrix[row * size + k]) > std::fabs(matrix[best * size + k])) best = row;
    }
    const double pivot = matrix[best * size + k];
    if (pivot == 0) return 0;
    result *= best == k ? pivot : -pivot;
    for (int64_t j = 0; best != k && j < size; ++j) {
      std::swap(matrix[k * size + j], matrix[best * size + j]);
    }
    for (int64_t row = k + 1; row < size; ++row) {
      const double factor = matrix[row * size + k] / pivot;
      for (int64_t j = k; j < size; ++j) matrix[row * size + j] -= factor * matrix[k * size + j];
    }
  }
  return result;
}

Status det(OpCall& call) {
  const Dims& dims = call.dims(0);
  if (dims.size() < 2 || dims.back() != *(dims.end() - 2)) {
    return invalid_input("a determinant of dims " + to_text(dims));
  }
  return with_type(Floats(), call.type(0), [&]<typename T>() -> Status {
    MANTISSA_RETURN_IF_ERROR(call.make(0, call.type(0), {dims.begin(), dims.end() - 2}));
    if (call.shapes_only()) return {};
    const int64_t size = dims.back();
    const int64_t matrices = count_of({dims.begin(), dims.end() - 2});
    for (int64_t i = 0; i < matrices; ++i) {
      const T* in = call.data<T>(0) + i * size * size;
      call.out<T>(0)[i] =
          static_cast<T>(determinant(std::vector<double>(in, in + size * size), size));
    }
    return {};
  });
}

constexpr OpRow kEinsumRows[] = {
    {"Einsum", 12, einsum, {1, kMany}, "equation"},
    {"Det", 11, det},
};

}  // namespace

std::span<const OpRow> einsum_operators() { return kEinsumRows; }

}  // namespace mantissa::onnx
