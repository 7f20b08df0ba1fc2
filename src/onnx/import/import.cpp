#include "onnx/import/import.h"

#include <algorithm>
#include <utility>

#include "formats/arrays/safetensors_header.h"
#include "models/json/network_json.h"
#include "onnx/evaluate/evaluate.h"
#include "onnx/evaluate/op_table.h"
#include "onnx/import/inputs.h"
#include "onnx/import/operators.h"
#include "onnx/import/outputs.h"
#include "onnx/import/result.h"
#include "onnx/import/rewrite/one_axis.h"
#include "onnx/import/rewrite/rewrite.h"
#include "onnx/import/rows.h"
#include "onnx/names_by_text.h"

namespace mantissa::onnx {
namespace {

constexpr size_t kMostReasons = 32, kMostNames = 3;

// 'name', or the name of its result if it has none.
std::string subject(const NodeData& node) { return "'" + readable(name_of(node)) + "'"; }

std::string joined(const std::vector<std::string>& names) {
  std::string text = names.size() == 1 ? "node " : "nodes ";
  for (size_t i = 0; i < std::min(names.size(), kMostNames); ++i) {
    text += (i == 0 ? "" : ", ") + names[i];
  }
  if (names.size() > kMostNames) {
    text += " and " + std::to_string(names.size() - kMostNames) + " more";
  }
  return text;
}

// Whether the operator's result follows from the shape of its input alone.
bool is_of_shape(const std::string& op_type) { return op_type == "Shape" || op_type == "Size"; }

// Whether the first node makes [N, C, H, W] of the input's [N, H, W, C].
bool turns_channels_first(const GraphData& graph) {
  return !graph.nodes.empty() && graph.nodes[0].op_type == "Transpose" &&
         wholes_of(graph.nodes[0], "perm") == std::vector<int64_t>{0, 3, 1, 2};
}

class Import {
 public:
  Import(const ModelData& model, const ImportOptions& options, int batch_axis,
         bool other_mask = false)
      : options_(options), other_mask_(other_mask), model_(model), graph_(model_.graph) {
    context_.options = &options;
    context_.batch_axis = batch_axis;
    context_.signal = signal_axes(graph_);
  }

  bool has_mask() const { return !context_.mask_lengths.empty(); }
  // How many nodes came before the first that cannot be imported; -1: not even inputs can.
  int64_t imported() const { return imported_; }

  Result<ImportedNetwork> run() {
    // Before folding, which gives weights that share numbers one name.
    context_.fixed = fixed_constants(graph_);
    lift_constants(graph_);
    leave_out_zero_biases(graph_);
    take_sequences_apart(graph_);
    context_.notes = make_numbers_real(graph_);
    for (std::string& text : unpack_n_bits(graph_)) note(std::move(text));
    for (ValueData& input : graph_.inputs) {
      choose_sizes(options_, context_.batch_axis, context_.signal, input);
    }
    context_.mask_lengths = take_mask(graph_, context_.batch_axis, other_mask_);
    const Shapes shapes = input_shapes(model_);
    MANTISSA_ASSIGN(model_, fold_constants(std::move(model_), shapes));
    for (std::string& text : leave_out_inner_pairs(graph_)) note(std::move(text));
    join_spelled_out_functions(graph_);
    if (context_.signal != SignalAxes::kNone) lay_out_signals(graph_);
    context_.reads_channels_last = turns_channels_first(graph_);
    for (const TensorData& tensor : graph_.initialisers) context_.constants[tensor.name] = &tensor;
    for (const ValueData& value : graph_.values) note_shape(value);
    for (const ValueData& value : graph_.outputs) note_shape(value);
    MANTISSA_RETURN_IF_ERROR(find_outputs());
    find_needed();
    context_.model = &graph_;
    context_.opset = model_.opsets[""];
    MANTISSA_RETURN_IF_ERROR(add_inputs(context_, inputs_));
    name_targets();
    imported_ = 0;
    for (const NodeData& node : graph_.nodes) {
      if (needed_.contains(&node)) import_node(node);
      imported_ += problems_.empty() ? 1 : 0;
    }
    for (ModelResult& result : results_) place_softmax(result);
    if (!problems_.empty()) return unsupported();
    MANTISSA_ASSIGN(Graph graph, finish(context_, results_));
    return ImportedNetwork{std::move(graph), std::move(context_.parameters),
                           std::move(context_.notes), std::move(outputs_)};
  }

