// Networks of language models' files.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "data/tokenizers/byte_bpe/byte_bpe_files.h"
#include "formats/arrays/safetensors_header.h"
#include "networks/language/block_network.h"
#include "networks/language/layout_names.h"
#include "networks/language/model_file.h"
#include "runtime/weight_blocks.h"

namespace mantissa {
namespace {

constexpr int64_t kUsualSequence = 128;
constexpr int64_t kTensorsOfALayer = 9;
constexpr const char* kHead = "lm_head.weight";

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text;
  for (const int64_t dim : shape) text += (text.empty() ? "" : ", ") + std::to_string(dim);
  return "[" + text + "]";
}

// Rows of heads in GGUF's order, where rows 2j and 2j + 1 are a pair, in the order in which rows j
// and j + half are one. A bias has rows of one number.
template <typename T>
std::vector<T> with_halves_as_pairs(const std::vector<T>& rows, int64_t row,
                                    int64_t head_channels) {
  std::vector<T> sorted(rows.size());
  const int64_t half = head_channels / 2;
  for (int64_t to = 0; to < std::ssize(rows) / row; ++to) {
    const int64_t head = to / head_channels, place = to % head_channels;
    const int64_t from = head * head_channels + 2 * (place % half) + place / half;
    std::copy_n(rows.begin() + from * row, row, sorted.begin() + to * row);
  }
  return sorted;
}

// Tensors that are there and not in the network: of each layer together.
std::vector<std::string> other_tensors(const LanguageModelFile& file,
                                       const std::set<std::string>& used) {
  std::map<std::string, int64_t> others;
  for (const ModelTensor& tensor : file.tensors) {
    // A mask of GPT-2's says which positions come before others.
    const bool is_mask = file.sizes.layout == DecoderLayout::kGpt2 &&
                         (tensor.name.ends_with(".attn.masked_bias") ||
                          (tensor.name.ends_with(".attn.bias") && tensor.shape.size() == 4));
    const bool changes_nothing = is_mask || tensor.name.ends_with("rotary_emb.inv_freq") ||
                                 (tensor.name == kHead && file.sizes.tied);
    if (used.contains(tensor.name) || changes_nothing) continue;
    std::string name = tensor.name_in_file.substr(0, 100);
    const size_t digit = name.find_first_of("0123456789");
    const bool of_a_layer = digit != std::string::npos && digit > 0 && name[digit - 1] == '.';
    if (of_a_layer) {
      const size_t end = std::min(name.find('.', digit), name.size());
      name.replace(digit, end - digit, "N");
    }
    ++others[name];
  }
  std::vector<std::string> list;
  for (const auto& [name, count] : others) {
    list.push_back("tensor " + readable_name(name) +
                   (count > 1 ? " of " + std::to_string(count) + " layers" : ""));
  }
  return list;
}

Error refused(const std::vector<std::string>& lacks) {
  std::string all;
  for (const std::string& part : first_of(lacks)) all += (all.empty() ? "" : "; ") + part;
  return invalid_input("cannot be imported: " + all);
}

// The tensors of the parameters, in their order. What is missing or odd goes to `lacks`.
std::vector<const ModelTensor*> find_tensors(const LanguageModelFile& file, const Graph& graph,
                                             std::vector<std::string>& lacks) {
  std::map<std::string, const ModelTensor*> by_name;
  for (const ModelTensor& tensor : file.tensors) by_name.emplace(tensor.name, &tensor);
  std::vector<const ModelTensor*> tensors;
  std::set<std::string> used;
  for (const Parameter& parameter : graph.parameters) {
    const std::string name = name_in_layout(file.sizes.layout, parameter.name);
    const auto found = by_name.find(name);
    if (found == by_name.end()) {
      lacks.push_back("it has no tensor for " + name);
      continue;
    }
    const ModelTensor& tensor = *found->second;
    const bool fits =
        std::ssize(tensor.shape) == parameter.shape.rank &&
        std::equal(tensor.shape.begin(), tensor.shape.end(), parameter.shape.dims.begin());
    if (!fits) {
      lacks.push_back("tensor " + readable_name(tensor.name_in_file) + " is " +
                      shape_text(tensor.shape) + ", and its sizes say " +
                      to_string(parameter.shape));
    }
    tensors.push_back(&tensor);
    used.insert(name);
  }
  for (std::string& other : other_tensors(file, used)) lacks.push_back(std::move(other));
  return tensors;
}

// Facts that the header shows without a network: a hostile file has billions of layers.
std::vector<std::string> early_lacks(const LanguageModelFile& file) {
  std::vector<std::string> lacks = file.lacks;
  const DecoderSizes& sizes = file.sizes;
  if (sizes.layers * kTensorsOfALayer > std::ssize(file.tensors)) {
    lacks.push_back(std::to_string(sizes.layers) + " layers in " +
                    std::to_string(file.tensors.size()) + " tensors");
  }
  if (file.tokenizer && std::ssize(file.tokenizer->tokens()) > sizes.vocabulary) {
    lacks.push_back("a tokenizer of " + std::to_string(file.tokenizer->tokens().size()) +
                    " tokens, of which the network knows " + std::to_string(sizes.vocabulary));
  }
  return lacks;
}

BlockKind block_kind_of(const ModelTensor& tensor) {
  constexpr std::pair<std::string_view, BlockKind> kKinds[] = {{"Q4_0", BlockKind::kQ4_0},
                                                               {"Q4_1", BlockKind::kQ4_1},
                                                               {"Q8_0", BlockKind::kQ8_0}};
  const auto found = std::ranges::find(kKinds, std::string_view(tensor.type),
                                       [](const auto& row) { return row.first; });
  return found == std::end(kKinds) ? BlockKind::kNone : found->second;
}

Status take_blocks(const LanguageModelFile& file, const ModelTensor& tensor, int64_t head_channels,
                   onnx::ImportedParameter& parameter) {
  MANTISSA_ASSIGN(parameter.bytes, file.bytes(tensor.name_in_file));
  if (!has_finite_scales(parameter.blocks, parameter.bytes)) {
    return invalid_input("tensor " + readable_name(tensor.name_in_file) +
                         " has a number that is not finite");
  }
  if (!file.neighbours_are_pairs || !is_turned(parameter.name)) return {};
  const int64_t row = bytes_in_blocks(parameter.blocks, parameter.shape[1]);
  parameter.bytes = with_halves_as_pairs(parameter.bytes, row, head_channels);
  return {};
}

Result<onnx::ImportedNetwork> network_of(const LanguageModelFile& file, int64_t sequence,
                                         ImportedWeights weights) {
  std::vector<std::string> lacks = early_lacks(file);
  if (!lacks.empty()) return refused(lacks);
  onnx::ImportedNetwork network;
  MANTISSA_ASSIGN(network.graph, decoder_lm(file.architecture + "_lm", file.sizes, sequence));
  if (!file.chat_refused.empty()) {
    network.notes.push_back("its chat template is not taken over, and the network goes on with "
                            "texts alone: " + file.chat_refused);
  }
  const std::vector<const ModelTensor*> tensors = find_tensors(file, network.graph, lacks);
  if (!lacks.empty()) return refused(lacks);
  if (weights == ImportedWeights::kBlocks) {
    const auto kind_of = [&](int parameter) {
      return block_kind_of(*tensors[static_cast<size_t>(parameter)]);
    };
    MANTISSA_ASSIGN(network.graph, with_weight_blocks(network.graph, kind_of));
    const std::string blocks = describe_blocks(network.graph);
    if (blocks.empty()) {
      return invalid_input("weights blocks: no tensor of " + file.path +
                           " is of Q4_0, Q4_1 or Q8_0; leave it out");
    }
    network.notes.push_back("weights in blocks, not trained: " + blocks);
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Parameter& parameter = network.graph.parameters[i];
    if (parameter.storage == Storage::kBlocks) {
      onnx::ImportedParameter own{parameter.name, parameter.shape, {}, {}};
      own.blocks = parameter.blocks;
      MANTISSA_RETURN_IF_ERROR(take_blocks(file, *tensors[i], file.sizes.head_channels, own));
      network.parameters.push_back(std::move(own));
      continue;
    }
    MANTISSA_ASSIGN(std::vector<float> floats, file.floats(tensors[i]->name_in_file));
    if (!std::all_of(floats.begin(), floats.end(), [](float x) { return std::isfinite(x); })) {
      return invalid_input("tensor " + readable_name(tensors[i]->name_in_file) +
                           " has a number that is not finite");
    }
    if (file.neighbours_are_pairs && is_turned(parameter.name)) {
      const int64_t row = parameter.shape.rank > 1 ? parameter.shape.last() : 1;
      floats = with_halves_as_pairs(floats, row, file.sizes.head_channels);
    }
    network.parameters.push_back({parameter.name, parameter.shape, std::move(floats), {}});
  }
  return network;
}

}  // namespace

