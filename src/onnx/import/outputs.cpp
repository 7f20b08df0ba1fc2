#include "onnx/import/outputs.h"

#include <algorithm>
#include <string_view>

#include "onnx/import/context.h"

namespace mantissa::onnx {
namespace {

constexpr std::string_view kAllOutputs = "all";

std::string names_of(const std::vector<ModelResult>& results) {
  std::string names;
  for (const ModelResult& result : results) {
    names += (names.empty() ? "'" : ", '") + readable(result.output) + "'";
  }
  return names;
}

std::vector<std::string> split_at_commas(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

// The model's names that the options choose. A name may contain commas, or be
// called `all`.
std::vector<std::string> wanted_names(const std::vector<std::string>& names,
                                      const std::string& chosen) {
  if (chosen.empty()) return {names[0]};
  if (std::find(names.begin(), names.end(), chosen) != names.end()) return {chosen};
  return chosen == kAllOutputs ? names : split_at_commas(chosen);
}

}  // namespace

Result<std::vector<ModelResult>> chosen_outputs(const GraphData& graph,
                                                const ImportOptions& options,
                                                std::vector<std::string>& notes) {
  std::vector<std::string> names;
  std::string text;
  for (const ValueData& output : graph.outputs) {
    names.push_back(output.name);
    text += (text.empty() ? "" : ", ") + readable(output.name);
  }
  if (names.empty()) return invalid_input("the model has no output");
  std::vector<ModelResult> results;
  for (const std::string& name : wanted_names(names, options.output)) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      return invalid_input("the model has no output '" + readable(name) + "'; it has " + text);
    }
    const bool is_there = std::any_of(results.begin(), results.end(),
                                      [&](const ModelResult& one) { return one.output == name; });
    if (is_there) return invalid_input("output: '" + readable(name) + "' is named twice");
    results.push_back({.output = name, .value = name, .loss = std::nullopt});
  }
  if (names.size() > results.size()) {
    notes.push_back("of the outputs " + text + " the network has " + names_of(results) +
                    (options.output.empty()
                         ? "; --output takes several names with commas between them, or all"
                         : ""));
  }
  return results;
}

void leave_out(const NodeData& node, ops::LossKind loss, ModelResult& result,
               std::vector<std::string>& notes) {
  notes.push_back("the " + node.op_type + " at the end is left out: it belongs to the loss");
  result.loss = loss;
}

void leave_to_loss(const GraphData& graph, ModelResult& result, std::vector<std::string>& notes) {
  constexpr std::string_view kShapes[] = {"Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"};
  std::string value = result.value;
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    const bool makes = !node->outputs.empty() && node->outputs[0] == value;
    if (!makes || node->inputs.empty()) continue;
    const bool is_sigmoid = node->op_type == "Sigmoid";
    const bool is_softmax = node->op_type == "Softmax" || node->op_type == "LogSoftmax";
    if (is_sigmoid || (is_softmax && value == result.value)) {
      if (is_softmax) result.softmax = &*node;
      if (is_sigmoid) leave_out(*node, ops::LossKind::kSigmoids, result, notes);
      result.value = node->inputs[0];
      return;
    }
    if (std::find(std::begin(kShapes), std::end(kShapes), node->op_type) == std::end(kShapes)) {
      return;
    }
    value = node->inputs[0];
  }
}

}  // namespace mantissa::onnx
