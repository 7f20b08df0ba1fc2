#include "networks/network.h"

#include <algorithm>
#include <string>

#include "data/text/text.h"
#include "networks/named_inputs.h"
#include "ops/attributes.h"
#include "ops/ops.h"

namespace mantissa {

const Value* input_named(const Graph& network, const std::string& name) {
  const auto found = std::find_if(network.inputs.begin(), network.inputs.end(),
                                  [&](int input) { return network.values[input].name == name; });
  return found == network.inputs.end() ? nullptr : &network.values[*found];
}

Shape label_shape_of_places(const Graph& network) {
  const Value* const labels = input_named(network, kLabelTensor);
  const bool reads_places =
      std::any_of(network.inputs.begin(), network.inputs.end(), [&](int input) {
        const auto kind = array_kind(network.values[input]);
        return kind == ArrayKind::kPictures || kind == ArrayKind::kNumbers;
      });
  if (labels == nullptr || !reads_places || network.outputs.size() != 1) return {};
  if (loss_of_sequences(network) != nullptr) return {};
  const Shape& logits = network.values[network.outputs[0]].shape;
  return logits.rank > 1 && ops::rows_shape(logits) == labels->shape ? labels->shape : Shape{};
}

const Node* loss_of_sequences(const Graph& network) {
  if (network.losses.size() != 1) return nullptr;
  const Node& loss = network.nodes[network.losses[0]];
  return loss.op == &ops::kCtcLoss ? &loss : nullptr;
}

std::vector<TensorSpec> input_specs(const Graph& network) {
  std::vector<TensorSpec> specs;
  for (const int input : network.inputs) {
    const Value& value = network.values[input];
    specs.push_back({value.name, value.type, value.shape});
  }
  return specs;
}

bool has_one_logit(const Graph& network) {
  const auto options = example_options(network);
  return options.ok() && options->one_logit;
}

bool reads_tokens(const Graph& network) {
  const bool has_tokens = input_named(network, kTokenTensor) != nullptr ||
                          input_named(network, kSourceTensor) != nullptr;
  return has_tokens && !takes_named_arrays(network);
}

bool is_text_encoder(const Graph& network) {
  const Value* const tokens = input_named(network, kTokenTensor);
  return tokens != nullptr && network.inputs.size() == 3 && network.losses.empty() &&
         input_named(network, kSegmentTensor) != nullptr &&
         input_named(network, kLengthTensor) != nullptr && network.outputs.size() == 1 &&
         network.values[network.outputs[0]].shape.rank == 2;
}

bool is_text_classifier(const Graph& network) {
  return input_named(network, kTokenTensor) != nullptr && has_usual_inputs(network) &&
         !has_several_outputs(network) && example_options(network).ok();
}

void fill_means(const std::vector<int>& means, Graph& network) {
  for (Node& node : network.nodes) {
    if (node.op != &ops::kNormaliseInput ||
        !node.attributes.as<ops::InputAttributes>().means.empty())
      continue;
    replace_op(node, ops::kNormaliseInput, {{"means", WholeList(means.begin(), means.end())}});
  }
}

void fill_means(const ChannelMeans& means, Graph& network) {
  for (Node& node : network.nodes) {
    if (node.op != &ops::kNormaliseInput ||
        !node.attributes.as<ops::InputAttributes>().means.empty()) {
      continue;
    }
    const auto found = means.find(network.values[node.inputs[0]].name);
    if (found == means.end()) continue;
    replace_op(node, ops::kNormaliseInput,
               {{"means", WholeList(found->second.begin(), found->second.end())}});
  }
}

void leave_out_means(Graph& network) {
  for (Node& node : network.nodes) {
    if (node.op != &ops::kNormaliseInput ||
        node.attributes.as<ops::InputAttributes>().fraction_bits > 0)
      continue;
    replace_op(node, ops::kNormaliseInput);
  }
}

}  // namespace mantissa
