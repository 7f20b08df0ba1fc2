// Language models in folders of Hugging Face's transformers.
#include <algorithm>
#include <array>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/files/file_system.h"
#include "base/files/text_file.h"
#include "data/tokenizers/byte_bpe/byte_bpe_files.h"
#include "formats/arrays/safetensors_model.h"
#include "formats/json_text.h"
#include "formats/json_tree.h"
#include "networks/language/readers.h"

namespace mantissa {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int64_t kMostConfigBytes = int64_t{1} << 20;

// Entries of config.json that the network follows, or that change nothing in it.
constexpr std::string_view kFollowed[] = {"_name_or_path",
                                          "architectures",
                                          "attention_dropout",
                                          "bos_token_id",
                                          "dtype",
                                          "eos_token_id",
                                          "head_dim",
                                          "hidden_size",
                                          "initializer_range",
                                          "intermediate_size",
                                          "is_llama_config",
                                          "max_position_embeddings",
                                          "max_window_layers",
                                          "model_type",
                                          "num_attention_heads",
                                          "num_hidden_layers",
                                          "num_key_value_heads",
                                          "pad_token_id",
                                          "rms_norm_eps",
                                          "rope_theta",
                                          "sliding_window",
                                          "tie_word_embeddings",
                                          "torch_dtype",
                                          "transformers_version",
                                          "transformers.js_config",
                                          "use_cache",
                                          "vocab_size",
                                          "name_or_path",
                                          "unk_token_id"};

// Entries with the only values that the program has; elsewhere nothing, false and null.
struct OnlyValue {
  std::string_view key;
  json value;
};
const std::vector<OnlyValue>& only_values() {
  static const std::vector<OnlyValue> list = {
      {"hidden_act", "silu"}, {"pretraining_tp", 1}, {"partial_rotary_factor", 1.0}};
  return list;
}

bool asks_for_nothing(const json& value) {
  return value.is_null() || value == false || (value.is_structured() && value.empty());
}

// Whether scaled positions are the usual ones.
bool is_usual_rope(const json& rope) {
  if (!rope.is_object()) return false;
  for (const auto& [key, value] : rope.items()) {
    const bool usual = ((key == "rope_type" || key == "type") && value == "default") ||
                       (key == "rope_theta" && value.is_number());
    if (!usual) return false;
  }
  return true;
}

bool is_known(const std::string& key, const json& value) {
  if (std::find(std::begin(kFollowed), std::end(kFollowed), key) != std::end(kFollowed)) {
    return true;
  }
  if (key == "layer_types") {
    return value.is_array() && std::all_of(value.begin(), value.end(), [](const json& type) {
             return type == "full_attention";
           });
  }
  const bool is_rope = key == "rope_scaling" || key == "rope_parameters";
  if (is_rope && is_usual_rope(value)) return true;
  const auto only = std::find_if(only_values().begin(), only_values().end(),
                                 [&](const OnlyValue& each) { return each.key == key; });
  return only != only_values().end() ? value == only->value : asks_for_nothing(value);
}

Result<int64_t> size_of(const json& config, const char* key,
                        std::optional<int64_t> usual = std::nullopt) {
  const auto found = config.find(key);
  if ((found == config.end() || found->is_null()) && usual) return *usual;
  const bool fits =
      found != config.end() && found->is_number_integer() && *found >= 1 && *found <= kMostSize;
  if (fits) return found->get<int64_t>();
  return invalid_input(std::string("its ") + key + " is no number from 1 to 2^24");
}

double real_of(const json& config, const char* key, double usual) {
  const auto found = config.find(key);
  return found != config.end() && found->is_number() ? found->get<double>() : usual;
}

Status take_sizes(const json& config, LanguageModelFile& model) {
  LlamaSizes& sizes = model.sizes;
  MANTISSA_ASSIGN(sizes.layers, size_of(config, "num_hidden_layers"));
  MANTISSA_ASSIGN(sizes.channels, size_of(config, "hidden_size"));
  MANTISSA_ASSIGN(sizes.inner, size_of(config, "intermediate_size"));
  MANTISSA_ASSIGN(sizes.heads, size_of(config, "num_attention_heads"));
  MANTISSA_ASSIGN(sizes.key_heads, size_of(config, "num_key_value_heads", sizes.heads));
  MANTISSA_ASSIGN(sizes.head_channels,
                  size_of(config, "head_dim", std::max<int64_t>(1, sizes.channels / sizes.heads)));
  MANTISSA_ASSIGN(sizes.vocabulary, size_of(config, "vocab_size"));
  MANTISSA_ASSIGN(model.positions, size_of(config, "max_position_embeddings", 1));
  constexpr double kUsualEpsilon = 1e-6;
  sizes.epsilon = real_of(config, "rms_norm_eps", kUsualEpsilon);
  sizes.rotary_base = real_of(config, "rope_theta", sizes.rotary_base);
  const auto rope = config.find("rope_parameters");
  if (rope != config.end() && rope->is_object()) {
    sizes.rotary_base = real_of(*rope, "rope_theta", sizes.rotary_base);
  }
  sizes.tied = config.value("tie_word_embeddings", false);
  sizes.query_bias = model.architecture == "qwen2";
  return {};
}

std::string bounded(const json& value) {
  constexpr size_t kMost = 100;
  const std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  return text.size() > kMost ? text.substr(0, kMost) + "..." : text;
}

void take_lacks(const json& config, LanguageModelFile& model) {
  if (model.architecture != "llama" && model.architecture != "qwen2") {
    model.lacks.push_back("model_type = " + json_quoted(model.architecture.substr(0, 100)) +
                          ": llama and qwen2 are those that are known");
  }
  for (const auto& [key, value] : config.items()) {
    if (is_known(key, value)) continue;
    model.lacks.push_back(key.substr(0, 60) + " = " + bounded(value));
  }
  if (config.value("use_sliding_window", json(false)) == json(true) ||
      (model.architecture != "qwen2" && config.value("sliding_window", json()).is_number())) {
    model.lacks.push_back("sliding_window = " + bounded(config.value("sliding_window", json())));
  }
}

Status take_texts(const fs::path& folder, LanguageModelFile& model) {
  model.tokenizer_kind = "tokenizer.json";
  auto tokenizer = read_byte_bpe(folder);
  if (tokenizer.ok()) {
    const PreTokenizer kind = tokenizer->options().pre_tokenizer;
    model.tokenizer_kind += ", " + std::string(pre_tokenizer_name(kind));
    model.tokenizer = std::move(*tokenizer);
  } else {
    model.lacks.push_back(tokenizer.error().message);
  }
  MANTISSA_ASSIGN(const std::string jinja, read_chat_template(folder));
  if (jinja.empty()) return {};
  auto chat = chat_template_of(jinja);
  if (chat.ok()) {
    model.chat = std::move(*chat);
  } else {
    model.lacks.push_back("chat_template: " + chat.error().message);
  }
  return {};
}

// The entries of config.json; null: there is no such file.
Result<json> read_config(const fs::path& folder) {
  const fs::path path = folder / "config.json";
  MANTISSA_ASSIGN(const bool there, is_there(path));
  if (!there) return json();
  MANTISSA_ASSIGN(const std::string text, read_text_file(path, kMostConfigBytes));
  json config = parse_json(text);
  if (config.is_object()) return config;
  return invalid_input(path.string() + ": is no JSON object");
}

Result<fs::path> weights_of(const fs::path& folder) {
  for (const char* name : {"model.safetensors", "model.safetensors.index.json"}) {
    MANTISSA_ASSIGN(const bool there, is_there(folder / name));
    if (there) return folder / name;
  }
  return invalid_input(folder.string() +
                       ": has neither model.safetensors nor model.safetensors.index.json");
}

}  // namespace

