#include "networks/network.h"

#include <algorithm>
#include <string>

#include "data/text/text.h"
#include "networks/named_inputs.h"
#include "ops/attributes.h"
#include "ops/ops.h"
#include "tensor/table_numbers.h"

namespace mantissa {
namespace {

constexpr int64_t kLargestImage = 16384;
constexpr int64_t kMostImageChannels = 4;

Error not_for_examples(const Graph& network, const std::string& why) {
  return invalid_input("network '" + network.name + "': " + why +
                       "; a network of pictures has the inputs 'pixels' (uint8, [H, W, C]) and "
                       "'labels' (int32, [], or [outputs] of sigmoids, or [H, W] of pixels), one of "
                       "tables or arrays 'numbers' (int16, [columns], [T, C], [H, W, C] or "
                       "[D, H, W, C], exponent " +
                       std::to_string(kFeatureExponent) +
                       ") and 'labels' or 'targets' (int16, "
                       "[numbers], exponent " +
                       std::to_string(kTargetExponent) +
                       "); inputs of other names, and several, are pictures, numbers, tokens "
                       "(int32, [T]) and lengths (int32, []) of arrays; it has one output, and one loss that reads both");
}

// An input that examples have: the network's own input, or the targets of its loss.
struct KnownInput {
  const char* name;
  bool (*fits)(const Value& value);
};
bool is_indices(const Value& value, int rank) {
  return value.element == Element::kIndex && value.shape.rank == rank;
}
constexpr KnownInput kKnownInputs[] = {
    {kPixelTensor,
     [](const Value& value) {
       return value.type == DataType::kUint8 && value.shape.rank == 3 &&
              value.shape[0] <= kLargestImage && value.shape[1] <= kLargestImage &&
              value.shape[2] <= kMostImageChannels;
     }},
    {kNumberTensor,
     [](const Value& value) {
       return value.element == Element::kNumber && value.shape.rank >= 1 && value.shape.rank <= 4 &&
              value.exponent == kFeatureExponent;
     }},
    {kTokenTensor, [](const Value& value) { return is_indices(value, 1); }},
    {kSegmentTensor, [](const Value& value) { return is_indices(value, 1); }},
    {kLengthTensor, [](const Value& value) { return is_indices(value, 0); }},
    {kLabelTensor,
     [](const Value& value) { return value.type == DataType::kInt32 && value.shape.rank <= 3; }},
    {kTargetTensor,
     [](const Value& value) {
       return value.element == Element::kNumber && value.shape.rank == 1 &&
              value.exponent == kTargetExponent;
     }},
};

bool fits_known(const Value& value) {
  return std::any_of(
      std::begin(kKnownInputs), std::end(kKnownInputs),
      [&](const KnownInput& known) { return value.name == known.name && known.fits(value); });
}

// That all inputs are of kinds that named arrays fill, or targets; and there are examples.
Status check_named_inputs(const Graph& network) {
  bool has_examples = false;
  for (const int input : network.inputs) {
    const Value& value = network.values[input];
    const auto kind = array_kind(value);
    has_examples = has_examples || (kind && kind != ArrayKind::kLengths);
    if (kind || fits_known(value)) continue;
    return not_for_examples(network, "its input '" + value.name + "' of " + to_string(value.shape) +
                                         " is none of these");
  }
  const bool has_labels = input_named(network, kLabelTensor) != nullptr;
  if (has_labels == (input_named(network, kTargetTensor) != nullptr)) {
    return not_for_examples(network, "it has no input 'labels' or 'targets'");
  }
  return has_examples ? Status() : not_for_examples(network, "it has no input of examples");
}

Status check_inputs(const Graph& network) {
  if (!has_usual_inputs(network)) return check_named_inputs(network);
  for (const int input : network.inputs) {
    const Value& value = network.values[input];
    if (fits_known(value)) continue;
    return not_for_examples(network, "its input '" + value.name + "' of " + to_string(value.shape) +
                                         " is none of these");
  }
  const auto has = [&](const char* name) { return input_named(network, name) != nullptr; };
  if (has(kPixelTensor) + has(kNumberTensor) + has(kTokenTensor) != 1) {
    return not_for_examples(network, "it has no input 'pixels' or 'numbers'");
  }
  const bool has_any_text = has(kTokenTensor) || has(kSegmentTensor) || has(kLengthTensor);
  if (has_any_text && !(has(kTokenTensor) && has(kLengthTensor))) {
    return not_for_examples(network,
                            "texts need both 'tokens' (int32, [sequence]) and 'lengths' "
                            "(int32, [])");
  }
  if (has(kLabelTensor) != has(kTargetTensor)) return {};
  return not_for_examples(network, "it has no input 'labels' or 'targets'");
}

// The one loss, between the one result and the labels.
Result<const Node*> loss_of_examples(const Graph& network) {
  if (network.outputs.size() > 1 || network.losses.size() > 1) {
    return invalid_input("network '" + network.name +
                         "': it has not one output and one loss, but " +
                         std::to_string(network.outputs.size()) + " and " +
                         std::to_string(network.losses.size()) +
                         "; the command line trains one of each, and Trainer in C++ and Python "
                         "several");
  }
  const bool one_output =
      network.outputs.size() == 1 && (network.values[network.outputs[0]].shape.rank == 1 ||
                                      label_shape_of_places(network).rank > 0);
  if (!one_output) {
    return not_for_examples(network, "it has not one output of [classes]");
  }
  if (network.losses.size() != 1) {
    return not_for_examples(network, "it has " + std::to_string(network.losses.size()) + " losses");
  }
  const Node& loss = network.nodes[network.losses[0]];
  const Value* const labels = input_named(network, kLabelTensor);
  const Value* const compared = labels != nullptr ? labels : input_named(network, kTargetTensor);
  const bool reads_both = loss.inputs.size() == 2 && loss.inputs[0] == network.outputs[0] &&
                          &network.values[loss.inputs[1]] == compared;
  if (!reads_both) {
    return not_for_examples(network, "its loss '" + loss.name + "' reads something else");
  }
  return &loss;
}

// The settings of a loss as the attributes of its node.
void take_loss(const Node& loss, ModelOptions& options) {
  if (options.loss == ops::LossKind::kCrossEntropy) {
    options.label_smoothing = loss.attributes.as<ops::LossAttributes>().smoothing;
  } else if (options.loss == ops::LossKind::kSigmoids || options.loss == ops::LossKind::kOrdinal) {
    const auto& own = loss.attributes.as<ops::SigmoidLossAttributes>();
    options.label_smoothing = own.smoothing;
    options.focal = own.focal;
    options.positive_weights = own.positive_weights;
  } else if (options.loss == ops::LossKind::kHuber) {
    options.huber_delta = loss.attributes.as<ops::RegressionAttributes>().delta;
  }
}

}  // namespace

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
  for (const int loss : network.losses) {
    if (network.nodes[loss].op == &ops::kCtcLoss) return {};  // labels without places
  }
  const Shape& logits = network.values[network.outputs[0]].shape;
  return logits.rank > 1 && ops::rows_shape(logits) == labels->shape ? labels->shape : Shape{};
}

