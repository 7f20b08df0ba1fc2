// Language models and adapters as folders, in the layouts of Hugging Face's transformers and PEFT.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/files/atomic_file.h"
#include "base/files/file_system.h"
#include "data/tokenizers/byte_bpe/byte_bpe_files.h"
#include "formats/arrays/safetensors.h"
#include "formats/gguf/gguf_blocks.h"
#include "networks/language/families.h"
#include "networks/language/layout_names.h"
#include "networks/language/rotary_scaling.h"
#include "networks/language/written_model.h"

namespace mantissa {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

// transformers' names.
const char* torch_type(WeightType type) {
  if (type == WeightType::kF16) return "float16";
  return type == WeightType::kBF16 ? "bfloat16" : "float32";
}

uint32_t float_type(WeightType type) {
  if (type == WeightType::kF16) return kGgufF16;
  return type == WeightType::kBF16 ? kGgufBF16 : kGgufF32;
}

// The configuration's entry for scaled positions; null: positions are not scaled.
Result<json> rope_scaling(const DecoderSizes& sizes) {
  const WholeList& factors = sizes.rotary_factors;
  if (factors.empty()) return json();
  if (factors.size() == 1) {
    return json{{"rope_type", "linear"}, {"factor", real_factor(factors[0])}};
  }
  const auto rule = llama3_scaling(factors, sizes.rotary_base);
  if (!rule) {
    return invalid_input("rotary angles have factors of pairs that are not by Llama 3's rule, and a "
                         "folder has no place for them: choose --target gguf");
  }
  return json{{"rope_type", "llama3"},
              {"factor", rule->factor},
              {"low_freq_factor", rule->low},
              {"high_freq_factor", rule->high},
              {"original_max_position_embeddings", std::llrint(rule->positions)}};
}

Result<json> llama_config(const WrittenModel& model) {
  const DecoderSizes& sizes = model.sizes;
  json config = {{"hidden_act", "silu"},
                 {"hidden_size", sizes.channels},
                 {"intermediate_size", sizes.inner},
                 {"num_hidden_layers", sizes.layers},
                 {"num_attention_heads", sizes.heads},
                 {"num_key_value_heads", sizes.key_heads},
                 {"head_dim", sizes.head_channels},
                 {"max_position_embeddings", model.positions},
                 {"rms_norm_eps", sizes.epsilon},
                 {"rope_theta", sizes.rotary_base}};
  MANTISSA_ASSIGN(json scaling, rope_scaling(sizes));
  if (!scaling.is_null()) config["rope_scaling"] = std::move(scaling);
  if (model.architecture == "llama") config["mlp_bias"] = false;
  if (model.architecture != "qwen2") config["attention_bias"] = false;
  return config;
}

json gpt2_config(const DecoderSizes& sizes) {
  return {{"activation_function", "gelu_new"},
          {"n_embd", sizes.channels},
          {"n_inner", sizes.inner},
          {"n_layer", sizes.layers},
          {"n_head", sizes.heads},
          {"n_positions", sizes.positions},
          {"n_ctx", sizes.positions},
          {"layer_norm_epsilon", sizes.epsilon}};
}

Result<json> config_of(const WrittenModel& model, WeightType type) {
  const bool is_llama = model.sizes.layout == DecoderLayout::kLlama;
  MANTISSA_ASSIGN(json config, is_llama ? llama_config(model)
                                        : Result<json>(gpt2_config(model.sizes)));
  config["architectures"] = json::array({find_family(model.architecture)->class_name});
  config["model_type"] = model.architecture;
  config["vocab_size"] = model.sizes.vocabulary;
  config["tie_word_embeddings"] = model.sizes.tied;
  config["torch_dtype"] = torch_type(type);
  if (model.tokenizer == nullptr) return config;
  const ByteBpeOptions& options = model.tokenizer->options();
  const std::pair<const char*, int32_t> tokens[] = {{"bos_token_id", options.begin},
                                                    {"eos_token_id", options.end},
                                                    {"pad_token_id", options.padding}};
  for (const auto& [key, number] : tokens) {
    config[key] = number >= 0 ? json(number) : json();
  }
  return config;
}

// The numbers of a tensor as the file has them: in rows, or column by column.
std::string bytes_of(const WrittenTensor& tensor, bool is_transposed, uint32_t type) {
  std::string bytes;
  const int64_t rows = tensor.rows(), columns = tensor.columns();
  std::vector<float> row(static_cast<size_t>(columns)), all;
  if (is_transposed) all.resize(static_cast<size_t>(rows * columns));
  for (int64_t i = 0; i < rows; ++i) {
    row_numbers(tensor, i, row);
    if (!is_transposed) {
      append_numbers(type, row, bytes);
      continue;
    }
    for (int64_t k = 0; k < columns; ++k) {
      all[static_cast<size_t>(k * rows + i)] = row[static_cast<size_t>(k)];
    }
  }
  append_numbers(type, all, bytes);
  return bytes;
}

std::string dumped(const json& value) {
  return value.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

// A name that Hugging Face's tensors begin with in a model that PEFT has changed.
constexpr const char* kPeftFront = "base_model.model.";

// "model.layers.0.self_attn.q_proj", of a layer of ours.
std::string module_of(DecoderLayout layout, const std::string& layer) {
  const std::string name = name_in_layout(layout, layer + ".weights");
  constexpr std::string_view kEnd = ".weight";
  return name.ends_with(kEnd) ? name.substr(0, name.size() - kEnd.size()) : name;
}

// The end of a module's name that all layers of its kind share. GPT-2 has two called c_proj.
std::string kind_of(DecoderLayout layout, const std::string& module) {
  size_t point = module.rfind('.');
  if (layout == DecoderLayout::kGpt2) point = module.rfind('.', point - 1);
  return module.substr(point + 1);
}

}  // namespace

Result<WriterNotes> write_model_folder(const fs::path& folder, const WrittenModel& model,
                                       WeightType type) {
  std::vector<std::string> bytes;
  std::vector<SafetensorsView> views;
  bytes.reserve(model.tensors.size());
  MANTISSA_ASSIGN(const json config, config_of(model, type));
  for (const WrittenTensor& tensor : model.tensors) {
    const bool is_transposed = is_transposed_in_folders(model.sizes.layout, tensor.name);
    bytes.push_back(bytes_of(tensor, is_transposed, float_type(type)));
    SafetensorsView view{tensor.name, weight_type_name(type), dims_of(tensor.from.shape), {}};
    if (is_transposed) std::swap(view.shape[0], view.shape[1]);
    view.data = std::as_bytes(std::span(bytes.back()));
    views.push_back(std::move(view));
  }
  MANTISSA_RETURN_IF_ERROR(make_folder(folder));
  MANTISSA_RETURN_IF_ERROR(
      write_safetensors(folder / "model.safetensors", {{"format", "pt"}}, views));
  MANTISSA_RETURN_IF_ERROR(
      write_text_atomically(folder / "config.json", dumped(config)));
  if (model.tokenizer == nullptr) return WriterNotes();
  MANTISSA_RETURN_IF_ERROR(
      write_byte_bpe(folder, *model.tokenizer, model.chat, model.positions));
  return WriterNotes();
}

Result<WriterNotes> write_adapters(const fs::path& folder, const Graph& network,
                                   std::span<const NamedParameter> parameters,
                                   const std::string& base) {
  MANTISSA_ASSIGN(const WrittenModel model, written_model(network, parameters));
  const DecoderLayout layout = model.sizes.layout;
  const std::vector<Adapter> adapters = adapters_of(network);
  if (adapters.empty()) {
    return invalid_input("the network '" + network.name + "' has no adapters: train --lora");
  }
  std::set<std::string> modules;
  std::vector<std::string> bytes;
  std::vector<SafetensorsView> views;
  bytes.reserve(2 * adapters.size());
  const auto add = [&](const std::string& name, int64_t rows, int64_t columns,
                       const std::vector<double>& numbers) {
    const std::vector<float> floats(numbers.begin(), numbers.end());
    append_numbers(kGgufF32, floats, bytes.emplace_back());
    views.push_back({name, "F32", {rows, columns}, std::as_bytes(std::span(bytes.back()))});
  };
  for (const Adapter& adapter : adapters) {
    const std::string module = module_of(layout, adapter.layer);
    const auto tensor = std::ranges::find(model.tensors, module + ".weight", &WrittenTensor::name);
    modules.insert(kind_of(layout, module));
    add(kPeftFront + module + ".lora_A.weight", adapter.rank, tensor->columns(), tensor->a);
    add(kPeftFront + module + ".lora_B.weight", tensor->rows(), adapter.rank, tensor->b);
  }
  // If layers of one kind have adapters here and there, PEFT wants their whole names.
  const bool all = std::ssize(adapters) == std::ssize(modules) * model.sizes.layers;
  json targets = json::array();
  for (const std::string& module : modules) {
    if (all) targets.push_back(module);
  }
  for (const Adapter& adapter : adapters) {
    if (!all) targets.push_back(module_of(layout, adapter.layer));
  }
  const LoraChoice choice = lora_of(network);
  const json config = {{"peft_type", "LORA"},
                       {"task_type", "CAUSAL_LM"},
                       {"base_model_name_or_path", base.empty() ? json() : json(base)},
                       {"r", choice.rank},
                       {"lora_alpha", choice.alpha},
                       {"lora_dropout", 0.0},
                       {"target_modules", targets},
                       {"bias", "none"},
                       {"fan_in_fan_out", layout == DecoderLayout::kGpt2},
                       {"init_lora_weights", true},
                       {"inference_mode", true},
                       {"modules_to_save", nullptr},
                       {"use_rslora", false},
                       {"use_dora", false}};
  MANTISSA_RETURN_IF_ERROR(make_folder(folder));
  MANTISSA_RETURN_IF_ERROR(
      write_safetensors(folder / "adapter_model.safetensors", {{"format", "pt"}}, views));
  MANTISSA_RETURN_IF_ERROR(
      write_text_atomically(folder / "adapter_config.json", dumped(config)));
  return WriterNotes{std::to_string(adapters.size()) + " adapters of rank " +
                     std::to_string(choice.rank) +
                     "; other parameters that were trained are not in them"};
}

}  // namespace mantissa