Result<std::string> tokenizer_entry(const LanguageModelFile& file) {
  const ByteBpe& own = *file.tokenizer;
  std::vector<std::string> tokens = own.tokens();
  if (std::ssize(tokens) >= file.sizes.vocabulary) return to_json(own, file.chat, file.chat_refused);
  ByteBpeOptions options = own.options();
  for (auto number = std::ssize(tokens); number < file.sizes.vocabulary; ++number) {
    tokens.push_back("<|unused " + std::to_string(number) + "|>");
    options.added.push_back({.text = tokens.back(),
                             .number = static_cast<int32_t>(number),
                             .special = true});
  }
  MANTISSA_ASSIGN(const ByteBpe padded,
                  ByteBpe::create(std::move(tokens), own.merges(), std::move(options)));
  return to_json(padded, file.chat, file.chat_refused);
}

Result<onnx::ImportedNetwork> import_language_model(const LanguageModelFile& file,
                                                    int64_t sequence, ImportedWeights weights) {
  if (weights == ImportedWeights::kBlocks && !file.bytes) {
    return invalid_input("weights blocks: is for GGUF files, and " + file.path + " is none");
  }
  const bool is_limited = file.positions > 1;
  if (is_limited && sequence > file.positions) {
    return invalid_input("sequence: " + file.path + " has " + std::to_string(file.positions) +
                         " positions, and " + std::to_string(sequence) + " are asked for");
  }
  if (sequence == 0) {
    sequence = is_limited ? std::min(kUsualSequence, file.positions) : kUsualSequence;
  }
  auto network = network_of(file, sequence, weights);
  if (network.ok()) return network;
  Error error = network.error();
  if (error.message.find(file.path) == std::string::npos) {
    error.message = file.path + ": " + error.message;
  }
  return error;
}

}  // namespace mantissa
