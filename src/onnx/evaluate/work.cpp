#include "onnx/evaluate/work.h"

#include <algorithm>

namespace mantissa::onnx {
namespace {

// Sums and products that stay at the largest number instead of leaving it.
int64_t saturated_product(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

int64_t saturated_sum(int64_t a, int64_t b) {
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

// Taps of a pooling window.
int64_t taps_of(const NodeData& node) {
  int64_t taps = 1;
  for (const NodeAttribute& attribute : node.attributes) {
    const auto* kernel = std::get_if<std::vector<int64_t>>(&attribute.value);
    if (attribute.name != "kernel_shape" || kernel == nullptr) continue;
    for (const int64_t size : *kernel) taps = saturated_product(taps, std::max<int64_t>(size, 1));
  }
  return taps;
}

}  // namespace

int64_t multiply_adds_of(const NodeData& node, const std::vector<const EvaluatedValue*>& inputs,
                         const std::vector<EvaluatedValue>& outputs) {
  if (inputs.size() < 2 || outputs.empty() || !outputs[0].shaped || inputs[0] == nullptr ||
      inputs[1] == nullptr || !inputs[0]->shaped || !inputs[1]->shaped) {
    return 0;
  }
  const Dims& a = inputs[0]->tensor.dims;
  const Dims& b = inputs[1]->tensor.dims;
  const int64_t out = count_of(outputs[0].tensor.dims);
  // Each output of a convolution meets all weights of its channel, each input of a transposed one.
  if (node.op_type == "Conv") return saturated_product(out, count_of({b.begin() + 1, b.end()}));
  if (node.op_type == "ConvTranspose") {
    return saturated_product(count_of(a), count_of({b.begin() + 1, b.end()}));
  }
  if (node.op_type == "MatMul") return saturated_product(out, a.back());
  if (node.op_type == "Gemm" && out > 0) {
    return saturated_product(out, count_of(a) / outputs[0].tensor.dims[0]);
  }
  // Each step of a sequence uses all weights, the state's included.
  if ((node.op_type == "RNN" || node.op_type == "LSTM" || node.op_type == "GRU") &&
      inputs.size() > 2 && inputs[2] != nullptr && inputs[2]->shaped && !a.empty()) {
    const int64_t rows = count_of({a.begin(), a.end() - 1});
    return saturated_product(rows, saturated_sum(count_of(b), count_of(inputs[2]->tensor.dims)));
  }
  return 0;
}

int64_t bytes_of(const std::vector<EvaluatedValue>& values) {
  int64_t bytes = 0;
  for (const EvaluatedValue& value : values) {
    if (value.items != nullptr) bytes = saturated_sum(bytes, bytes_of(*value.items));
    if (!value.shaped || value.kind != ValueKind::kTensor) continue;
    const Result<int64_t> own = value_bytes(value.tensor.type, value.tensor.dims);
    if (own.ok()) bytes = saturated_sum(bytes, *own);
  }
  return bytes;
}

int64_t work_of(const NodeData& node, const std::vector<const EvaluatedValue*>& inputs,
                const std::vector<EvaluatedValue>& outputs) {
  int64_t work = saturated_product(bytes_of(outputs), taps_of(node));
  for (const EvaluatedValue* input : inputs) {
    if (input != nullptr) work = saturated_sum(work, bytes_of({*input}));
  }
  return saturated_sum(work, multiply_adds_of(node, inputs, outputs));
}

}  // namespace mantissa::onnx
