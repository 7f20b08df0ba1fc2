#include "onnx/import.h"

#include <algorithm>
#include <utility>

#include "formats/safetensors_header.h"
#include "models/models.h"
#include "onnx/evaluate/evaluate.h"
#include "onnx/import_form.h"
#include "onnx/import_operators.h"
#include "onnx/import_rewrite.h"
#include "ops/ops.h"

namespace mantissa::onnx {
namespace {

// Node "name" (Op), or its number where it has no name.
std::string subject(const GraphData& graph, const NodeData& node) {
  const std::string name = node.name.empty()
                               ? "number " + std::to_string(&node - graph.nodes.data())
                               : "'" + readable(node.name) + "'";
  return "node " + name + " (" + readable(node.op_type) + ")";
}

class Import {
 public:
  Import(const ModelData& model, const ImportOptions& options, const ImportForm& form,
         int batch_axis = 0, bool other_mask = false)
      : form_(form),
        options_(options),
        other_mask_(other_mask),
        model_(model),
        graph_(model_.graph) {
    context_.options = &options;
    context_.batch_axis = batch_axis;
  }

  bool has_mask() const { return !context_.mask_lengths.empty(); }
  // How many nodes came before the first that cannot be imported; -1: not even inputs can.
  int64_t imported() const { return imported_; }

  Result<ImportedNetwork> run() {
    // Before folding, which gives weights that share numbers one name.
    lift_constants(graph_);
    take_sequences_apart(graph_);
    choose_sizes();
    context_.mask_lengths = take_mask(graph_, context_.batch_axis, other_mask_);
    const Shapes shapes = input_shapes(model_);
    MANTISSA_ASSIGN(model_, fold_constants(std::move(model_), shapes));
    join_spelled_out_functions(graph_);
    for (const TensorData& tensor : graph_.initialisers) context_.constants[tensor.name] = &tensor;
    for (const ValueData& value : graph_.values) note_shape(value);
    for (const ValueData& value : graph_.outputs) note_shape(value);
    MANTISSA_RETURN_IF_ERROR(find_output());
    find_needed();
    context_.model = &graph_;
    MANTISSA_RETURN_IF_ERROR(form_.add_inputs(context_, inputs_));
    imported_ = 0;
    for (const NodeData& node : graph_.nodes) {
      if (needed_.contains(&node)) import_node(node);
      imported_ += problems_.empty() ? 1 : 0;
    }
    if (!problems_.empty()) return unsupported();
    return finish();
  }

 private:
  // All shapes are known then.
  void choose_sizes() {
    for (ValueData& input : graph_.inputs) {
      if (is_sequence(input) || is_lengths(input)) {
        choose_sequence_size(options_, context_.batch_axis, input);
      } else {
        choose_picture_size(options_, input);
      }
    }
  }

  Status find_output() {
    if (graph_.outputs.empty()) return invalid_input("the model has no output");
    std::string names;
    for (const ValueData& output : graph_.outputs) {
      outputs_.push_back(output.name);
      names += (names.empty() ? "" : ", ") + readable(output.name);
      if (options_.output.empty() || output.name == options_.output) {
        if (result_.empty()) result_ = output.name;
      }
    }
    if (result_.empty()) {
      return invalid_input("the model has no output '" + options_.output + "'; it has " + names);
    }
    if (graph_.outputs.size() > 1) {
      note("of the outputs " + names + " the network has '" + readable(result_) + "'");
    }
    leave_to_loss();
    context_.results.insert(result_);
    return {};
  }

  // Leaves out what the loss computes itself: a softmax at the end, or a sigmoid, and what only
  // changes the shape of that one's results.
  void leave_to_loss() {
    constexpr std::string_view kShapes[] = {"Flatten", "Identity", "Reshape", "Squeeze",
                                            "Unsqueeze"};
    std::string value = result_;
    for (auto node = graph_.nodes.rbegin(); node != graph_.nodes.rend(); ++node) {
      const bool makes = !node->outputs.empty() && node->outputs[0] == value;
      if (!makes || node->inputs.empty()) continue;
      const bool is_sigmoid = node->op_type == "Sigmoid";
      const bool is_softmax = node->op_type == "Softmax" || node->op_type == "LogSoftmax";
      if (is_sigmoid || (is_softmax && value == result_)) {
        note("the " + node->op_type + " at the end is left out: it belongs to the loss");
        context_.loss = is_sigmoid ? ops::LossKind::kSigmoid : ops::LossKind::kCrossEntropy;
        value = result_ = node->inputs[0];
        if (is_sigmoid) return;
        continue;
      }
      if (std::find(std::begin(kShapes), std::end(kShapes), node->op_type) == std::end(kShapes) ||
          context_.loss) {
        return;
      }
      value = node->inputs[0];
    }
  }

  // Nodes that the output depends on, and who reads their values.
  void find_needed() {
    std::set<std::string> wanted = {result_};
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
    const ImportRow* row =
        node.domain.empty() || node.domain == "ai.onnx" ? form_.find_row(node.op_type) : nullptr;
    if (row == nullptr) return refuse(node, form_.reason_against(node.op_type));
    // The reason of an earlier node stands for those that read it.
    const bool reads_unknown =
        std::any_of(node.inputs.begin(), node.inputs.end(),
                    [&](const std::string& input) { return context_.unknown.contains(input); });
    if (reads_unknown) return leave(node);
    const Status status = row->function(context_, node);
    if (!status.ok()) refuse(node, status.error().message);
  }

