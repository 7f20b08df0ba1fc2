#include "onnx/export/inputs.h"

#include <algorithm>
#include <utility>

#include "onnx/export/volumes.h"
#include "ops/ops.h"

namespace mantissa::onnx {
namespace {

// The model's input for one of the network's. Sequences have the names of transformers' exports.
struct InputRow {
  const char* network;  // null: any
  const char* model;
  Form form;
  Side side = Side::kSource;
};
constexpr InputRow kInputs[] = {
    {nullptr, "pixels", Form::kBytes},
    {"numbers", "numbers", Form::kRows},
    {"tokens", "input_ids", Form::kTokens},
    {"segments", "token_type_ids", Form::kTokens},
    {"lengths", "attention_mask", Form::kMask},
    {"source", "input_ids", Form::kTokens},
    {"source_length", "attention_mask", Form::kMask},
    {"target", "decoder_input_ids", Form::kTokens, Side::kTarget},
    {"target_length", "decoder_attention_mask", Form::kMask, Side::kTarget},
};

// Whether the network's input has the elements of the model's, for each example.
bool has_form(const Value& input, Form form) {
  const int rank = input.shape.rank;
  if (form == Form::kBytes) return input.type == DataType::kUint8 && rank == 3;
  if (form == Form::kRows) return input.element == Element::kNumber && rank == 2;
  return input.element == Element::kIndex && rank == (form == Form::kTokens ? 1 : 0);
}

// Numbers of pictures or positions.
constexpr InputRow kNumberImages = {"numbers", "numbers", Form::kBytes};

// Rows of a table, not yet standardised.
constexpr InputRow kColumns = {"numbers", "columns", Form::kBytes};

// The inputs that nodes other than losses read, but for places of rows.
std::vector<int> example_inputs(const Graph& network) {
  std::vector<int> inputs;
  for (const int input : network.inputs) {
    if (is_places(network, input)) continue;
    for (int n = 0; n < std::ssize(network.nodes); ++n) {
      const auto& read = network.nodes[n].inputs;
      if (network.is_loss(n) || std::find(read.begin(), read.end(), input) == read.end()) continue;
      inputs.push_back(input);
      break;
    }
  }
  return inputs;
}

// Whether the network reads several pictures and rows of numbers, and nothing else. Then the
// model's inputs have the network's names.
bool has_own_names(const Graph& network) {
  const std::vector<int> inputs = example_inputs(network);
  return inputs.size() > 1 && std::all_of(inputs.begin(), inputs.end(), [&](int input) {
           const Value& value = network.values[input];
           return has_form(value, Form::kBytes) ||
                  (value.element == Element::kNumber && value.shape.rank == 1);
         });
}

// Null: there is none, or it is already in the model.
const InputRow* input_row(const ExportContext& context, const Value& input) {
  if (input.name == kNumberImages.network && reads_numbers_as_mantissas(context.graph)) {
    return input.shape.rank == 1 ? &kColumns : &kNumberImages;
  }
  const auto& made = context.builder.graph.inputs;
  const auto* row = std::find_if(std::begin(kInputs), std::end(kInputs), [&](const InputRow& each) {
    const bool is_named_so = each.network == nullptr || each.network == input.name;
    return is_named_so && has_form(input, each.form);
  });
  if (row == std::end(kInputs)) return nullptr;
  const bool is_taken = std::any_of(made.begin(), made.end(),
                                    [&](const ValueData& one) { return one.name == row->model; });
  return is_taken ? nullptr : row;
}

ValueData model_input(const InputRow& row, const Shape& shape, bool is_fixed) {
  if (row.form == Form::kBytes) {
    ValueData input = {row.model,
                       row.network == nullptr ? ElementType::kUint8 : ElementType::kFloat,
                       true,
                       {{-1, "N"}, {shape.last(), ""}}};
    for (int i = 0; i + 1 < shape.rank; ++i) input.dims.push_back({shape[i], ""});
    return input;
  }
  Dimension length = {-1, length_name(row.side)};
  if (row.form == Form::kPlaces || (is_fixed && shape.rank > 0)) length = {shape[0], ""};
  ValueData input = {row.model, ElementType::kInt64, true, {{-1, "batch"}, length}};
  if (row.form == Form::kRows) {
    input.type = ElementType::kFloat;
    input.dims.push_back({shape.last(), ""});
  }
  return input;
}

// The name of one of several results: of the labels or targets that its loss compares it with.
std::string name_of_result(const Graph& graph, int result) {
  for (const int loss : graph.losses) {
    const std::vector<int>& inputs = graph.nodes[loss].inputs;
    if (inputs.size() > 1 && inputs[0] == result) return graph.values[inputs[1]].name;
  }
  return "";
}

bool is_read_by_losses_alone(const ExportContext& context, int value) {
  const std::vector<int>& readers = context.readers[static_cast<size_t>(value)];
  return std::all_of(readers.begin(), readers.end(),
                     [&](int node) { return context.graph.is_loss(node); });
}

std::string reason_against_inputs(const ExportContext& context, const std::string& unknown) {
  const Value& first = main_input(context.graph);
  if (first.element == Element::kMantissa) {
    return context.builder.graph.inputs.empty() ? "it reads no pictures"
                                                : "it reads " + unknown + " beside its pictures";
  }
  return "it reads " + unknown +
         ", and exported networks of sequences read 'tokens' and 'segments' or 'numbers', and "
         "'lengths', or 'source' and 'target' with 'source_length' and 'target_length'";
}

}  // namespace

bool is_places(const Graph& network, int input) {
  bool any = false;
  for (int n = 0; n < std::ssize(network.nodes); ++n) {
    const Node& node = network.nodes[n];
    const auto reads = std::count(node.inputs.begin(), node.inputs.end(), input);
    if (reads == 0 || network.is_loss(n)) continue;
    const bool by_places = node.op == &ops::kGatherRows || node.op == &ops::kScatterRows;
    if (!by_places || node.inputs[0] == input) return false;
    any = true;
  }
  return any;
}

const Value& main_input(const Graph& network) {
  const auto found = std::find_if(network.inputs.begin(), network.inputs.end(),
                                  [&](int input) { return !is_places(network, input); });
  return network.values[found == network.inputs.end() ? network.inputs[0] : *found];
}

bool has_fixed_length(const Graph& network) {
  return std::any_of(network.nodes.begin(), network.nodes.end(), [](const Node& node) {
    return node.op == &ops::kGatherRows || node.op == &ops::kScatterRows;
  });
}

const char* length_name(Side side) {
  return side == Side::kSource ? "sequence" : "decoder_sequence";
}

bool reads_numbers_as_mantissas(const Graph& network) {
  if (has_own_names(network)) return true;
  const Value& input = main_input(network);
  if (input.element != Element::kNumber) return false;
  const auto is_over_places = [](const Node& node) {
    return node.op == &ops::kConvolution || node.op == &ops::kRescaledConvolution ||
           node.op == &ops::kTransposedConvolution;
  };
  return input.shape.rank != 2 ||
         std::any_of(network.nodes.begin(), network.nodes.end(), is_over_places);
}

bool reads_sequences(const ExportContext& context) {
  if (reads_numbers_as_mantissas(context.graph)) return false;
  const auto& inputs = context.graph.inputs;
  return std::any_of(inputs.begin(), inputs.end(), [&](int input) {
    const std::optional<Exported>& value = context.values[static_cast<size_t>(input)];
    return value && !value->is_mantissas() && value->form != Form::kPlaces;
  });
}

bool has_padding(const ExportContext& context, Side side) {
  const auto& values = context.values;
  return std::any_of(values.begin(), values.end(), [&](const std::optional<Exported>& value) {
    return value && value->form == Form::kMask && value->side == side;
  });
}

std::string add_inputs(ExportContext& context) {
  const Graph& graph = context.graph;
  std::string unknown;
  for (const int value : graph.inputs) {
    if (is_read_by_losses_alone(context, value)) continue;
    const Value& input = graph.values[value];
    const bool has_places = is_places(graph, value);
    const InputRow own = {input.element == Element::kNumber ? input.name.c_str() : nullptr,
                          input.name.c_str(), has_places ? Form::kPlaces : Form::kBytes};
    const InputRow* row =
        has_places || has_own_names(graph) ? &own : input_row(context, input);
    if (row == nullptr) {
      unknown += (unknown.empty() ? "'" : ", '") + input.name + "'";
      continue;
    }
    context.builder.graph.inputs.push_back(
        model_input(*row, input.shape, has_fixed_length(graph)));
    context.values[static_cast<size_t>(value)] =
        Exported{.name = row->model, .form = row->form, .side = row->side};
  }
  return unknown.empty() ? unknown : reason_against_inputs(context, unknown);
}

std::string name_outputs(ExportContext& context) {
  const Graph& graph = context.graph;
  if (graph.outputs.size() == 1) {
    const bool is_hidden = graph.losses.empty() && reads_sequences(context);
    context.outputs = {is_hidden ? "last_hidden_state" : "logits"};
    return "";
  }
  std::string reason;
  for (const int result : graph.outputs) {
    const std::string name = name_of_result(graph, result);
    context.outputs.push_back(name);
    if (name.empty()) {
      reason = "its result '" + graph.values[result].name + "' has no loss, whose labels name it";
    }
    for (const ValueData& input : context.builder.graph.inputs) {
      if (input.name != name) continue;
      reason = "its output '" + name + "' has the name of an input of the file";
    }
  }
  return reason;
}

namespace {

void add_output(ExportContext& context, int value, const std::string& name) {
  const Graph& graph = context.graph;
  const Exported& result = *context.values[static_cast<size_t>(value)];
  ExportBuilder& to = context.builder;
  const Shape& shape = context.shape(value);
  if (result.form == Form::kBytes) {
    const std::string bytes =
        ops::is_volume(shape) ? volume_as_result(context, result.name, shape, name + "/volume")
                              : result.name;
    to.add("DequantizeLinear", name, {bytes, to.power(result.exponent), to.byte(result.zero)});
  } else if (result.name != name) {
    to.add("Identity", name, {result.name});
  }
  std::vector<Dimension> dims = {to.graph.inputs[0].dims[0]};
  if (result.form == Form::kRows) {
    dims.push_back(has_fixed_length(graph) ? Dimension{shape[shape.rank - 2], ""}
                                           : Dimension{-1, length_name(result.side)});
  }
  dims.push_back({shape.last(), ""});
  for (int i = 0; i + 1 < shape.rank && result.form != Form::kRows; ++i) {
    dims.push_back({shape[i], ""});
  }
  to.graph.outputs.push_back({name, ElementType::kFloat, true, std::move(dims)});
}

}  // namespace

void add_outputs(ExportContext& context) {
  const std::vector<int>& results = context.graph.outputs;
  for (size_t i = 0; i < results.size(); ++i) add_output(context, results[i], context.outputs[i]);
}

}  // namespace mantissa::onnx