 private:
  Status find_outputs() {
    for (const ValueData& output : graph_.outputs) outputs_.push_back(output.name);
    MANTISSA_ASSIGN(results_, chosen_outputs(graph_, options_, context_.notes));
    for (ModelResult& result : results_) {
      leave_to_loss(graph_, result, context_.notes);
      context_.results.insert(result.value);
    }
    return {};
  }

  // The labels or targets of several outputs are called as these, before nodes take the names.
  void name_targets() {
    if (results_.size() < 2) return;
    context_.names.insert({"labels", "targets", "weights"});  // of networks with one output
    for (ModelResult& result : results_) result.targets = new_name(context_, result.output);
  }

  // Where the classes of a result lie is known when it is imported. A softmax over anything else is
  // a node of the network.
  void place_softmax(ModelResult& result) {
    if (result.softmax == nullptr || !problems_.empty()) return;
    const auto value = context_.values.find(result.value);
    if (value == context_.values.end() ||
        is_over_classes(context_, *result.softmax, value->second)) {
      return leave_out(*result.softmax, ops::LossKind::kCrossEntropy, result, context_.notes);
    }
    result.value = result.softmax->outputs[0];
    context_.results.insert(result.value);
    if (!context_.values.contains(result.value)) import_node(*result.softmax);
  }

  // Nodes that the outputs depend on, and who reads their values.
  void find_needed() {
    std::set<std::string> wanted = context_.results;
    for (auto node = graph_.nodes.rbegin(); node != graph_.nodes.rend(); ++node) {
      const bool is_wanted =
          std::any_of(node->outputs.begin(), node->outputs.end(),
                      [&](const std::string& output) { return wanted.contains(output); });
      if (!is_wanted) continue;
      needed_.insert(&*node);
      for (const std::string& input : node->inputs) {
        wanted.insert(input);
        context_.readers[input].push_back(&*node);
      }
    }
    for (const ValueData& input : graph_.inputs) {
      if (context_.constants.contains(input.name)) continue;
      if (wanted.contains(input.name)) inputs_.push_back(&input);
    }
  }

  void import_node(const NodeData& node) {
    if (context_.done.contains(&node)) return;
    const bool is_known = node.domain.empty() || node.domain == "ai.onnx";
    const Status turned = turn_pictures_into_rows(context_, node);
    if (!turned.ok()) return refuse(node, turned.error().message);
    const Form form = form_of(context_, node);
    const ImportFunction function = is_known ? import_function(node.op_type, form) : nullptr;
    const bool reads_unknown =
        std::any_of(node.inputs.begin(), node.inputs.end(),
                    [&](const std::string& input) { return context_.unknown.contains(input); });
    if (function == nullptr && reads_unknown && follows_from_shape(node)) return leave_shape(node);
    if (function == nullptr) {
      const bool has_reason = is_known || node.op_type == "MatMulNBits";
      return refuse(node, has_reason ? reason_against(node.op_type, form)
                                   : "is of the domain '" + readable(node.domain) +
                                         "', which has no operators here");
    }
    // The reason of an earlier node stands for those that read it.
    if (reads_unknown) return follows_from_shape(node) ? leave_shape(node) : leave(node);
    if (const NodeAttribute* unknown = unknown_attribute(node)) {
      return refuse(node,
                    "has the attribute '" + readable(unknown->name) + "', which is not supported");
    }
    const Status status = function(context_, node);
    if (!status.ok()) refuse(node, status.error().message);
  }

