// The examples and classes of networks that `train` trains.
#include <algorithm>
#include <string>

#include "networks/named_inputs.h"
#include "networks/network.h"
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
                       "(int32, [T]) and lengths (int32, []) of arrays; it has one output, and one loss that "
                       "reads both, or several, whose labels or targets have names of their own");
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
    if (has_several_outputs(network) && is_target(network, input)) continue;
    const auto kind = array_kind(value);
    has_examples = has_examples || (kind && kind != ArrayKind::kLengths);
    if (kind || fits_known(value)) continue;
    return not_for_examples(network, "its input '" + value.name + "' of " + to_string(value.shape) +
                                         " is none of these");
  }
  if (!has_examples) return not_for_examples(network, "it has no input of examples");
  if (has_several_outputs(network)) return {};
  const bool has_labels = input_named(network, kLabelTensor) != nullptr;
  if (has_labels == (input_named(network, kTargetTensor) != nullptr)) {
    return not_for_examples(network, "it has no input 'labels' or 'targets'");
  }
  return {};
}

Status check_inputs(const Graph& network) {
  const bool has_own = !has_usual_inputs(network) || has_several_outputs(network);
  if (has_own) return check_named_inputs(network);
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

Error lacks_losses(const Graph& network) {
  return not_for_examples(network, "it has " + std::to_string(network.outputs.size()) +
                                       " outputs, and not a loss for each");
}

// Whether an input is of lengths, and no table is looked up by it.
bool is_of_lengths(const Graph& network, int input) {
  const std::vector<ArrayInput> all = array_inputs(network);
  return std::any_of(all.begin(), all.end(), [&](const ArrayInput& each) {
    return each.name == network.values[input].name && each.kind == ArrayKind::kLengths;
  });
}

// The one loss, between the one result and the labels.
Result<const Node*> loss_of_examples(const Graph& network) {
  if (network.outputs.size() > 1) {
    return lacks_losses(network);
  }
  const bool has_sequences = loss_of_sequences(network) != nullptr;
  const bool one_output =
      network.outputs.size() == 1 && (network.values[network.outputs[0]].shape.rank == 1 ||
                                      has_sequences || label_shape_of_places(network).rank > 0);
  if (!one_output) {
    return not_for_examples(network, "it has not one output of [classes]");
  }
  if (network.losses.size() != 1) {
    return not_for_examples(network, "it has " + std::to_string(network.losses.size()) + " losses");
  }
  const Node& loss = network.nodes[network.losses[0]];
  const Value* const labels = input_named(network, kLabelTensor);
  const Value* const compared = labels != nullptr ? labels : input_named(network, kTargetTensor);
  const size_t inputs = loss.inputs.size(), most = has_sequences ? 3 : 2;  // with lengths
  const bool reads_both = inputs >= 2 && inputs <= most && loss.inputs[0] == network.outputs[0] &&
                          &network.values[loss.inputs[1]] == compared;
  if (!reads_both || (inputs == 3 && !is_of_lengths(network, loss.inputs[2]))) {
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

// The classes or numbers that a loss is of.
Result<ModelOptions> options_of_loss(const Graph& network, const Node& loss) {
  const ops::Loss* const known = ops::loss_of_node(loss);
  if (known == nullptr) return not_for_examples(network, "its loss is none of classes or numbers");
  const int64_t results = network.values[loss.inputs[0]].shape.last();
  const bool one_logit = known->kind == ops::LossKind::kSigmoids && results == 1;
  const bool has_ranks = known->kind == ops::LossKind::kOrdinal;
  ModelOptions options{.classes = results + (one_logit || has_ranks),
                       .one_logit = one_logit,
                       .loss = known->kind};
  options.has_labels = known->kind == ops::LossKind::kSigmoids && !one_logit &&
                       network.values[loss.inputs[1]].shape.rank == 1 &&
                       label_shape_of_places(network).rank == 0;
  take_loss(loss, options);
  const int64_t least = ops::is_for_numbers(known->kind) ? 1 : 2;
  if (options.classes >= least && options.classes <= kMostClasses) return options;
  return not_for_examples(network, "it has " + std::to_string(options.classes) + " classes; 2 to " +
                                       std::to_string(kMostClasses) + " are possible");
}

// The same of one loss of several.
Result<ModelOptions> options_of_output(const Graph& network, const Node& loss) {
  const std::string subject = "its loss '" + loss.name + "' ";
  if (loss.op == &ops::kCtcLoss) {
    return not_for_examples(network, subject +
                                         "is of labels in an order; an output with such labels "
                                         "must be the only one");
  }
  const auto result = std::find(network.outputs.begin(), network.outputs.end(), loss.inputs[0]);
  if (loss.inputs.size() != 2 || result == network.outputs.end()) {
    return not_for_examples(network, subject + "reads something else than an output and its labels "
                                               "or targets");
  }
  const Value& labels = network.values[loss.inputs[1]];
  const bool is_of_places = network.values[loss.inputs[0]].shape.rank > 1;
  const bool has_place = loss.op == &ops::kDiceLoss || is_of_places;
  if (has_place) {
    return not_for_examples(network, subject + "is of places; an output with a class for each pixel "
                                               "or position must be the only one");
  }
  const bool is_input =
      std::find(network.inputs.begin(), network.inputs.end(), loss.inputs[1]) !=
      network.inputs.end();
  const bool are_labels = labels.type == DataType::kInt32 && labels.shape.rank <= 1;
  const bool are_targets = labels.element == Element::kNumber && labels.shape.rank == 1 &&
                           labels.exponent == kTargetExponent;
  if (!is_input || !is_target(network, loss.inputs[1]) || !(are_labels || are_targets)) {
    return not_for_examples(network, subject + "is compared with '" + labels.name +
                                         "', which is no input of labels or targets alone");
  }
  MANTISSA_ASSIGN(ModelOptions options, options_of_loss(network, loss));
  options.labels = labels.name;
  options.result = static_cast<int>(result - network.outputs.begin());
  return options;
}

// A loss for each output, each with labels or targets of its own.
Result<std::vector<ModelOptions>> options_of_outputs(const Graph& network) {
  std::vector<ModelOptions> all;
  for (const int n : network.losses) {
    MANTISSA_ASSIGN(ModelOptions one, options_of_output(network, network.nodes[n]));
    for (const ModelOptions& other : all) {
      if (other.labels != one.labels && other.result != one.result) continue;
      return not_for_examples(network, "two of its losses share an output, or its labels");
    }
    all.push_back(std::move(one));
  }
  if (all.size() == network.outputs.size()) return all;
  return lacks_losses(network);
}

}  // namespace

bool has_several_outputs(const Graph& network) { return network.losses.size() > 1; }

Result<ModelOptions> example_options(const Graph& network) {
  MANTISSA_RETURN_IF_ERROR(check_inputs(network));
  ModelOptions options;
  if (has_several_outputs(network)) {
    options.classes = 0;
    MANTISSA_ASSIGN(options.outputs, options_of_outputs(network));
  } else {
    MANTISSA_ASSIGN(const Node* const loss, loss_of_examples(network));
    MANTISSA_ASSIGN(options, options_of_loss(network, *loss));
  }
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
  return options;
}

}  // namespace mantissa
