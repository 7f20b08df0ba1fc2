// Reads config.json of language models, in folders of Hugging Face's transformers.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "networks/language/families.h"
#include "networks/language/readers.h"
#include "networks/language/rotary_scaling.h"

namespace mantissa {
namespace {

using nlohmann::json;

// Entries that every network follows, or that change nothing in it.
constexpr std::string_view kFollowed[] = {"_name_or_path",
                                          "architectures",
                                          "bos_token_id",
                                          "dtype",
                                          "eos_token_id",
                                          "initializer_range",
                                          "model_type",
                                          "name_or_path",
                                          "pad_token_id",
                                          "tie_word_embeddings",
                                          "torch_dtype",
                                          "transformers.js_config",
                                          "transformers_version",
                                          "unk_token_id",
                                          "use_cache",
                                          "vocab_size"};
constexpr std::string_view kLlamaFollowed[] = {"attention_dropout",
                                               "head_dim",
                                               "hidden_size",
                                               "intermediate_size",
                                               "is_llama_config",
                                               "max_position_embeddings",
                                               "max_window_layers",
                                               "num_attention_heads",
                                               "num_hidden_layers",
                                               "num_key_value_heads",
                                               "rms_norm_eps",
                                               "rope_theta",
                                               "sliding_window"};
// Dropout is for training from the start; the summary belongs to other heads.
constexpr std::string_view kGpt2Followed[] = {"attn_pdrop",
                                              "embd_pdrop",
                                              "layer_norm_epsilon",
                                              "n_ctx",
                                              "n_embd",
                                              "n_head",
                                              "n_inner",
                                              "n_layer",
                                              "n_positions",
                                              "resid_pdrop",
                                              "summary_activation",
                                              "summary_first_dropout",
                                              "summary_proj_to_labels",
                                              "summary_type",
                                              "summary_use_proj",
                                              "task_specific_params"};

// Entries with the only values that the program has; elsewhere nothing, false and null.
struct OnlyValue {
  std::string_view key;
  json value;
};
const std::vector<OnlyValue>& only_values(DecoderLayout layout) {
  static const std::vector<OnlyValue> llama = {
      {"hidden_act", "silu"}, {"pretraining_tp", 1}, {"partial_rotary_factor", 1.0}};
  static const std::vector<OnlyValue> gpt2 = {{"activation_function", "gelu_new"},
                                              {"activation_function", "gelu_pytorch_tanh"},
                                              {"scale_attn_weights", true}};
  return layout == DecoderLayout::kLlama ? llama : gpt2;
}

bool asks_for_nothing(const json& value) {
  return value.is_null() || value == false || (value.is_structured() && value.empty());
}

constexpr const char* kRopeKeys[] = {"rope_scaling", "rope_parameters"};

std::string rope_type(const json& rope) {
  for (const char* key : {"rope_type", "type"}) {
    const auto found = rope.find(key);
    if (found != rope.end() && found->is_string()) return found->get<std::string>();
  }
  return "default";
}

// Whether positions are not scaled, or in one of the ways that are known, with all its numbers.
bool is_known_rope(const json& rope) {
  if (!rope.is_object()) return false;
  const std::string type = rope_type(rope);
  std::vector<std::string> numbers;
  if (type == "linear") numbers = {"factor"};
  if (type == "llama3") {
    numbers = {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"};
  }
  if (numbers.empty() && type != "default") return false;
  for (const auto& [key, value] : rope.items()) {
    if (key == "rope_type" || key == "type") {
      if (value != type) return false;
      continue;
    }
    const bool is_one = key == "rope_theta" || std::ranges::count(numbers, key) > 0;
    if (!is_one || !value.is_number()) return false;
  }
  return std::ranges::all_of(numbers, [&](const auto& key) { return rope.contains(key); });
}

bool contains(std::span<const std::string_view> list, const std::string& key) {
  return std::ranges::find(list, key) != list.end();
}

bool is_known(DecoderLayout layout, const std::string& key, const json& value) {
  const bool is_llama = layout == DecoderLayout::kLlama;
  const std::span<const std::string_view> own =
      is_llama ? std::span<const std::string_view>(kLlamaFollowed) : kGpt2Followed;
  if (contains(kFollowed, key) || contains(own, key)) return true;
  if (key == "layer_types") {
    return value.is_array() && std::all_of(value.begin(), value.end(), [](const json& type) {
             return type == "full_attention";
           });
  }
  const bool is_rope = is_llama && (key == kRopeKeys[0] || key == kRopeKeys[1]);
  if (is_rope && is_known_rope(value)) return true;
  bool has_only = false;
  for (const OnlyValue& only : only_values(layout)) {
    if (only.key != key) continue;
    has_only = true;
    if (value == only.value) return true;
  }
  return !has_only && asks_for_nothing(value);
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

Result<WholeList> factors_of(const json& rope, const DecoderSizes& sizes) {
  const std::string type = rope_type(rope);
  const double factor = real_of(rope, "factor", 1);
  if (type == "default") return WholeList();
  if (type == "linear") {
    MANTISSA_ASSIGN(const int64_t all, rotary_factor(factor, "factor"));
    return shortest_factors({all});
  }
  const Llama3Scaling scaling = {.factor = factor,
                                 .low = real_of(rope, "low_freq_factor", 0),
                                 .high = real_of(rope, "high_freq_factor", 0),
                                 .positions = real_of(rope, "original_max_position_embeddings", 0)};
  if (!(0 < scaling.low && scaling.low < scaling.high && scaling.positions >= 1)) {
    return invalid_input("low_freq_factor is above 0 and below high_freq_factor");
  }
  return llama3_factors(scaling, sizes.head_channels / 2, sizes.rotary_base);
}

void take_rope(const json& config, LanguageModelFile& model) {
  DecoderSizes& sizes = model.sizes;
  sizes.rotary_base = real_of(config, "rope_theta", sizes.rotary_base);
  for (const char* key : kRopeKeys) {
    const auto rope = config.find(key);
    if (rope != config.end() && rope->is_object()) {
      sizes.rotary_base = real_of(*rope, "rope_theta", sizes.rotary_base);
    }
  }
  if (!has_angles(sizes)) return;
  for (const char* key : kRopeKeys) {
    const auto rope = config.find(key);
    if (rope == config.end() || !is_known_rope(*rope)) continue;
    auto factors = factors_of(*rope, sizes);
    if (!factors.ok()) {
      model.lacks.push_back(std::string(key) + ": " + factors.error().message);
    } else if (sizes.rotary_factors.empty()) {
      sizes.rotary_factors = std::move(*factors);
    } else if (!factors->empty() && *factors != sizes.rotary_factors) {
      model.lacks.push_back("rope_scaling and rope_parameters that differ");
    }
  }
}

Status take_llama_sizes(const json& config, LanguageModelFile& model) {
  constexpr double kUsualEpsilon = 1e-6;
  constexpr int64_t kQwen3Channels = 128;
  DecoderSizes& sizes = model.sizes;
  MANTISSA_ASSIGN(sizes.layers, size_of(config, "num_hidden_layers"));
  MANTISSA_ASSIGN(sizes.channels, size_of(config, "hidden_size"));
  MANTISSA_ASSIGN(sizes.inner, size_of(config, "intermediate_size"));
  MANTISSA_ASSIGN(sizes.heads, size_of(config, "num_attention_heads"));
  MANTISSA_ASSIGN(sizes.key_heads, size_of(config, "num_key_value_heads", sizes.heads));
  sizes.query_bias = model.architecture == "qwen2";
  sizes.head_norms = model.architecture == "qwen3";
  const int64_t usual =
      sizes.head_norms ? kQwen3Channels : std::max<int64_t>(1, sizes.channels / sizes.heads);
  MANTISSA_ASSIGN(sizes.head_channels, size_of(config, "head_dim", usual));
  MANTISSA_ASSIGN(model.positions, size_of(config, "max_position_embeddings", 1));
  sizes.epsilon = real_of(config, "rms_norm_eps", kUsualEpsilon);
  sizes.tied = config.value("tie_word_embeddings", false);
  take_rope(config, model);
  return {};
}

Status take_gpt2_sizes(const json& config, LanguageModelFile& model) {
  DecoderSizes& sizes = model.sizes;
  MANTISSA_ASSIGN(sizes.layers, size_of(config, "n_layer"));
  MANTISSA_ASSIGN(sizes.channels, size_of(config, "n_embd"));
  MANTISSA_ASSIGN(sizes.inner, size_of(config, "n_inner", 4 * sizes.channels));
  MANTISSA_ASSIGN(sizes.heads, size_of(config, "n_head"));
  MANTISSA_ASSIGN(sizes.positions, size_of(config, "n_positions"));
  model.positions = sizes.positions;
  sizes.epsilon = real_of(config, "layer_norm_epsilon", sizes.epsilon);
  sizes.tied = config.value("tie_word_embeddings", true);
  return {};
}

std::string bounded(const json& value) {
  constexpr size_t kMost = 100;
  const std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  return text.size() > kMost ? text.substr(0, kMost) + "..." : text;
}

void take_lacks(const json& config, LanguageModelFile& model) {
  for (const auto& [key, value] : config.items()) {
    if (is_known(model.sizes.layout, key, value)) continue;
    model.lacks.push_back(key.substr(0, 60) + " = " + bounded(value));
  }
  // Qwen's have a window that is used only if they say so.
  const bool has_window = config.value("sliding_window", json()).is_number() &&
                          model.architecture != "qwen2" && model.architecture != "qwen3";
  if (config.value("use_sliding_window", json(false)) == json(true) || has_window) {
    model.lacks.push_back("sliding_window = " + bounded(config.value("sliding_window", json())));
  }
}

}  // namespace

Status take_config(const json& config, LanguageModelFile& model) {
  const bool is_llama = model.sizes.layout == DecoderLayout::kLlama;
  MANTISSA_ASSIGN(model.sizes.vocabulary, size_of(config, "vocab_size"));
  MANTISSA_RETURN_IF_ERROR(is_llama ? take_llama_sizes(config, model)
                                    : take_gpt2_sizes(config, model));
  take_lacks(config, model);
  return {};
}

}  // namespace mantissa
