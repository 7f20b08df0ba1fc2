// RNN, LSTM and GRU: a linear layer for the input's part of the gates, and the recurrent layer, for
// each direction. The backward one reads the input in the opposite order.
#include <algorithm>
#include <string>
#include <utility>

#include "onnx/import/operators.h"
#include "onnx/import/rows.h"
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
  int64_t steps, channels, gates, directions;
};

// The node's attributes, as far as they must match our layers.
Status check_attributes(const NodeData& node, const Kind& kind) {
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
    if (attribute.name != "activations" || names == nullptr) continue;
    std::vector<std::string> wanted = kind.functions;  // one entry per direction
    if (names->size() > wanted.size()) {
      wanted.insert(wanted.end(), kind.functions.begin(), kind.functions.end());
    }
    if (*names == wanted) continue;
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

// One direction's part of an input of [directions, ...], whose other dimensions must be these.
Result<std::vector<double>> numbers_at(const ImportContext& context, const NodeData& node,
                                       size_t input, const Sizes& s, int64_t direction,
                                       std::vector<int64_t> dims) {
  MANTISSA_ASSIGN(const TensorData* tensor, weights_of(context, node, input));
  dims.insert(dims.begin(), s.directions);
  if (tensor->dims == dims) {
    MANTISSA_ASSIGN(const std::vector<double> all, numbers_of(*tensor));
    const std::ptrdiff_t part = std::ssize(all) / s.directions;
    return std::vector<double>(all.begin() + direction * part,
                               all.begin() + (direction + 1) * part);
  }
  return invalid_input("its input " + std::to_string(input + 1) +
                       " has not the shape of its other weights");
}

// The states at the start must be zeros, and constant lengths must be the whole sequence's.
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
  const TensorData* tensor = constant_of(context, node, kLengths);
  if (tensor == nullptr) return {};
  MANTISSA_ASSIGN(const std::vector<int64_t> lengths, wholes_of(*tensor));
  const std::vector<int64_t> dims = input.layout.dims();
  for (const int64_t length : lengths) {
    if (dims.size() == 3 && length != dims[by_example ? 1 : 0]) {
      return invalid_input("has constant lengths other than all of its positions");
    }
  }
  return {};
}

// Whether only recurrent layers with the same lengths read the value: they ignore its rows after
// the end.
bool feeds_recurrent(const ImportContext& context, const std::string& value,
                     const std::string& lengths) {
  const std::vector<const NodeData*> readers = readers_behind(context, value);
  return std::all_of(readers.begin(), readers.end(), [&](const NodeData* reader) {
    if (reader == nullptr || !has_input(*reader, kLengths)) return false;
    const std::string& op = reader->op_type;
    return (op == "LSTM" || op == "GRU" || op == "RNN") && reader->inputs[kLengths] == lengths;
  });
}

bool is_read(const ImportContext& context, const NodeData& node, size_t output) {
  return output < node.outputs.size() && !node.outputs[output].empty() &&
         is_read(context, node.outputs[output]);
}

// The graph's lengths of sequences; -1: there are none. After the end, h keeps its last value here.
Result<int> lengths_of(const ImportContext& context, const NodeData& node) {
  if (!has_input(node, kLengths) || constant_of(context, node, kLengths) != nullptr) return -1;
  MANTISSA_ASSIGN(const Imported lengths, input_of(context, node, kLengths));
  const Value& value = context.builder.graph().values[lengths.value];
  if (value.element != Element::kIndex || value.shape.rank != 0) {
    return invalid_input("has lengths that are no input of the model");
  }
  if (text_of(node, "direction", "forward") != "forward") {
    return invalid_input(
        "goes backward from the end of each sequence; with lengths only forward "
        "is possible");
  }
  if (!is_read(context, node, 0) ||
      feeds_recurrent(context, node.outputs[0], node.inputs[kLengths])) {
    return lengths.value;
  }
  return invalid_input(
      "has zeros behind the end of each sequence, which something else than "
      "another recurrent layer reads; with lengths the last state can be read");
}

// ONNX's [steps, batch, C], or [batch, steps, C] if examples are outermost.
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
  if (recurrent == nullptr || recurrent->dims.size() != 3) {
    return invalid_input("has no constant recurrent weights");
  }
  const int64_t channels = recurrent->dims[2];
  const int64_t directions = text_of(node, "direction", "forward") == "bidirectional" ? 2 : 1;
  return Sizes{shape[0], channels, channels < 1 ? 0 : recurrent->dims[1] / channels, directions};
}

