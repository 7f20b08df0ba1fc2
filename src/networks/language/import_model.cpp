// Networks of language models' files.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "data/tokenizers/byte_bpe/byte_bpe_files.h"
#include "formats/arrays/safetensors_header.h"
#include "networks/language/model_file.h"

namespace mantissa {
namespace {

constexpr int64_t kUsualSequence = 128;
constexpr int64_t kTensorsOfALayer = 9;
constexpr const char* kHead = "lm_head.weight";

// Parts of a block, ours and Hugging Face's.
constexpr std::pair<std::string_view, std::string_view> kParts[] = {
    {"norm1.scale", "input_layernorm.weight"},
    {"query.weights", "self_attn.q_proj.weight"},
    {"query.bias", "self_attn.q_proj.bias"},
    {"key.weights", "self_attn.k_proj.weight"},
    {"key.bias", "self_attn.k_proj.bias"},
    {"value.weights", "self_attn.v_proj.weight"},
    {"value.bias", "self_attn.v_proj.bias"},
    {"project.weights", "self_attn.o_proj.weight"},
    {"norm2.scale", "post_attention_layernorm.weight"},
    {"gate.weights", "mlp.gate_proj.weight"},
    {"up.weights", "mlp.up_proj.weight"},
    {"down.weights", "mlp.down_proj.weight"}};

// The name in the layout of a parameter of the network.
std::string name_in_layout(const std::string& name) {
  if (name == "embedding.weights") return "model.embed_tokens.weight";
  if (name == "norm.scale") return "model.norm.weight";
  if (name == "classifier.weights") return kHead;
  constexpr std::string_view kBlock = "block";
  const size_t point = name.find('.');
  const int64_t block = std::stoll(name.substr(kBlock.size(), point - kBlock.size())) - 1;
  const auto part = std::find_if(std::begin(kParts), std::end(kParts), [&](const auto& each) {
    return each.first == name.substr(point + 1);
  });
  return "model.layers." + std::to_string(block) + "." + std::string(part->second);
}

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text;
  for (const int64_t dim : shape) text += (text.empty() ? "" : ", ") + std::to_string(dim);
  return "[" + text + "]";
}

// Rows of heads in GGUF's order, where rows 2j and 2j + 1 are a pair, in the order in which rows j
// and j + half are one. A bias has rows of one number.
std::vector<float> with_halves_as_pairs(const std::vector<float>& rows, int64_t row,
                                        int64_t head_channels) {
  std::vector<float> sorted(rows.size());
  const int64_t half = head_channels / 2;
  for (int64_t to = 0; to < std::ssize(rows) / row; ++to) {
    const int64_t head = to / head_channels, place = to % head_channels;
    const int64_t from = head * head_channels + 2 * (place % half) + place / half;
    std::copy_n(rows.begin() + from * row, row, sorted.begin() + to * row);
  }
  return sorted;
}

bool is_turned(const std::string& parameter) {
  return parameter.find(".query.") != std::string::npos ||
         parameter.find(".key.") != std::string::npos;
}

// Tensors that are there and not in the network: of each layer together.
std::vector<std::string> other_tensors(const LanguageModelFile& file,
                                       const std::set<std::string>& used) {
  std::map<std::string, int64_t> others;
  for (const ModelTensor& tensor : file.tensors) {
    const bool changes_nothing =
        tensor.name.ends_with("rotary_emb.inv_freq") || (tensor.name == kHead && file.sizes.tied);
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
    const std::string name = name_in_layout(parameter.name);
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
  const LlamaSizes& sizes = file.sizes;
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

Result<onnx::ImportedNetwork> network_of(const LanguageModelFile& file, int64_t sequence) {
  std::vector<std::string> lacks = early_lacks(file);
  if (!lacks.empty()) return refused(lacks);
  onnx::ImportedNetwork network;
  MANTISSA_ASSIGN(network.graph, llama_lm(file.architecture + "_lm", file.sizes, sequence));
  const std::vector<const ModelTensor*> tensors = find_tensors(file, network.graph, lacks);
  if (!lacks.empty()) return refused(lacks);
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Parameter& parameter = network.graph.parameters[i];
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
  if (std::ssize(tokens) >= file.sizes.vocabulary) return to_json(own, file.chat);
  ByteBpeOptions options = own.options();
  for (auto number = std::ssize(tokens); number < file.sizes.vocabulary; ++number) {
    tokens.push_back("<|unused " + std::to_string(number) + "|>");
    options.added.push_back({.text = tokens.back(),
                             .number = static_cast<int32_t>(number),
                             .special = true});
  }
  MANTISSA_ASSIGN(const ByteBpe padded,
                  ByteBpe::create(std::move(tokens), own.merges(), std::move(options)));
  return to_json(padded, file.chat);
}

Result<onnx::ImportedNetwork> import_language_model(const LanguageModelFile& file,
                                                    int64_t sequence) {
  const bool is_limited = file.positions > 1;
  if (is_limited && sequence > file.positions) {
    return invalid_input("sequence: " + file.path + " has " + std::to_string(file.positions) +
                         " positions, and " + std::to_string(sequence) + " are asked for");
  }
  if (sequence == 0) {
    sequence = is_limited ? std::min(kUsualSequence, file.positions) : kUsualSequence;
  }
  auto network = network_of(file, sequence);
  if (network.ok()) return network;
  Error error = network.error();
  if (error.message.find(file.path) == std::string::npos) {
    error.message = file.path + ": " + error.message;
  }
  return error;
}

}  // namespace mantissa