std::vector<TensorSpec> input_specs(const Graph& network) {
  std::vector<TensorSpec> specs;
  for (const int input : network.inputs) {
    const Value& value = network.values[input];
    specs.push_back({value.name, value.type, value.shape});
  }
  return specs;
}

Result<ModelOptions> example_options(const Graph& network) {
  MANTISSA_RETURN_IF_ERROR(check_inputs(network));
  MANTISSA_ASSIGN(const Node* loss, loss_of_examples(network));
  const ops::Loss* const known = ops::loss_of_node(*loss);
  if (known == nullptr) return not_for_examples(network, "its loss is none of classes or numbers");
  const bool one_logit = known->kind == ops::LossKind::kSigmoids && network.classes() == 1;
  const bool has_ranks = known->kind == ops::LossKind::kOrdinal;
  ModelOptions options{
      .classes = network.classes() + (one_logit || has_ranks), .one_logit = one_logit, .loss = known->kind};
  options.has_labels = known->kind == ops::LossKind::kSigmoids && !one_logit &&
                       network.values[loss->inputs[1]].shape.rank == 1 &&
                       label_shape_of_places(network).rank == 0;
  if (!has_usual_inputs(network)) {
    options.height = options.width = options.channels = 0;
  } else if (const Value* const pixels = input_named(network, kPixelTensor)) {
    options.height = pixels->shape[0];
    options.width = pixels->shape[1];
    options.channels = pixels->shape[2];
  } else if (const Value* const tokens = input_named(network, kTokenTensor)) {
    options.sequence = options.features = tokens->shape[0];
  } else {
    options.features = input_named(network, kNumberTensor)->shape.count();
  }
  take_loss(*loss, options);
  const int64_t least = ops::is_for_numbers(known->kind) ? 1 : 2;
  if (options.classes >= least && options.classes <= kMostClasses) return options;
  return not_for_examples(network, "it has " + std::to_string(options.classes) + " classes; 2 to " +
                                       std::to_string(kMostClasses) + " are possible");
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
         example_options(network).ok();
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