// The biases, of the input's part and, for the candidate of GRU alone, of the recurrent part.
struct Biases {
  std::vector<double> of_input, of_candidate;
};
Result<Biases> biases_of(const ImportContext& context, const NodeData& node, const Kind& kind,
                         const Sizes& s, int64_t direction) {
  const int64_t all = s.gates * s.channels;
  std::vector<double> both(static_cast<size_t>(2 * all), 0.0);
  if (has_input(node, kB)) {
    MANTISSA_ASSIGN(both, numbers_at(context, node, kB, s, direction, {2 * all}));
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

// The layer's h of all positions, [steps, C], in the order of its input. The weights take the
// input's factor.
Result<int> add_layers(ImportContext& context, const NodeData& node, const Kind& kind, int input,
                       double factor, int lengths, const Sizes& s, int64_t direction) {
  const int64_t all = s.gates * s.channels, in = context.builder.shape(input).last();
  const auto part = [&](size_t place, const std::vector<int64_t>& dims) {
    return numbers_at(context, node, place, s, direction, dims);
  };
  MANTISSA_ASSIGN(std::vector<double> weights, part(kW, {all, in}));
  for (double& weight : weights) weight *= factor;
  MANTISSA_ASSIGN(const auto recurrent, part(kR, {all, s.channels}));
  MANTISSA_ASSIGN(Biases biases, biases_of(context, node, kind, s, direction));
  std::vector<std::vector<double>> numbers = {in_our_order(kind, recurrent)};
  Attributes attributes;
  if (!biases.of_candidate.empty()) numbers.push_back(std::move(biases.of_candidate));
  if (has_input(node, kPeepholes)) {
    MANTISSA_ASSIGN(const std::vector<double> given, part(kPeepholes, {3 * s.channels}));
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
      add_node(context, ops::kLinear, new_name(context, name + ".input"), {input},
               {{"channels", all}, {"initialiser", "fan-in"}, {"least_bits", kWideBits}},
               {in_our_order(kind, weights), std::move(biases.of_input)}));
  std::vector<int> inputs = {of_input};
  if (lengths >= 0) inputs.push_back(lengths);
  return add_node(context, *kind.op, name, std::move(inputs), attributes, std::move(numbers));
}

Result<int> reversed(ImportContext& context, int value) {
  return add_node(context, ops::kReverse, new_name(context, "reverse"), {value});
}

// Values of one direction or both, side by side.
Result<int> joined(ImportContext& context, const std::vector<int>& values) {
  if (values.size() == 1) return values[0];
  return add_node(context, ops::kConcat, new_name(context, "directions"), values);
}

// Defines the results: h of all positions, and the last of each direction.
Status define_states(ImportContext& context, const NodeData& node, const Sizes& s,
                     const std::vector<int>& all, const std::vector<int>& last) {
  const bool by_example = whole_of(node, "layout", 0) != 0;
  const int64_t batch = context.batch;
  if (is_read(context, node, 0)) {  // [steps, directions, batch, C], or with the batch first
    MANTISSA_ASSIGN(const int value, joined(context, all));
    Layout layout = Layout::of(std::vector<int64_t>{batch, s.steps, s.directions, s.channels});
    if (!by_example) layout.transpose(std::vector<int>{1, 2, 0, 3});
    define(context, node.outputs[0], {value, std::move(layout), {}, Form::kRows});
  }
  if (is_read(context, node, 1)) {  // [directions, batch, C], or with the batch first
    std::vector<int> states;
    for (const int h : last) {
      MANTISSA_ASSIGN(const int state, last_position(context, new_name(context, "last"), h));
      states.push_back(state);
    }
    MANTISSA_ASSIGN(const int value, joined(context, states));
    Layout layout = Layout::of(std::vector<int64_t>{batch, s.directions, s.channels});
    if (!by_example) layout.transpose(std::vector<int>{1, 0, 2});
    define(context, node.outputs[1], {value, std::move(layout), {}, Form::kRows});
  }
  return {};
}

Status import_kind(ImportContext& context, const NodeData& node, const Kind& kind) {
  MANTISSA_RETURN_IF_ERROR(check_attributes(node, kind));
  MANTISSA_RETURN_IF_ERROR(check_no_padding(context));
  MANTISSA_ASSIGN(const Imported input, input_of(context, node, kX));
  const double factor = input.scale.empty() ? 1 : input.scale[0];
  const bool by_example = whole_of(node, "layout", 0) != 0;
  MANTISSA_RETURN_IF_ERROR(check_start(context, node, input, by_example));
  MANTISSA_ASSIGN(const Sizes s, sizes_of(context, node, input, by_example));
  if (s.gates != std::ssize(kind.gates)) return invalid_input("has another number of gates");
  if (is_read(context, node, 2)) return invalid_input("its last cell is read; only h is a result");
  MANTISSA_ASSIGN(const int lengths, lengths_of(context, node));
  const bool starts_forward = text_of(node, "direction", "forward") != "reverse";
  std::vector<int> all, last;  // of each direction; the last in the order of its steps
  for (int64_t direction = 0; direction < s.directions; ++direction) {
    const bool forward = starts_forward && direction == 0;
    int x = input.value;
    if (!forward) {
      MANTISSA_ASSIGN(x, reversed(context, x));
    }
    MANTISSA_ASSIGN(int h, add_layers(context, node, kind, x, factor, lengths, s, direction));
    last.push_back(h);
    if (!forward && is_read(context, node, 0)) {
      MANTISSA_ASSIGN(h, reversed(context, h));
    }
    all.push_back(h);
  }
  return define_states(context, node, s, all, last);
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
