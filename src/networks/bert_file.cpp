#include "networks/bert_file.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/files/atomic_file.h"
#include "base/files/file_system.h"
#include "formats/arrays/safetensors.h"
#include "formats/arrays/safetensors_model.h"
#include "formats/json_text.h"
#include "models/bert.h"

namespace mantissa {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostConfigBytes = int64_t{1} << 20;
constexpr int64_t kUsualSequence = 128;
constexpr const char* kWeightsFile = "model.safetensors";

// Entries of config.json that other networks than ours have.
Status check_kind(const nlohmann::json& config) {
  const auto is = [&](const char* key, const std::string& usual) {
    return config.value(key, usual);
  };
  struct Wanted {
    const char *key, *value;
  };
  for (const Wanted& wanted : {Wanted{"model_type", "bert"}, Wanted{"hidden_act", "gelu"},
                               Wanted{"position_embedding_type", "absolute"}}) {
    const std::string found = is(wanted.key, wanted.value);
    if (found == wanted.value) continue;
    return invalid_input(std::string("its ") + wanted.key + " is '" + found + "'; '" +
                         wanted.value + "' is the one that can be imported");
  }
  if (!config.value("is_decoder", false)) return {};
  return invalid_input("it is a decoder, which cannot be imported");
}

Result<BertSizes> sizes_of(const nlohmann::json& config) {
  MANTISSA_RETURN_IF_ERROR(check_kind(config));
  constexpr int64_t kMost = int64_t{1} << 24;
  BertSizes sizes;
  const std::pair<const char*, int64_t*> entries[] = {
      {"num_hidden_layers", &sizes.layers},  {"hidden_size", &sizes.channels},
      {"num_attention_heads", &sizes.heads}, {"intermediate_size", &sizes.inner},
      {"vocab_size", &sizes.vocabulary},     {"max_position_embeddings", &sizes.positions},
      {"type_vocab_size", &sizes.segments}};
  for (const auto& [key, value] : entries) {
    const auto found = config.find(key);
    const bool fits = found != config.end() && found->is_number_integer() && *found >= int64_t{1} &&
                      *found <= kMost;
    if (!fits) return invalid_input(std::string("its ") + key + " is no number from 1 to 2^24");
    found->get_to(*value);
  }
  sizes.epsilon = config.value("layer_norm_eps", sizes.epsilon);
  constexpr int64_t kMostLayers = 256;
  if (sizes.layers <= kMostLayers) return sizes;
  return invalid_input("it has " + std::to_string(sizes.layers) + " layers; at most " +
                       std::to_string(kMostLayers) + " can be imported");
}

Result<BertSizes> read_sizes(const fs::path& path) {
  MANTISSA_ASSIGN(const auto bytes, read_file(path, kMostConfigBytes));
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto config = parse_json(text);
  if (!config.is_object()) return invalid_input(path.string() + ": is no JSON object");
  try {
    auto sizes = sizes_of(config);
    return sizes.ok() ? sizes : invalid_input(path.string() + ": " + sizes.error().message);
  } catch (const nlohmann::json::exception&) {
    return invalid_input(path.string() + ": an entry has another type than it should");
  }
}

bool replace_front(std::string& name, const std::string& from, const std::string& to) {
  if (!name.starts_with(from)) return false;
  name.replace(0, from.size(), to);
  return true;
}

// The name of a parameter in a file, from its name in the network.
std::string name_in_file(std::string name) {
  const std::pair<const char*, const char*> wholes[] = {
      {"embedding.weights", "embeddings.word_embeddings.weight"},
      {"positions.weights", "embeddings.position_embeddings.weight"},
      {"segment.weights", "embeddings.token_type_embeddings.weight"},
      {"norm.scale", "embeddings.LayerNorm.weight"},
      {"norm.offset", "embeddings.LayerNorm.bias"}};
  for (const auto& [ours, theirs] : wholes) {
    if (name == ours) return theirs;
  }
  const size_t point = name.find('.');
  const int64_t block = std::stoll(name.substr(std::strlen("block"))) - 1;
  std::string part = name.substr(point + 1);
  const std::pair<const char*, const char*> parts[] = {{"query.", "attention.self.query."},
                                                       {"key.", "attention.self.key."},
                                                       {"value.", "attention.self.value."},
                                                       {"project.", "attention.output.dense."},
                                                       {"norm1.", "attention.output.LayerNorm."},
                                                       {"linear1.", "intermediate.dense."},
                                                       {"linear2.", "output.dense."},
                                                       {"norm2.", "output.LayerNorm."}};
  for (const auto& [ours, theirs] : parts) {
    if (replace_front(part, ours, theirs)) break;
  }
  for (const auto& [ours, theirs] :
       {std::pair{"weights", "weight"}, {"scale", "weight"}, {"offset", "bias"}}) {
    const size_t last = part.rfind('.') + 1;
    if (part.compare(last, std::string::npos, ours) == 0) part.replace(last, part.size(), theirs);
  }
  return "encoder.layer." + std::to_string(block) + "." + part;
}

// Under its own name, after "bert.", or as old files name norms.
const SafetensorsTensor* find_tensor(const SafetensorsFile& file, const std::string& name) {
  for (const char* front : {"", "bert."}) {
    if (const auto* tensor = file.find(front + name)) return tensor;
    const size_t norm = name.find("LayerNorm.");
    if (norm == std::string::npos) continue;
    const size_t last = name.rfind('.') + 1;
    const char* old = name.substr(last) == "weight" ? "gamma" : "beta";
    if (const auto* tensor = file.find(front + name.substr(0, last) + old)) return tensor;
  }
  return nullptr;
}

Result<std::vector<float>> parameter_of(const SafetensorsTensor& tensor, const Shape& shape) {
  const bool same_shape = std::ssize(tensor.shape) == shape.rank &&
                          std::equal(tensor.shape.begin(), tensor.shape.end(), shape.dims.begin());
  if (!same_shape) {
    std::string is;
    for (const int64_t dim : tensor.shape) is += (is.empty() ? "" : ", ") + std::to_string(dim);
    return invalid_input("'" + tensor.name + "' is [" + is + "], and config.json asks for " +
                         to_string(shape));
  }
  MANTISSA_ASSIGN(std::vector<float> floats, floats_of(tensor.name, tensor.dtype, tensor.data));
  const bool finite =
      std::all_of(floats.begin(), floats.end(), [](float x) { return std::isfinite(x); });
  if (!finite) return invalid_input("'" + tensor.name + "' has a number that is not finite");
  return floats;
}

// Takes all parameters of the network, and notes the file's other tensors.
Status take_parameters(const SafetensorsFile& file, onnx::ImportedNetwork& network) {
  std::set<std::string> used;
  for (const Parameter& parameter : network.graph.parameters) {
    const std::string name = name_in_file(parameter.name);
    const SafetensorsTensor* tensor = find_tensor(file, name);
    if (tensor == nullptr) return invalid_input("has no parameter '" + name + "'");
    used.insert(tensor->name);
    MANTISSA_ASSIGN(std::vector<float> floats, parameter_of(*tensor, parameter.shape));
    network.parameters.push_back({parameter.name, parameter.shape, std::move(floats), {}});
  }
  std::string others;
  for (const SafetensorsTensor& tensor : file.tensors) {
    const bool is_count = tensor.name.ends_with("position_ids");
    if (used.contains(tensor.name) || is_count) continue;
    others += (others.empty() ? "left out: " : ", ") + tensor.name;
  }
  if (!others.empty()) network.notes.push_back(others);
  return {};
}

Result<onnx::ImportedNetwork> read_network(const fs::path& weights, int64_t sequence) {
  MANTISSA_ASSIGN(const BertSizes sizes, read_sizes(weights.parent_path() / "config.json"));
  if (sequence == 0) sequence = std::min(kUsualSequence, sizes.positions);
  if (sequence > sizes.positions) {
    return invalid_input("sequence: the network has " + std::to_string(sizes.positions) +
                         " positions, and " + std::to_string(sequence) + " are asked for");
  }
  onnx::ImportedNetwork network;
  auto graph = bert_encoder("bert_encoder", sizes, sequence);
  if (!graph.ok()) return invalid_input(weights.string() + ": " + graph.error().message);
  network.graph = std::move(*graph);
  MANTISSA_ASSIGN(const SafetensorsFile file, read_safetensors(weights));
  const Status taken = take_parameters(file, network);
  if (!taken.ok()) return invalid_input(weights.string() + ": " + taken.error().message);
  return network;
}

}  // namespace

bool is_bert_path(const fs::path& path) {
  std::error_code ignored;
  return path.extension() == ".safetensors" || fs::is_directory(path, ignored);
}

Result<ImportedEncoder> import_bert(const fs::path& path, int64_t sequence) {
  MANTISSA_ASSIGN(const PathKind kind, path_kind(path));
  const fs::path weights = kind == PathKind::kFolder ? path / kWeightsFile : path;
  MANTISSA_ASSIGN(onnx::ImportedNetwork network, read_network(weights, sequence));
  MANTISSA_ASSIGN(WordPiece tokenizer, read_wordpiece(weights.parent_path()));
  const int64_t tokens = network.graph.parameters[0].shape[0];
  const auto pieces = std::ssize(tokenizer.pieces());
  if (pieces > tokens) {
    return invalid_input(weights.parent_path().string() + ": the tokenizer has " +
                         std::to_string(pieces) + " pieces, and the network knows " +
                         std::to_string(tokens) + " tokens");
  }
  return ImportedEncoder{std::move(network), std::move(tokenizer)};
}

}  // namespace mantissa
