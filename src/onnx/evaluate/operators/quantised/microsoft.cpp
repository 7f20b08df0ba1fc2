// Operators of ONNX Runtime's own domain that its tools for quantisation write.
#include <algorithm>
#include <cmath>
#include <utility>

#include "onnx/evaluate/gemm/gemm.h"
#include "onnx/evaluate/loops.h"
#include "onnx/evaluate/op_table.h"
#include "onnx/evaluate/operators/quantised/n_bits.h"
#include "onnx/evaluate/operators/quantised/quantised_forms.h"

namespace mantissa::onnx {
namespace {

// An operator of ONNX on values of the call, or on others. `node` has its outputs, if there are
// several.
Result<std::vector<EvaluatedValue>> compute_all(OpCall& call, NodeData node,
                                                std::vector<const EvaluatedValue*> inputs) {
  // Softmax has its meaning of today from operator set 13 on.
  const int64_t opset = std::max<int64_t>(call.opset(), 13);
  node.inputs.assign(inputs.size(), "x");
  if (node.outputs.empty()) node.outputs = {"y"};
  MANTISSA_ASSIGN(const OpRow* row, find_operator(node, opset));
  OpCall inner(node, opset, call.shapes_only(), std::move(inputs), call.pool());
  MANTISSA_RETURN_IF_ERROR(row->function(inner));
  return inner.take_outputs();
}

Result<EvaluatedValue> compute_by(OpCall& call, const NodeData& node,
                                  std::vector<const EvaluatedValue*> inputs) {
  MANTISSA_ASSIGN(std::vector<EvaluatedValue> outputs, compute_all(call, node, std::move(inputs)));
  return std::move(outputs[0]);
}

Result<EvaluatedValue> dequantised_input(OpCall& call, size_t i) {
  NodeData node;
  node.op_type = "DequantizeLinear";
  std::vector<const EvaluatedValue*> inputs = {&call.value(i), &call.value(i + 1)};
  if (call.has(i + 2)) inputs.push_back(&call.value(i + 2));
  return compute_by(call, node, inputs);
}

// Real numbers become the output, by a scale and a zero point that are inputs.
Status give_quantised(OpCall& call, const EvaluatedValue& real, size_t scale, bool has_zero) {
  NodeData node;
  node.op_type = "QuantizeLinear";
  std::vector<const EvaluatedValue*> inputs = {&real, &call.value(scale)};
  if (has_zero) inputs.push_back(&call.value(scale + 1));
  MANTISSA_ASSIGN(EvaluatedValue result, compute_by(call, node, inputs));
  return call.give(0, std::move(result));
}

// The operator on real numbers, between the two. Each result is rounded once.
Status compute_real(OpCall& call) {
  const QuantisedForm form = quantised_form(call.node());
  if (call.integer("channels_last", 0) != 0) return invalid_input("channels_last");
  if (form.values.empty() || !call.has(form.result)) return invalid_input("missing inputs");
  std::vector<EvaluatedValue> values;
  for (const size_t i : form.values) {
    if (!call.has(i) || !call.has(i + 1)) return invalid_input("missing inputs");
    MANTISSA_ASSIGN(EvaluatedValue value, dequantised_input(call, i));
    values.push_back(std::move(value));
  }
  std::vector<const EvaluatedValue*> inputs;
  for (const EvaluatedValue& value : values) inputs.push_back(&value);
  MANTISSA_ASSIGN(const EvaluatedValue real, compute_by(call, twin_of(call.node(), form), inputs));
  return give_quantised(call, real, form.result, call.has(form.result + 1));
}

// Sums of whole numbers, C in their units, times both scales.
Status qgemm(OpCall& call) {
  for (const size_t i : {0, 1, 3, 4}) {
    if (!call.has(i)) return invalid_input("missing inputs");
  }
  const float alpha = call.real("alpha", 1);
  NodeData gemm;
  gemm.op_type = "Gemm";
  for (const char* name : {"transA", "transB"}) {
    gemm.attributes.push_back({name, call.integer(name, 0), {}});
  }
  MANTISSA_ASSIGN(const EvaluatedValue a, dequantised_input(call, 0));
  NodeData dequantise;
  dequantise.op_type = "DequantizeLinear";
  dequantise.attributes.push_back({"axis", int64_t{call.integer("transB", 0) != 0 ? 0 : 1}, {}});
  std::vector<const EvaluatedValue*> right = {&call.value(3), &call.value(4)};
  if (call.has(5)) right.push_back(&call.value(5));
  MANTISSA_ASSIGN(const EvaluatedValue b, compute_by(call, dequantise, right));
  MANTISSA_ASSIGN(EvaluatedValue sums, compute_by(call, gemm, {&a, &b}));
  const int64_t columns = sums.tensor.dims[1];
  if (call.has(6) && (call.type(6) != ElementType::kInt32 ||
                      (call.dims(6) != Dims{columns} && call.dims(6) != Dims{1, columns}))) {
    return invalid_input("a bias of dims " + to_text(call.dims(6)));
  }
  if (count_of(call.dims(1)) != 1) return invalid_input("a scale that is no single number");
  if (!call.shapes_only()) {
    const bool each = count_of(call.dims(4)) > 1;
    std::span<float> numbers = writable<float>(sums.tensor);
    for (size_t i = 0; i < numbers.size(); ++i) {
      const auto column = static_cast<int64_t>(i) % columns;
      const float scale = *call.data<float>(1) * call.data<float>(4)[each ? column : 0];
      const float bias = call.has(6) ? static_cast<float>(call.data<int32_t>(6)[column]) : 0.0f;
      numbers[i] = alpha * (numbers[i] + bias * scale);
    }
  }
  if (!call.has(7)) return call.give(0, std::move(sums));
  return give_quantised(call, sums, 7, call.has(8));
}

// Layers whose input is quantised as it comes, with the scale of its own range.
Status dynamic_product(OpCall& call, const EvaluatedValue& left, size_t right, size_t scale,
                       size_t zero, size_t bias) {
  NodeData dequantise;
  dequantise.op_type = "DequantizeLinear";
  dequantise.attributes.push_back({"axis", call.rank(right) - 1, {}});
  std::vector<const EvaluatedValue*> inputs = {&call.value(right), &call.value(scale)};
  if (call.has(zero)) inputs.push_back(&call.value(zero));
  MANTISSA_ASSIGN(const EvaluatedValue weights, compute_by(call, dequantise, inputs));
  NodeData node;
  node.op_type = "MatMul";
  MANTISSA_ASSIGN(EvaluatedValue product, compute_by(call, node, {&left, &weights}));
  if (call.has(bias)) {
    node.op_type = "Add";
    MANTISSA_ASSIGN(product, compute_by(call, node, {&product, &call.value(bias)}));
  }
  return call.give(0, std::move(product));
}

Status mat_mul_integer_to_float(OpCall& call) {
  NodeData dequantise;
  dequantise.op_type = "DequantizeLinear";
  std::vector<const EvaluatedValue*> inputs = {&call.value(0), &call.value(2)};
  if (call.has(4)) inputs.push_back(&call.value(4));
  MANTISSA_ASSIGN(const EvaluatedValue left, compute_by(call, dequantise, inputs));
  return dynamic_product(call, left, 1, 3, 5, 6);
}

Status dynamic_quantise_mat_mul(OpCall& call) {
  NodeData quantise;
  quantise.op_type = "DynamicQuantizeLinear";
  quantise.outputs = {"y", "scale", "zero"};
  MANTISSA_ASSIGN(const std::vector<EvaluatedValue> parts,
                  compute_all(call, quantise, {&call.value(0)}));
  NodeData dequantise;
  dequantise.op_type = "DequantizeLinear";
  MANTISSA_ASSIGN(const EvaluatedValue left,
                  compute_by(call, dequantise, {&parts[0], &parts[1], &parts[2]}));
  return dynamic_product(call, left, 1, 2, 3, 4);
}

Status mat_mul_n_bits(OpCall& call) {
  MANTISSA_RETURN_IF_ERROR(call.check_float(1));
  MANTISSA_ASSIGN(const NBits n, n_bits_of(call.node()));
  if (call.has(4)) return invalid_input("g_idx, an order of the weights");
  const NBitsTensors tensors = {&call.value(1).tensor, &call.value(2).tensor,
                                call.has(3) ? &call.value(3).tensor : nullptr};
  MANTISSA_RETURN_IF_ERROR(check_n_bits(n, tensors));
  Dims dims = call.dims(0);
  if (dims.empty() || dims.back() != n.depth ||
      (call.has(5) && (call.dims(5) != Dims{n.columns} || call.type(5) != ElementType::kFloat))) {
    return invalid_input("a value of dims " + to_text(dims) + " or a bias of other dims");
  }
  dims.back() = n.columns;
  MANTISSA_RETURN_IF_ERROR(call.make(0, ElementType::kFloat, dims));
  if (call.shapes_only() || count_of(dims) == 0) return {};
  const std::vector<float> weights = unpacked(n, tensors);
  const int64_t rows = count_of(dims) / n.columns;
  float* out = call.out<float>(0);
  multiply(call.pool(), rows, n.columns, n.depth, {call.data<float>(0), n.depth, 1},
           {weights.data(), 1, n.depth}, out);
  for (int64_t i = 0; call.has(5) && i < rows * n.columns; ++i) {
    out[i] += call.data<float>(5)[i % n.columns];
  }
  return {};
}

constexpr const char* kPoolAttributes =
    "auto_pad ceil_mode channels_last count_include_pad dilations kernel_shape pads strides";

constexpr OpRow kMicrosoftRows[] = {
    {"com.microsoft.QLinearAdd", 1, compute_real, {7, 8}},
    {"com.microsoft.QLinearMul", 1, compute_real, {7, 8}},
    {"com.microsoft.QLinearSigmoid", 1, compute_real, {4, 5}},
    {"com.microsoft.QLinearLeakyRelu", 1, compute_real, {4, 5}, "alpha"},
    {"com.microsoft.QLinearAveragePool", 1, compute_real, {4, 5}, kPoolAttributes},
    {"com.microsoft.QLinearGlobalAveragePool", 1, compute_real, {4, 5}, "channels_last"},
    {"com.microsoft.QLinearSoftmax", 1, compute_real, {4, 5}, "axis opset"},
    {"com.microsoft.QLinearConcat", 1, compute_real, {5, kMany}, "axis"},
    {"com.microsoft.QGemm", 1, qgemm, {5, 9}, "alpha transA transB"},
    {"com.microsoft.MatMulIntegerToFloat", 1, mat_mul_integer_to_float, {4, 7}},
    {"com.microsoft.DynamicQuantizeMatMul", 1, dynamic_quantise_mat_mul, {3, 5}},
    {"com.microsoft.MatMulNBits",
     1,
     mat_mul_n_bits,
     {3, 6},
     "K N accuracy_level bits block_size weight_prepacked"},
};

}  // namespace

std::span<const OpRow> microsoft_operators() { return kMicrosoftRows; }

}  // namespace mantissa::onnx