  void refuse(const NodeData& node, const std::string& reason) {
    problems_.push_back(subject(graph_, node) + ": " + reason);
    leave(node);
  }
  void leave(const NodeData& node) {
    context_.unknown.insert(node.outputs.begin(), node.outputs.end());
  }

  Error unsupported() const {
    std::string text = std::to_string(problems_.size()) +
                       (problems_.size() == 1 ? " node" : " nodes") + " cannot be imported: ";
    for (size_t i = 0; i < problems_.size(); ++i) text += (i > 0 ? "; " : "") + problems_[i];
    return invalid_input(text);
  }

  Result<ImportedNetwork> finish() {
    MANTISSA_ASSIGN(Graph graph, form_.finish(context_, result_));
    return ImportedNetwork{std::move(graph), std::move(context_.parameters),
                           std::move(context_.notes), std::move(outputs_)};
  }

  void note_shape(const ValueData& value) {
    for (const Dimension& dimension : value.dims) {
      context_.shapes[value.name].push_back(dimension.size);
    }
  }
  void note(std::string text) { context_.notes.push_back(std::move(text)); }

  const ImportForm& form_;
  const ImportOptions& options_;
  const bool other_mask_;
  ModelData model_;
  GraphData& graph_;
  ImportContext context_;
  std::string result_;  // of the model
  std::vector<std::string> outputs_;
  std::set<const NodeData*> needed_;
  std::vector<const ValueData*> inputs_;
  std::vector<std::string> problems_;
  int64_t imported_ = -1;
};

}  // namespace

std::string readable(const std::string& name) {
  const std::string quoted = readable_name(name);
  return quoted.substr(1, quoted.size() - 2);
}

Error other_inputs(std::span<const ValueData* const> inputs) {
  return invalid_input("the model's output depends on " + std::to_string(inputs.size()) +
                       " inputs; one input is possible, of pictures, [N, C, H, W], of tokens, "
                       "[N, T], or of sequences of numbers, [N, T, C], and with sequences their "
                       "lengths, [N], or a mask of padding, [N, T], and with tokens their "
                       "token_type_ids, [N, T]");
}

std::string dims_text(const std::vector<Dimension>& dims) {
  std::string text;
  for (const Dimension& dimension : dims) {
    text += (text.empty() ? "" : ", ") +
            (dimension.size < 0 ? std::string("?") : std::to_string(dimension.size));
  }
  return "[" + text + "]";
}

Result<int> made_by_layer(ImportContext& context, int value) {
  const Graph& graph = context.builder.graph();
  int producer = graph.values[value].producer;
  while (producer >= 0 && graph.nodes[producer].op->traits.view) {
    producer = graph.values[graph.nodes[producer].inputs[0]].producer;
  }
  if (producer >= 0 && graph.nodes[producer].op->traits.may_leave_wide) return value;
  const int64_t count = graph.values[value].shape.last();
  if (count > kMostClasses) {
    return invalid_input("no layer makes the output, and one of " + std::to_string(count) +
                         " channels is too large to stand behind it; at most " +
                         std::to_string(kMostClasses) + " are possible");
  }
  std::vector<double> identity(static_cast<size_t>(count * count), 0.0);
  for (int64_t i = 0; i < count; ++i) identity[i * count + i] = 1;
  context.notes.emplace_back(
      "a linear layer, 'classifier', stands behind the output, which no layer makes");
  return add_node(context, ops::kLinear, new_name(context, "classifier"), {value},
                  {{"channels", count}, {"bias", 0}, {"classifier", 1}}, {std::move(identity)});
}

namespace {

// The network, or an error where another mask gives another one: then its numbers are in weights.
Result<ImportedNetwork> with_any_mask(const ModelData& model, const ImportOptions& options,
                                      int batch_axis, const Import& import,
                                      Result<ImportedNetwork> imported) {
  if (!import.has_mask()) return imported;
  const auto other = Import(model, options, kSequences, batch_axis, true).run();
  if (other.ok() && same_network(*imported, *other)) return imported;
  return invalid_input("the mask of padding is read by something else than attention");
}

}  // namespace

Result<ImportedNetwork> import_network(const ModelData& model, const ImportOptions& options) {
  const std::vector<const ValueData*> inputs = inputs_of(model.graph);
  const bool sequences = std::any_of(inputs.begin(), inputs.end(),
                                     [](const ValueData* input) { return is_sequence(*input); });
  if (!sequences) return Import(model, options, kPictures).run();
  // Which of the first two dimensions counts examples, only the nodes tell: with the wrong one the
  // import comes to an end sooner.
  Import first(model, options, kSequences, 0), second(model, options, kSequences, 1);
  auto imported = first.run();
  if (imported.ok()) return with_any_mask(model, options, 0, first, std::move(imported));
  auto other = second.run();
  if (other.ok()) return with_any_mask(model, options, 1, second, std::move(other));
  return second.imported() > first.imported() ? std::move(other) : std::move(imported);
}

}  // namespace mantissa::onnx
