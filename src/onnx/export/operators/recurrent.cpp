// Recurrent layers: ONNX's RNN, LSTM and GRU, which compute in float, from weights of 8 bits. Their
// operators contain the linear layer that makes the input's part of the gates (0102).
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "onnx/export/operators.h"
#include "onnx/export/parameters.h"
#include "onnx/export/rows.h"
#include "ops/attributes.h"
#include "ops/ops.h"
#include "ops/sequences/recurrent_input.h"

namespace mantissa::onnx {
namespace {

// Inputs of ONNX's operators; an empty name is left out.
enum Place : size_t { kX, kW, kR, kB, kLengths, kStart, kStartCell, kPeepholes, kPlaces };

struct Kind {
  const char* name;
  std::vector<int64_t> gates;  // ours, in ONNX's order
};

// The largest numbers that a frozen network's state can have at the start
// (kernels/recurrent/gate_tables.h).
constexpr int kStateExponent = -15, kCellExponent = -11, kStateLimit = 32767;

// Parts of a vector in this order, appended to `parts`.
void append_parts(std::vector<float>& to, const std::vector<float>& from,
                  const std::vector<int64_t>& order) {
  const std::ptrdiff_t part = std::ssize(from) / std::ssize(order);
  for (const int64_t gate : order) {
    to.insert(to.end(), from.begin() + gate * part, from.begin() + (gate + 1) * part);
  }
}

// The biases of the input's part and of the recurrent part, [1, 2 * gates * channels]. Only GRU has
// one in the recurrent part: the candidate's, which is the last gate in both orders.
std::string biases(ExportContext& context, const Node& node, const Node& linear, const Kind& kind) {
  const auto all = static_cast<size_t>(context.shape(node.inputs[0]).last());
  std::vector<float> numbers;
  if (linear.parameters.size() > 1) {
    append_parts(numbers, real_numbers(context, linear.parameters[1]), kind.gates);
  }
  numbers.resize(2 * all);
  if (node.op == &ops::kGru) {
    const std::vector<float> candidate = real_numbers(context, node.parameters[1]);
    std::copy(candidate.begin(), candidate.end(), numbers.end() - std::ssize(candidate));
  }
  return context.builder.numbers(node.name + "/biases", ElementType::kFloat,
                                 {1, std::ssize(numbers)}, numbers);
}

// ONNX's i, o, f of our i, f, o, [1, 3 * channels].
std::string peepholes(ExportContext& context, const Node& node) {
  std::vector<float> numbers;
  append_parts(numbers, real_numbers(context, node.parameters[1]), {0, 2, 1});
  return context.builder.numbers(node.name + "/peepholes", ElementType::kFloat,
                                 {1, std::ssize(numbers)}, numbers);
}

// The positions of each sequence that are no padding: int32 [batch].
std::string lengths(ExportBuilder& to, const std::string& mask) {
  const std::string name = mask + "/lengths";
  if (to.makes(name)) return name;
  const std::string count =
      to.add("ReduceSum", mask + "/count", {mask, to.list("sequence_axis", {1})},
             {{"keepdims", int64_t{0}}});
  return to.cast(name, count, ElementType::kInt32);
}

// A state at the start, [1, batch, channels].
std::string start(ExportContext& context, const Node& node, size_t input, int exponent) {
  ExportBuilder& to = context.builder;
  const std::string name = node.name + "/start_" + std::to_string(input);
  std::string state = context.input(node, input).name;
  if (!context.network.exponents.empty()) {
    const float most = std::ldexp(static_cast<float>(kStateLimit), exponent);
    const std::string bounds = "recurrent/most_" + std::to_string(exponent);
    state = to.clip(name + "/clipped", state, most, bounds);
  }
  return to.add("Unsqueeze", name, {state, to.list("direction_axis", {0})});
}

// The operator's inputs, in its order.
Result<std::vector<std::string>> inputs_of(ExportContext& context, const Node& node,
                                           const Node& linear, const Kind& kind) {
  ExportBuilder& to = context.builder;
  const int from = linear.inputs[0];
  const std::string rows =
      within_range(context, from, context.values[static_cast<size_t>(from)]->name);
  const std::string steps = rows + "/steps", op = node.op->name;
  if (!to.makes(steps)) to.add("Transpose", steps, {rows}, {ints("perm", {1, 0, 2})});
  MANTISSA_ASSIGN(std::string weights,
                  weights_of_gates(context, linear.parameters[0], kind.gates, op));
  MANTISSA_ASSIGN(std::string recurrent,
                  weights_of_gates(context, node.parameters[0], kind.gates, op));
  std::vector<std::string> inputs(kPlaces);
  inputs[kX] = steps;
  inputs[kW] = std::move(weights);
  inputs[kR] = std::move(recurrent);
  inputs[kB] = biases(context, node, linear, kind);
  const auto reads = [&](size_t input) { return node.inputs.size() > input; };
  if (reads(ops::kLengthsInput)) {
    inputs[kLengths] = lengths(to, context.input(node, ops::kLengthsInput).name);
  }
  if (reads(ops::kStartInput)) {
    inputs[kStart] = start(context, node, ops::kStartInput, kStateExponent);
  }
  if (reads(ops::kStartCellInput)) {
    inputs[kStartCell] = start(context, node, ops::kStartCellInput, kCellExponent);
  }
  if (node.op == &ops::kLstm && node.attributes.as<ops::LstmAttributes>().peepholes) {
    inputs[kPeepholes] = peepholes(context, node);
  }
  while (inputs.back().empty()) inputs.pop_back();
  return inputs;
}

// Rows [batch, sequence, channels] of the operator's result for all steps. After the end of a
// sequence it has zeros, while our layers repeat the last state.
Exported rows_of(ExportContext& context, const Node& node, const std::string& states,
                 const std::string& last) {
  ExportBuilder& to = context.builder;
  const std::string steps =
      to.add("Squeeze", node.name + "/one_direction", {states, to.list("sequence_axis", {1})});
  const std::string name = context.output_name(node);
  const auto by_example = [&](const std::string& to_name, const std::string& from) {
    return to.add("Transpose", to_name, {from}, {ints("perm", {1, 0, 2})});
  };
  if (last.empty()) return {by_example(name, steps), Form::kRows};
  const std::string& mask = context.input(node, ops::kLengthsInput).name;
  const std::string hidden = mask + "/padding_rows";
  if (!to.makes(hidden)) {
    to.add("Unsqueeze", hidden, {padding(to, mask), to.list("last_axis", {-1})});
  }
  const std::string repeated =
      to.add("Mul", node.name + "/repeated", {hidden, by_example(node.name + "/last_row", last)});
  return {.name = to.add("Add", name, {by_example(node.name + "/rows", steps), repeated}),
          .form = Form::kRows,
          .repeats_last = true};
}

Result<Exported> export_kind(ExportContext& context, int n, const Kind& kind) {
  const Node& node = context.graph.nodes[n];
  const int producer = context.graph.values[node.inputs[0]].producer;
  if (producer < 0 || context.graph.nodes[producer].op != &ops::kLinear) {
    return invalid_input(
        "has gates of another layer than a linear one, which is part of ONNX's operator");
  }
  const bool has_lengths = node.inputs.size() > ops::kLengthsInput;
  if (has_lengths) {
    MANTISSA_RETURN_IF_ERROR(
        check_lengths(context, node, ops::kLengthsInput, context.input(node).side));
  }
  const Node& linear = context.graph.nodes[producer];
  MANTISSA_ASSIGN(std::vector<std::string> inputs, inputs_of(context, node, linear, kind));
  std::vector<NodeAttribute> attributes = {{"hidden_size", context.shape(node.outputs[0]).last()}};
  if (node.op == &ops::kGru) attributes.push_back({"linear_before_reset", int64_t{1}});
  const std::string last = has_lengths ? node.name + "/last" : "";
  const std::string states = context.builder.add(
      kind.name, node.name + "/states", std::move(inputs), std::move(attributes),
      has_lengths ? std::vector{last} : std::vector<std::string>{});
  return rows_of(context, node, states, last);
}

}  // namespace

Result<Exported> export_row_rnn(ExportContext& context, int n) {
  return export_kind(context, n, {"RNN", {0}});
}

// i, o, f, c of i, f, g, o.
Result<Exported> export_row_lstm(ExportContext& context, int n) {
  return export_kind(context, n, {"LSTM", {0, 3, 1, 2}});
}

// z, r, h of r, z, n.
Result<Exported> export_row_gru(ExportContext& context, int n) {
  return export_kind(context, n, {"GRU", {1, 0, 2}});
}

}  // namespace mantissa::onnx
