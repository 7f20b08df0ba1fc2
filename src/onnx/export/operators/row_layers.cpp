// Tables of tokens and linear layers of sequences. Linear layers are QuantizeLinear,
// DequantizeLinear and MatMul, which ONNX Runtime computes in integers; all else is float (0095).
#include <algorithm>
#include <bit>

#include "onnx/export/operators.h"
#include "onnx/export/parameters.h"
#include "onnx/export/rows.h"
#include "ops/attributes.h"
#include "ops/ops.h"

namespace mantissa::onnx {
namespace {

constexpr int kMostMantissa = 127;
constexpr float kLeastMaximum = 1e-30F;  // of a row, so that rows of zeros have a scale, too

// A value in bytes with zero point 128. Its scale is the network's own exponent. If each row has
// its own exponent, rows are divided by their scales, and results are multiplied by them.
struct ByteValue {
  std::string bytes, scale;
  std::string row_scales;  // float32 [batch, sequence, 1]; empty: one scale for all
};

ByteValue rows_in_bytes(ExportContext& context, const std::string& value) {
  ExportBuilder& to = context.builder;
  const std::string bytes = value + "/bytes", scales = value + "/row_scales";
  const std::string one = to.power(0);
  if (to.makes(bytes)) return {bytes, one, scales};
  const std::string sizes = to.add("Abs", value + "/sizes", {value});
  const std::string most =
      to.add("ReduceMax", value + "/largest", {sizes, to.list("last_axis", {-1})});
  const std::string positive =
      to.add("Max", value + "/positive", {most, to.scalar(kLeastMaximum, "least_maximum")});
  to.add("Mul", scales, {positive, to.scalar(1.0F / kMostMantissa, "per_mantissa")});
  const std::string units = to.add("Div", value + "/units", {value, scales});
  to.add("QuantizeLinear", bytes, {units, one, to.byte(kSignedZero)});
  return {bytes, one, scales};
}

Result<ByteValue> in_bytes(ExportContext& context, const Node& node) {
  const std::string& value = context.input(node).name;
  const int limit = context.limit(node.inputs[0]);
  if (limit > kMostMantissa) {
    const int bits = std::bit_width(static_cast<unsigned>(limit)) + 1;
    return invalid_input("reads values of " + std::to_string(bits) +
                         " bits, and those that ONNX Runtime multiplies have at most 8");
  }
  if (context.network.has_row_exponents) return rows_in_bytes(context, value);
  ExportBuilder& to = context.builder;
  const int exponent = context.exponent(node.inputs[0]);
  const ByteValue result{value + "/bytes_" + std::to_string(exponent), to.power(exponent), {}};
  if (!to.makes(result.bytes)) {
    to.add("QuantizeLinear", result.bytes, {value, result.scale, to.byte(kSignedZero)});
  }
  return result;
}

// Whether a table of the network has the same numbers.
bool is_tied(const ExportContext& context, int parameter) {
  const auto& nodes = context.graph.nodes;
  return std::any_of(nodes.begin(), nodes.end(), [&](const Node& node) {
    return node.op == &ops::kEmbedding && node.parameters[0] == parameter;
  });
}

// Float32 [inputs, outputs]: a constant, or DequantizeLinear of one. If a table has the same
// numbers, the file has them once, in the table's layout.
Result<std::string> real_weights(ExportContext& context, const Node& node) {
  ExportBuilder& to = context.builder;
  const int parameter = node.parameters[0];
  const ExportedParameter& weights = context.numbers(parameter);
  std::string numbers;
  if (!is_tied(context, parameter)) {
    MANTISSA_ASSIGN(numbers, transposed_parameter(context, parameter));
  } else {
    if (is_real(weights)) {
      numbers = real_parameter(context, parameter);
    } else {
      MANTISSA_ASSIGN(numbers, byte_rows(context, parameter));
    }
    numbers = to.add("Transpose", node.name + "/columns", {numbers}, {ints("perm", {1, 0})});
  }
  if (is_real(weights)) return numbers;
  return to.add("DequantizeLinear", node.name + "/weights",
                {numbers, column_scales(context, parameter)}, {{"axis", int64_t{1}}});
}

// Values times weights.
Result<std::string> products(ExportContext& context, const Node& node, const std::string& name) {
  ExportBuilder& to = context.builder;
  if (is_real(context.numbers(node.parameters[0]))) {
    if (node.attributes.as<ops::LayerAttributes>().weight_bits > 0) {
      return invalid_input("has weights of few bits in float: files in float have no few bits");
    }
    MANTISSA_ASSIGN(const std::string weights, real_weights(context, node));
    return to.add("MatMul", name, {context.input(node).name, weights});
  }
  MANTISSA_ASSIGN(const ByteValue in, in_bytes(context, node));
  MANTISSA_ASSIGN(const std::string weights, real_weights(context, node));
  const std::string numbers =
      to.add("DequantizeLinear", node.name + "/input", {in.bytes, in.scale, to.byte(kSignedZero)});
  if (in.row_scales.empty()) return to.add("MatMul", name, {numbers, weights});
  const std::string units = to.add("MatMul", name + "/units", {numbers, weights});
  return to.add("Mul", name, {units, in.row_scales});
}

}  // namespace

Result<Exported> export_row_embedding(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  if (context.input(node).form != Form::kTokens) {
    return invalid_input("reads no indices of a sequence");
  }
  const std::string name = context.output_name(node);
  MANTISSA_ASSIGN(std::string found,
                  table_rows(context, node.parameters[0], context.input(node).name, name));
  return Exported{std::move(found), Form::kRows};
}

Result<Exported> export_row_linear(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  if (context.input(node).form == Form::kFlat) {
    return invalid_input("reads all positions of a sequence whose length is open");
  }
  if (feeds_gates_alone(context, node.outputs[0])) return context.input(node);
  const bool has_bias = node.parameters.size() > 1;
  const std::string name = context.output_name(node);
  MANTISSA_ASSIGN(std::string sums, products(context, node, has_bias ? name + "/products" : name));
  if (has_bias) {
    sums = context.builder.add("Add", name, {sums, real_parameter(context, node.parameters[1])});
  }
  return Exported{std::move(sums), context.input(node).form};
}

}  // namespace mantissa::onnx
