// Operators that share one among the numbers of a row.
#include <algorithm>
#include <cmath>

#include "onnx/evaluate/op_table.h"

namespace mantissa::onnx {
namespace {

// Rows lie along one axis. Before operator set 13 a row was all from the axis on.
template <typename Function>
Status for_rows(OpCall& call, Function function) {
  const bool old = call.opset() < 13;
  const Dims& dims = call.dims(0);
  int64_t axis = call.integer("axis", old ? 1 : -1);
  if (!old || axis != call.rank(0)) {
    MANTISSA_ASSIGN(axis, call.axis(axis, call.rank(0)));
  }
  return with_type(Floats(), call.type(0), [&]<typename T>() -> Status {
    MANTISSA_RETURN_IF_ERROR(call.make(0, call.type(0), dims));
    if (call.shapes_only() || count_of(dims) == 0) return {};
    const int64_t size = old ? count_of({dims.begin() + axis, dims.end()}) : dims[axis];
    const int64_t inner = old ? 1 : count_of({dims.begin() + axis + 1, dims.end()});
    for (int64_t row = 0; row < count_of(dims) / size; ++row) {
      const int64_t start = row / inner * size * inner + row % inner;
      function(call.data<T>(0) + start, call.out<T>(0) + start, size, inner);
    }
    return {};
  });
}

template <typename T>
T largest(const T* in, int64_t size, int64_t step) {
  T result = in[0];
  for (int64_t i = 1; i < size; ++i) result = std::max(result, in[i * step]);
  return result;
}

Status softmax(OpCall& call) {
  return for_rows(call, []<typename T>(const T* in, T* out, int64_t size, int64_t step) {
    const T most = largest(in, size, step);
    T sum = 0;
    for (int64_t i = 0; i < size; ++i) {
      out[i * step] = std::exp(in[i * step] - most);
      sum += out[i * step];
    }
    for (int64_t i = 0; i < size; ++i) out[i * step] /= sum;
  });
}

Status log_softmax(OpCall& call) {
  return for_rows(call, []<typename T>(const T* in, T* out, int64_t size, int64_t step) {
    const T most = largest(in, size, step);
    T sum = 0;
    for (int64_t i = 0; i < size; ++i) sum += std::exp(in[i * step] - most);
    const T logarithm = std::log(sum);
    for (int64_t i = 0; i < size; ++i) out[i * step] = in[i * step] - most - logarithm;
  });
}

Status hardmax(OpCall& call) {
  return for_rows(call, []<typename T>(const T* in, T* out, int64_t size, int64_t step) {
    const T most = largest(in, size, step);
    for (int64_t i = 0; i < size; ++i) {
      if (in[i * step] != most) continue;
      out[i * step] = 1;
      break;
    }
  });
}

constexpr OpRow kSoftmaxRows[] = {
    {"Softmax", 1, softmax, 1, "axis"},
    {"LogSoftmax", 1, log_softmax, 1, "axis"},
    {"Hardmax", 1, hardmax, 1, "axis"},
};

}  // namespace

std::span<const OpRow> softmax_operators() { return kSoftmaxRows; }

}  // namespace mantissa::onnx
