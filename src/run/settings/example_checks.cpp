// Whether a network takes the examples of some data.
#include <algorithm>
#include <string>
#include <vector>

#include "networks/named_inputs.h"
#include "networks/network.h"
#include "run/settings/run_network.h"

namespace mantissa {
namespace {

// The tensors that networks read, without those that several outputs are compared with.
std::vector<TensorSpec> read_tensors(std::vector<TensorSpec> specs, const ModelOptions& wanted) {
  std::erase_if(specs, [&](const TensorSpec& spec) {
    return std::any_of(wanted.outputs.begin(), wanted.outputs.end(),
                       [&](const ModelOptions& output) { return output.labels == spec.name; });
  });
  return specs;
}

std::string output_names(const ModelOptions& options) {
  std::string names;
  for (const ModelOptions& output : options.outputs) {
    names += (names.empty() ? "'" : ", '") + output.labels + "'";
  }
  return names;
}

// An error if the data have no target for an output, or one of another kind or size.
Status check_outputs(const Graph& network, const ModelOptions& wanted, const DatasetInfo& data) {
  if (data.target.kind != TargetKind::kSeveral) {
    return invalid_input("the network '" + network.name + "' has the outputs " +
                         output_names(wanted) + ", and " + data.name +
                         " has one target; NPZ files have an array for each, CSV files a column "
                         "(docs/data.md)");
  }
  for (size_t i = 0; i < wanted.outputs.size(); ++i) {
    const ModelOptions& output = wanted.outputs[i];
    const Target& target = data.target.parts[i];
    const std::string subject = "the output '" + output.labels + "' of the network '" +
                                network.name + "' ";
    const bool may_have_labels = output.loss == ops::LossKind::kSigmoids && !output.one_logit;
    if (target.has_labels() && !may_have_labels) {
      return invalid_input(subject + "predicts no labels that go together, and " + data.name +
                           " has these: its loss must be sigmoid_cross_entropy");
    }
    if (output.classes == target.outputs()) continue;
    return invalid_input(subject + "is for " + std::to_string(output.classes) +
                         (target.is_number() ? " numbers" : " classes") + ", and " + data.name +
                         " has " + std::to_string(target.outputs()));
  }
  return {};
}

}  // namespace

Status check_examples(const Graph& network, const DatasetInfo& data) {
  MANTISSA_ASSIGN(const ModelOptions wanted, example_options(network));
  const bool has_sequences = loss_of_sequences(network) != nullptr;
  if (has_sequences && !data.target.is_sequence()) {
    return invalid_input("the network '" + network.name +
                         "' finds labels in an order (ctc_loss), "
                         "and " +
                         data.name + " has none: it takes an NPZ file with y [N, most]");
  }
  const std::vector<TensorSpec> inputs = read_tensors(input_specs(network), wanted),
                                examples = read_tensors(data.specs, wanted);
  const bool by_name = data.has_named_inputs() || !has_usual_inputs(network);
  const auto text_of = by_name ? inputs_text : examples_text;
  const std::string wants_text = text_of(inputs), is_text = text_of(examples);
  if (is_text != wants_text) {
    const TensorSpec *wants = find_spec(inputs, kPixelTensor), *is = data.find(kPixelTensor);
    const bool resizes = wants != nullptr && is != nullptr && wants->shape[2] == is->shape[2];
    return invalid_input("the network '" + network.name + "' takes " + wants_text + ", and " +
                         data.name + " has " + is_text +
                         (resizes ? "; --input-size resizes them" : ""));
  }
  if (!wanted.outputs.empty()) return check_outputs(network, wanted, data);
  const bool predicts_numbers = ops::is_for_numbers(wanted.loss);
  const bool may_have_labels = wanted.loss == ops::LossKind::kSigmoids && !wanted.one_logit;
  if (data.target.has_labels() && !may_have_labels) {
    return invalid_input("the network '" + network.name +
                         "' predicts no labels that go together, and " + data.name +
                         " has: its loss must be sigmoid_cross_entropy");
  }
  if (has_sequences) return {};
  const Shape places = label_shape_of_places(network);
  const TensorSpec* const labels = data.find(kLabelTensor);
  const Shape are = labels == nullptr || data.target.has_labels() ? Shape{} : labels->shape;
  if (places != are) {
    const auto text = [](const Shape& shape) {
      return shape.rank == 0 ? std::string("each example")
                             : "each of the places " + to_string(shape) + " of an example";
    };
    return invalid_input("the network '" + network.name + "' gives a class to " + text(places) +
                         ", and " + data.name + " has one for " + text(are));
  }
  if (predicts_numbers == data.target.is_number()) return {};
  return invalid_input("the network '" + network.name + "' predicts " +
                       (predicts_numbers ? "numbers" : "classes") + ", and " + data.name + " has " +
                       (predicts_numbers ? "classes" : "numbers") + "; see --task");
}

}  // namespace mantissa