Result<bool> has_decoder(const fs::path& folder) {
  const auto config = read_config(folder);
  if (!config.ok() || !config->is_object()) return false;  // who reads it says so
  const auto named = [&](const char* key) {
    const auto found = config->find(key);
    return found != config->end() && found->is_string() ? found->get<std::string>() : "";
  };
  const std::string type = named("model_type");
  if (type == "llama" || type == "qwen2") return true;
  const auto classes = config->find("architectures");
  if (classes == config->end() || !classes->is_array() || classes->empty()) return false;
  const json& name = classes->front();
  if (!name.is_string()) return false;
  const std::string text = name.get<std::string>();
  return text.ends_with("ForCausalLM") || text.ends_with("LMHeadModel");
}

Result<LanguageModelFile> read_model_folder(const fs::path& folder) {
  MANTISSA_ASSIGN(const json config, read_config(folder));
  LanguageModelFile model;
  try {
    model.architecture = config.value("model_type", "");
    const Status sizes = take_sizes(config, model);
    if (!sizes.ok()) {
      return invalid_input((folder / "config.json").string() + ": " + sizes.error().message);
    }
    take_lacks(config, model);
  } catch (const json::exception&) {
    return invalid_input((folder / "config.json").string() +
                         ": an entry has another type than it should");
  }
  model.name = fs::absolute(folder).lexically_normal().filename().string();
  MANTISSA_RETURN_IF_ERROR(take_texts(folder, model));
  MANTISSA_ASSIGN(const fs::path weights, weights_of(folder));
  MANTISSA_ASSIGN(SafetensorsModel opened, SafetensorsModel::open(weights));
  const auto tensors = std::make_shared<const SafetensorsModel>(std::move(opened));
  for (const auto& [name, tensor] : tensors->tensors()) {
    model.tensors.push_back({name, name, tensor.dtype, tensor.shape});
  }
  model.floats = [tensors](const std::string& name) { return tensors->floats(name); };
  return model;
}

}  // namespace mantissa
