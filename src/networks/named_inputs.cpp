#include "networks/named_inputs.h"

#include <algorithm>
#include <set>
#include <string>

#include "data/batches/example_set.h"
#include "networks/network.h"
#include "ops/attributes.h"
#include "ops/ops.h"
#include "tensor/table_numbers.h"

namespace mantissa {
namespace {

constexpr int64_t kLargestPicture = 16384;
constexpr int64_t kMostPictureChannels = 4;

bool is_target_name(const Value& input) {
  return input.name == kLabelTensor || input.name == kTargetTensor || input.name == kWeightTensor;
}

// The smallest table that an embedding looks the input's tokens up in; 0: there is none.
int64_t token_limit(const Graph& network, int input) {
  int64_t limit = 0;
  for (const Node& node : network.nodes) {
    if (node.op != &ops::kEmbedding || node.inputs[0] != input) continue;
    const int64_t rows = node.attributes.as<ops::EmbeddingAttributes>().rows;
    limit = limit == 0 ? rows : std::min(limit, rows);
  }
  return limit;
}

// The values whose padding the lengths hide: keys of attention, inputs of recurrent layers.
std::vector<int> hidden_by(const Graph& network, int lengths) {
  std::vector<int> values;
  for (const Node& node : network.nodes) {
    const auto& inputs = node.inputs;
    if (std::find(inputs.begin(), inputs.end(), lengths) == inputs.end()) continue;
    values.push_back(inputs[node.op == &ops::kAttention ? 1 : 0]);
  }
  return values;
}

// The inputs of the network that a value depends on.
void add_sources(const Graph& network, int value, std::set<int>& seen, std::set<int>& sources) {
  if (!seen.insert(value).second) return;
  const int producer = network.values[value].producer;
  if (producer < 0) {
    sources.insert(value);
    return;
  }
  for (const int input : network.nodes[producer].inputs) {
    add_sources(network, input, seen, sources);
  }
}

bool is_sequence(const ArrayInput& input) {
  return (input.kind == ArrayKind::kTokens && input.shape.rank == 1) ||
         (input.kind == ArrayKind::kNumbers && input.shape.rank == 2);
}

// Notes how long sequences are at most, and which inputs the lengths belong to: those that the
// hidden values depend on, with as many positions.
void take_lengths(const Graph& network, int value, ArrayInput& lengths,
                  std::vector<ArrayInput>& all) {
  lengths.limit = 0;
  for (const int hidden : hidden_by(network, value)) {
    const int64_t positions = network.values[hidden].shape[0];
    lengths.limit = lengths.limit == 0 ? positions : std::min(lengths.limit, positions);
    std::set<int> seen, sources;
    add_sources(network, hidden, seen, sources);
    for (const int source : sources) {
      for (ArrayInput& input : all) {
        const bool is_meant = input.name == network.values[source].name && is_sequence(input) &&
                              input.shape[0] == positions;
        if (is_meant) input.lengths = lengths.name;
      }
    }
  }
}

}  // namespace

bool is_target(const Graph& network, int input) {
  if (is_target_name(network.values[input])) return true;
  bool is_compared = false;
  for (int n = 0; n < std::ssize(network.nodes); ++n) {
    const auto& inputs = network.nodes[n].inputs;
    if (std::find(inputs.begin(), inputs.end(), input) == inputs.end()) continue;
    if (!network.is_loss(n) || inputs[0] == input) return false;
    is_compared = true;
  }
  return is_compared && network.losses.size() > 1;
}

std::optional<ArrayKind> array_kind(const Value& input) {
  const Shape& shape = input.shape;
  if (is_target_name(input)) return std::nullopt;
  if (input.type == DataType::kUint8 && shape.rank == 3 && shape[0] <= kLargestPicture &&
      shape[1] <= kLargestPicture && shape[2] <= kMostPictureChannels) {
    return ArrayKind::kPictures;
  }
  if (input.element == Element::kNumber && shape.rank >= 1 && shape.rank <= 4 &&
      input.exponent == kFeatureExponent) {
    return ArrayKind::kNumbers;
  }
  if (input.element != Element::kIndex || shape.rank > 1) return std::nullopt;
  return shape.rank == 1 ? ArrayKind::kTokens : ArrayKind::kLengths;
}

bool has_usual_inputs(const Graph& network) {
  if (loss_of_sequences(network) != nullptr) return false;
  std::set<std::string> names;
  for (const int input : network.inputs) {
    const Value& value = network.values[input];
    if (!is_target(network, input)) names.insert(value.name);
  }
  const std::set<std::string> usual[] = {{kPixelTensor},
                                         {kNumberTensor},
                                         {kTokenTensor, kLengthTensor},
                                         {kTokenTensor, kLengthTensor, kSegmentTensor}};
  return std::find(std::begin(usual), std::end(usual), names) != std::end(usual);
}

bool takes_named_arrays(const Graph& network) {
  const bool has_own = !has_usual_inputs(network) || network.losses.size() > 1;
  return has_own && example_options(network).ok();
}

std::vector<ArrayInput> array_inputs(const Graph& network) {
  std::vector<ArrayInput> all;
  for (const int input : network.inputs) {
    const Value& value = network.values[input];
    const auto kind = array_kind(value);
    if (!kind || is_target(network, input)) continue;
    ArrayInput& one = all.emplace_back(
        ArrayInput{.name = value.name, .kind = *kind, .shape = value.shape});
    if (value.element != Element::kIndex) continue;
    one.limit = token_limit(network, input);
    if (one.limit > 0) one.kind = ArrayKind::kTokens;  // a category, if it is one index alone
  }
  for (const int input : network.inputs) {
    const std::string& name = network.values[input].name;
    for (ArrayInput& lengths : all) {
      const bool is_this = lengths.kind == ArrayKind::kLengths && lengths.name == name;
      if (is_this) take_lengths(network, input, lengths, all);
    }
  }
  return all;
}

bool reads_rows_and_pictures(const Graph& network) {
  const std::vector<ArrayInput> inputs = array_inputs(network);
  const auto has = [&](const char* name, ArrayKind kind, int rank) {
    return std::any_of(inputs.begin(), inputs.end(), [&](const ArrayInput& input) {
      return input.name == name && input.kind == kind && input.shape.rank == rank;
    });
  };
  return inputs.size() == 2 && has(kPixelTensor, ArrayKind::kPictures, 3) &&
         has(kNumberTensor, ArrayKind::kNumbers, 1);
}

bool fits_inputs(const TableSchema& schema, const Graph& network) {
  if (schema.picture) {
    return reads_rows_and_pictures(network) &&
           input_named(network, kPixelTensor)->shape == schema.picture->shape &&
           input_named(network, kNumberTensor)->shape == Shape{schema.features()};
  }
  return schema.inputs == array_inputs(network);
}

}  // namespace mantissa
