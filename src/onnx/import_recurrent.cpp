// RNN, LSTM and GRU: a linear layer for the input's part of the gates, and the recurrent layer.
#include <algorithm>
#include <string>
#include <utility>

#include "onnx/import_rows.h"
#include "ops/ops.h"

namespace mantissa::onnx {
namespace {

enum Place : size_t { kX, kW, kR, kB, kLengths, kStart, kStartCell, kPeepholes };

struct Kind {
  const Op* op;
  std::vector<int64_t> gates;  // of ONNX, in our order
  std::vector<std::string> functions;
};

struct Sizes {
  int64_t steps, channels, gates;
};

// The node's attributes, as far as they must be what our layers compute.
Status check_attributes(const NodeData& node, const Kind& kind) {
  const std::string direction = text_of(node, "direction", "forward");
  if (direction != "forward") {
    return invalid_input("goes " + direction +
                         "; layers go forward here, and no operator reverses a sequence");
  }
  if (has_attribute(node, "clip")) return invalid_input("clips its gates");
  if (whole_of(node, "input_forget", 0) != 0) return invalid_input("couples its gates");
  if (kind.op == &ops::kGru && whole_of(node, "linear_before_reset", 0) == 0) {
    return invalid_input(
        "applies the reset gate before the recurrent product (linear_before_reset of 0); only "
        "behind "
        "it is possible, as PyTorch has it");
  }
  for (const NodeAttribute& attribute : node.attributes) {
    const auto* names = std::get_if<std::vector<std::string>>(&attribute.value);
    if (attribute.name != "activations" || names == nullptr || *names == kind.functions) continue;
    return invalid_input("has other functions than " + kind.functions[0] +
                         (kind.functions.size() > 1 ? " and Tanh" : ""));
  }
  return {};
}

// Rows of a matrix [gates * C, ...] in our order of gates.
std::vector<double> in_our_order(const Kind& kind, const std::vector<double>& from) {
  const auto part = static_cast<std::ptrdiff_t>(from.size() / kind.gates.size());
  std::vector<double> to;
  to.reserve(from.size());
  for (const int64_t gate : kind.gates) {
    to.insert(to.end(), from.begin() + gate * part, from.begin() + (gate + 1) * part);
  }
  return to;
}

Result<std::vector<double>> numbers_at(const ImportContext& context, const NodeData& node,
                                       size_t input, const std::vector<int64_t>& dims) {
  MANTISSA_ASSIGN(const TensorData* tensor, weights_of(context, node, input));
  if (tensor->dims == dims) return numbers_of(*tensor);
  return invalid_input("its input " + std::to_string(input + 1) +
                       " has not the shape of its other weights");
}

// The states at the start must be zeros, and all sequences whole.
Status check_start(const ImportContext& context, const NodeData& node, const Imported& input,
                   bool by_example) {
  for (const size_t state : {kStart, kStartCell}) {
    if (!has_input(node, state)) continue;
    MANTISSA_ASSIGN(const TensorData* tensor, weights_of(context, node, state));
    MANTISSA_ASSIGN(const std::vector<double> numbers, numbers_of(*tensor));
    if (std::any_of(numbers.begin(), numbers.end(), [](double x) { return x != 0; })) {
      return invalid_input("starts with a state other than zeros");
    }
  }
  if (!has_input(node, kLengths)) return {};
  MANTISSA_ASSIGN(const TensorData* tensor, weights_of(context, node, kLengths));
  MANTISSA_ASSIGN(const std::vector<int64_t> lengths, wholes_of(*tensor));
  const std::vector<int64_t> dims = input.layout.dims();
  for (const int64_t length : lengths) {
    if (dims.size() == 3 && length != dims[by_example ? 1 : 0]) {
      return invalid_input("has sequences of other lengths than all of their positions");
    }
  }
  return {};
}

// ONNX's [steps, batch, C], or [batch, steps, C] where examples are outermost.
Result<Sizes> sizes_of(const ImportContext& context, const NodeData& node, const Imported& input,
                       bool by_example) {
  const Shape shape = context.builder.shape(input.value);
  const std::vector<int64_t> dims = input.layout.dims();
  const std::vector<int> order = by_example ? std::vector{0, 1, 2} : std::vector{1, 0, 2};
  const bool fits = shape.rank == 2 && dims.size() == 3 && dims[order[0]] == context.batch &&
                    dims[order[1]] == shape[0] && dims[2] == shape[1] &&
                    input.layout.lies_as(order);
  if (!fits) {
    return invalid_input(
        std::string("wants an input of ") +
        (by_example ? "[examples, positions, channels]" : "[positions, examples, channels]"));
  }
  const TensorData* recurrent = constant_of(context, node, kR);
  if (recurrent == nullptr || recurrent->dims.size() != 3 || recurrent->dims[0] != 1) {
    return invalid_input("has no constant recurrent weights of one direction");
  }
  const int64_t channels = recurrent->dims[2];
  return Sizes{shape[0], channels, channels < 1 ? 0 : recurrent->dims[1] / channels};
}

// The biases, of the input's part and, for the candidate of GRU alone, of the recurrent part.
struct Biases {
  std::vector<double> of_input, of_candidate;
};
Result<Biases> biases_of(const ImportContext& context, const NodeData& node, const Kind& kind,
                         const Sizes& s) {
  const int64_t all = s.gates * s.channels;
  std::vector<double> both(static_cast<size_t>(2 * all), 0.0);
  if (has_input(node, kB)) {
    MANTISSA_ASSIGN(both, numbers_at(context, node, kB, {1, 2 * all}));
  }
  const std::vector<double> first = in_our_order(kind, {both.begin(), both.begin() + all});
  const std::vector<double> second = in_our_order(kind, {both.begin() + all, both.end()});
  Biases biases{first, {}};
  const bool is_gru = kind.op == &ops::kGru;
  const int64_t added = is_gru ? 2 * s.channels : all;
  for (int64_t i = 0; i < added; ++i) biases.of_input[i] += second[i];
  if (is_gru) biases.of_candidate.assign(second.begin() + added, second.end());
  return biases;
}

// The layer's h of all positions, [steps, C].
Result<int> add_layers(ImportContext& context, const NodeData& node, const Kind& kind,
                       const Imported& input, const Sizes& s) {
  const int64_t all = s.gates * s.channels, in = context.builder.shape(input.value).last();
  MANTISSA_ASSIGN(const auto weights, numbers_at(context, node, kW, {1, all, in}));
  MANTISSA_ASSIGN(const auto recurrent, numbers_at(context, node, kR, {1, all, s.channels}));
  MANTISSA_ASSIGN(Biases biases, biases_of(context, node, kind, s));
  std::vector<std::vector<double>> numbers = {in_our_order(kind, recurrent)};
  Attributes attributes;
  if (!biases.of_candidate.empty()) numbers.push_back(std::move(biases.of_candidate));
  if (has_input(node, kPeepholes)) {
    MANTISSA_ASSIGN(const std::vector<double> given,
                    numbers_at(context, node, kPeepholes, {1, 3 * s.channels}));
    // ONNX's i, o, f as i, f, o.
    std::vector<double> peepholes;
    for (const int64_t gate : {0, 2, 1}) {
      const auto from = given.begin() + gate * s.channels;
      peepholes.insert(peepholes.end(), from, from + s.channels);
    }
    numbers.push_back(std::move(peepholes));
    attributes = {{"peepholes", 1}};
  }
  const std::string name = node_name(context, node);
  MANTISSA_ASSIGN(
      const int of_input,
      add_node(context, ops::kLinear, new_name(context, name + ".input"), {input.value},
               {{"channels", all}, {"initialiser", "fan-in"}, {"least_bits", kWideBits}},
               {in_our_order(kind, weights), std::move(biases.of_input)}));
  return add_node(context, *kind.op, name, {of_input}, attributes, std::move(numbers));
}

bool is_read(const ImportContext& context, const NodeData& node, size_t output) {
  if (output >= node.outputs.size() || node.outputs[output].empty()) return false;
  return context.readers.contains(node.outputs[output]) ||
         context.results.contains(node.outputs[output]);
}

Status import_kind(ImportContext& context, const NodeData& node, const Kind& kind) {
  MANTISSA_RETURN_IF_ERROR(check_attributes(node, kind));
  MANTISSA_ASSIGN(const Imported input, plain_input(context, node, kX));
  const bool by_example = whole_of(node, "layout", 0) != 0;
  MANTISSA_RETURN_IF_ERROR(check_start(context, node, input, by_example));
  MANTISSA_ASSIGN(const Sizes s, sizes_of(context, node, input, by_example));
  if (s.gates != std::ssize(kind.gates)) return invalid_input("has another number of gates");
  if (is_read(context, node, 2)) return invalid_input("its last cell is read; only h is a result");
  MANTISSA_ASSIGN(const int h, add_layers(context, node, kind, input, s));
  const int64_t batch = context.batch;
  if (is_read(context, node, 0)) {  // [steps, 1, batch, C], or [batch, steps, 1, C]
    Layout all = Layout::of(std::vector<int64_t>{batch, s.steps, 1, s.channels});
    const int order[] = {1, 2, 0, 3};
    if (!by_example) all.transpose(order);
    define(context, node.outputs[0], {h, std::move(all), {}});
  }
  if (is_read(context, node, 1)) {  // [1, batch, C], or [batch, 1, C]
    MANTISSA_ASSIGN(const int last, last_position(context, new_name(context, "last"), h));
    define(context, node.outputs[1],
           {last,
            Layout::of(by_example ? std::vector<int64_t>{batch, 1, s.channels}
                                  : std::vector<int64_t>{1, batch, s.channels}),
            {}});
  }
  return {};
}

}  // namespace

Status import_rnn(ImportContext& context, const NodeData& node) {
  return import_kind(context, node, {&ops::kRnn, {0}, {"Tanh"}});
}

// ONNX's gates are i, o, f, c.
Status import_lstm(ImportContext& context, const NodeData& node) {
  return import_kind(context, node, {&ops::kLstm, {0, 2, 3, 1}, {"Sigmoid", "Tanh", "Tanh"}});
}

// ONNX's gates are z, r, h.
Status import_gru(ImportContext& context, const NodeData& node) {
  return import_kind(context, node, {&ops::kGru, {1, 0, 2}, {"Sigmoid", "Tanh"}});
}

}  // namespace mantissa::onnx
