#include "onnx/export/exporter.h"

#include <algorithm>
#include <string>
#include <utility>

#include "onnx/export/check_exported.h"
#include "onnx/export/each_node.h"
#include "onnx/export/sequences/operators.h"

namespace mantissa::onnx {
namespace {

constexpr int64_t kOpset = 20, kIrVersion = 9;  // 20: the first with Gelu

// The model's input for one of the network's.
struct InputRow {
  const char* network;
  const char* model;
  SequenceValue::Form form;
  Side side;
};
constexpr InputRow kInputs[] = {
    {"numbers", kNumbers, SequenceValue::Form::kRows, Side::kSource},
    {"tokens", kInputIds, SequenceValue::Form::kTokens, Side::kSource},
    {"segments", kTokenTypeIds, SequenceValue::Form::kTokens, Side::kSource},
    {"lengths", kAttentionMask, SequenceValue::Form::kMask, Side::kSource},
    {"source", kInputIds, SequenceValue::Form::kTokens, Side::kSource},
    {"source_length", kAttentionMask, SequenceValue::Form::kMask, Side::kSource},
    {"target", kDecoderInputIds, SequenceValue::Form::kTokens, Side::kTarget},
    {"target_length", kDecoderAttentionMask, SequenceValue::Form::kMask, Side::kTarget},
};

// Whether the network's input has the elements of the model's, of one sequence for each example.
bool has_form(const Value& input, SequenceValue::Form form) {
  if (form == SequenceValue::Form::kRows) {
    return input.element == Element::kNumber && input.shape.rank == 2;
  }
  const int rank = form == SequenceValue::Form::kTokens ? 1 : 0;
  return input.element == Element::kIndex && input.shape.rank == rank;
}

// Null: there is none, or it is already in the model.
const InputRow* input_row(const SequenceContext& context, const Value& input) {
  const auto& made = context.builder.graph.inputs;
  const auto* row = std::find_if(std::begin(kInputs), std::end(kInputs), [&](const InputRow& each) {
    return each.network == input.name && has_form(input, each.form);
  });
  if (row == std::end(kInputs)) return nullptr;
  const bool is_taken = std::any_of(made.begin(), made.end(),
                                    [&](const ValueData& one) { return one.name == row->model; });
  return is_taken ? nullptr : row;
}

ValueData model_input(const InputRow& row, const Shape& shape) {
  ValueData input = {
      row.model, ElementType::kInt64, true, {{-1, "batch"}, {-1, length_name(row.side)}}};
  if (row.form == SequenceValue::Form::kRows) {
    input.type = ElementType::kFloat;
    input.dims.push_back({shape.last(), ""});
  }
  return input;
}

bool is_read_by_losses_alone(const SequenceContext& context, int value) {
  const std::vector<int>& readers = context.readers[static_cast<size_t>(value)];
  return std::all_of(readers.begin(), readers.end(),
                     [&](int node) { return context.graph.is_loss(node); });
}

// The result says which inputs the model cannot have.
std::string add_inputs(SequenceContext& context) {
  const Graph& graph = context.graph;
  std::string unknown;
  for (const int value : graph.inputs) {
    if (is_read_by_losses_alone(context, value)) continue;
    const Value& input = graph.values[value];
    const InputRow* row = input_row(context, input);
    if (row == nullptr) {
      unknown += (unknown.empty() ? "'" : ", '") + input.name + "'";
      continue;
    }
    context.builder.graph.inputs.push_back(model_input(*row, input.shape));
    context.values[static_cast<size_t>(value)] = {row->model, row->form, row->side};
  }
  return unknown.empty()
             ? unknown
             : "it reads " + unknown +
                   ", and exported networks of sequences read 'tokens' and 'segments' "
                   "or 'numbers', and 'lengths', or 'source' and 'target' with 'source_length' and "
                   "'target_length'";
}

void add_output(SequenceContext& context) {
  const Graph& graph = context.graph;
  const SequenceValue& result = *context.values[static_cast<size_t>(graph.outputs[0])];
  const char* name = graph.losses.empty() ? kLastHiddenState : kSequenceLogits;
  ExportBuilder& to = context.builder;
  to.add("Identity", name, {result.name});
  std::vector<Dimension> dims = {{-1, "batch"}};
  if (result.form == SequenceValue::Form::kRows) dims.push_back({-1, length_name(result.side)});
  dims.push_back({graph.classes(), ""});
  to.graph.outputs.push_back({name, ElementType::kFloat, true, std::move(dims)});
}

// A refused node still gets results of its shapes, so that the nodes after it are tried, too.
Result<SequenceValue> export_or_pretend(SequenceContext& context, int n) {
  auto exported = export_sequence_node(context, n);
  if (exported.ok()) return exported;
  const Side side = context.input(context.graph.nodes[n]).side;
  for (const int output : context.graph.nodes[n].outputs) {
    const Value& value = context.graph.values[output];
    const auto form =
        value.shape.rank == 1 ? SequenceValue::Form::kVector : SequenceValue::Form::kRows;
    context.values[static_cast<size_t>(output)] = {value.name, form, side};
  }
  return exported;
}

// Everything that cannot be exported.
std::string export_all(SequenceContext& context) {
  std::string reasons = add_inputs(context);
  const auto add = [&](const std::string& more) {
    if (!more.empty()) reasons += (reasons.empty() ? "" : "; ") + more;
  };
  add(export_each(context, export_or_pretend));
  if (context.graph.outputs.size() != 1) add("it has several results");
  return reasons;
}

}  // namespace

Result<ExportedModel> export_sequence_network(const ExportedNetwork& network) {
  const Graph& graph = *network.graph;
  SequenceContext context{network, graph, readers_of(graph), {}, {}};
  context.values.resize(graph.values.size());
  const std::string reasons = export_all(context);
  if (!reasons.empty()) return invalid_input("cannot be exported: " + reasons);
  add_output(context);
  ExportedModel result;
  result.model.ir_version = kIrVersion;
  result.model.opsets = {{"", kOpset}};
  result.model.producer_name = "mantissa";
  result.model.graph = std::move(context.builder.graph);
  result.model.graph.name = graph.name;
  MANTISSA_RETURN_IF_ERROR(check_exported(result.model));
  return result;
}

}  // namespace mantissa::onnx