  // Otherwise, nodes that read the shape of a value that could not be imported would be folded.
  bool follows_from_shape(const NodeData& node) const {
    if (is_of_shape(node.op_type)) return true;
    return std::all_of(node.inputs.begin(), node.inputs.end(), [&](const std::string& input) {
      return input.empty() || context_.constants.contains(input) || of_shapes_.contains(input);
    });
  }
  void leave_shape(const NodeData& node) {
    of_shapes_.insert(node.outputs.begin(), node.outputs.end());
    leave(node);
  }

  void refuse(const NodeData& node, const std::string& reason) {
    ++problem_count_;
    add_name(problems_, " (" + readable(node.op_type) + "): " + reason, subject(node));
    leave(node);
  }
  void leave(const NodeData& node) {
    const Form form = form_of(context_, node);
    for (const std::string& output : node.outputs) context_.unknown[output] = form;
  }

  Error unsupported() const {
    std::string text = std::to_string(problem_count_) + (problem_count_ == 1 ? " node" : " nodes") +
                       " cannot be imported: ";
    for (size_t i = 0; i < std::min(problems_.size(), kMostReasons); ++i) {
      text += (i > 0 ? "; " : "") + joined(problems_[i].second) + problems_[i].first;
    }
    if (problems_.size() > kMostReasons) {
      text += "; and " + std::to_string(problems_.size() - kMostReasons) + " more reasons";
    }
    return invalid_input(text);
  }

  void note_shape(const ValueData& value) {
    for (const Dimension& dimension : value.dims) {
      context_.shapes[value.name].push_back(dimension.size);
    }
  }
  void note(std::string text) { context_.notes.push_back(std::move(text)); }

  const ImportOptions& options_;
  const bool other_mask_;
  ModelData model_;
  GraphData& graph_;
  ImportContext context_;
  std::vector<ModelResult> results_;
  std::vector<std::string> outputs_;  // all of the model's
  std::set<const NodeData*> needed_;
  std::vector<const ValueData*> inputs_;
  std::set<std::string> of_shapes_;  // unknown values that follow from shapes of others
  NamesByText problems_;             // by reason, the nodes that cannot be imported
  int64_t problem_count_ = 0;
  int64_t imported_ = -1;
};

bool same_network(const ImportedNetwork& a, const ImportedNetwork& b) {
  const auto same = [](const ImportedParameter& x, const ImportedParameter& y) {
    return x.floats == y.floats && x.doubles == y.doubles;
  };
  return to_json(a.graph) == to_json(b.graph) &&
         std::equal(a.parameters.begin(), a.parameters.end(), b.parameters.begin(),
                    b.parameters.end(), same);
}

// The network, or an error if another mask gives another one: then its numbers are in weights.
Result<ImportedNetwork> with_any_mask(const ModelData& model, const ImportOptions& options,
                                      int batch_axis, const Import& import,
                                      Result<ImportedNetwork> imported) {
  if (!import.has_mask()) return imported;
  const auto other = Import(model, options, batch_axis, true).run();
  if (other.ok() && same_network(*imported, *other)) return imported;
  return invalid_input("the mask of padding is read by something else than attention");
}

}  // namespace

Result<ImportedNetwork> import_network(const ModelData& model, const ImportOptions& options) {
  const std::vector<const ValueData*> inputs = inputs_of(model.graph);
  const bool has_sequences =
      signal_axes(model.graph) == SignalAxes::kNone &&
      std::any_of(inputs.begin(), inputs.end(),
                  [](const ValueData* input) { return is_sequence(*input); });
  // Only the nodes tell which of the first two dimensions counts examples: with the wrong one the
  // import stops earlier.
  Import first(model, options, 0), second(model, options, 1);
  auto imported = first.run();
  if (imported.ok()) return with_any_mask(model, options, 0, first, std::move(imported));
  if (!has_sequences) return imported;
  auto other = second.run();
  if (other.ok()) return with_any_mask(model, options, 1, second, std::move(other));
  return second.imported() > first.imported() ? std::move(other) : std::move(imported);
}

}  // namespace mantissa::onnx
