// Language models in GGUF files.
#include <algorithm>
#include <memory>
#include <utility>

#include "data/tokenizers/byte_bpe/byte_bpe_files.h"
#include "formats/gguf/gguf.h"
#include "formats/gguf/gguf_blocks.h"
#include "networks/language/families.h"
#include "networks/language/layout_names.h"
#include "networks/language/readers.h"
#include "networks/language/rotary_scaling.h"

namespace mantissa {
namespace {

namespace fs = std::filesystem;

// A key of the architecture with a value that changes nothing; all other values ask for something.
struct HarmlessKey {
  const char* name;
  std::vector<std::string> values;  // as GgufFile::described prints them; empty: any
};

// Keys without the architecture before them.
const std::vector<HarmlessKey>& known_keys(DecoderLayout layout) {
  static const std::vector<HarmlessKey> llama = {{"block_count", {}},
                                                 {"context_length", {}},
                                                 {"embedding_length", {}},
                                                 {"feed_forward_length", {}},
                                                 {"attention.head_count", {}},
                                                 {"attention.head_count_kv", {}},
                                                 {"attention.key_length", {}},
                                                 {"attention.value_length", {}},
                                                 {"attention.layer_norm_rms_epsilon", {}},
                                                 {"attention.causal", {"true"}},
                                                 {"attention.sliding_window", {"0"}},
                                                 {"rope.dimension_count", {}},
                                                 {"rope.freq_base", {}},
                                                 {"rope.scaling.type", {"\"none\"", "\"linear\""}},
                                                 {"rope.scaling.factor", {}},
                                                 {"expert_count", {"0"}},
                                                 {"expert_used_count", {"0"}},
                                                 {"vocab_size", {}}};
  static const std::vector<HarmlessKey> gpt2 = {{"block_count", {}},
                                                {"context_length", {}},
                                                {"embedding_length", {}},
                                                {"feed_forward_length", {}},
                                                {"attention.head_count", {}},
                                                {"attention.layer_norm_epsilon", {}},
                                                {"attention.causal", {"true"}},
                                                {"vocab_size", {}}};
  return layout == DecoderLayout::kLlama ? llama : gpt2;
}

// Values of keys that begin with the architecture.
class Keys {
 public:
  Keys(const GgufFile& file, const LanguageModelFile& model)
      : file_(file), front_(model.architecture + "."), known_(known_keys(model.sizes.layout)) {}

  Result<int64_t> size(const std::string& key, std::optional<int64_t> usual = std::nullopt) const {
    MANTISSA_ASSIGN(const std::optional<int64_t> found, file_.whole(front_ + key));
    if (!found && !usual) return invalid_input("it has no key " + front_ + key);
    const int64_t size = found ? *found : *usual;
    if (size >= 1 && size <= kMostSize) return size;
    return invalid_input("its " + front_ + key + " is " + std::to_string(size) +
                         "; 1 to 2^24 are possible");
  }
  Result<double> real(const std::string& key, double usual) const {
    MANTISSA_ASSIGN(const std::optional<double> found, file_.real(front_ + key));
    return found.value_or(usual);
  }

  Result<std::string> text(const std::string& key) const {
    MANTISSA_ASSIGN(const std::optional<std::string> found, file_.text(front_ + key));
    return found.value_or("");
  }
  std::string name(const std::string& key) const { return front_ + key; }

  // The keys that ask for something.
  std::vector<std::string> lacks() const {
    std::vector<std::string> list;
    for (const GgufKey& key : file_.keys()) {
      if (!key.name.starts_with(front_)) continue;
      const std::string name = key.name.substr(front_.size()), value = file_.described(key);
      const auto known = std::find_if(known_.begin(), known_.end(),
                                      [&](const HarmlessKey& each) { return each.name == name; });
      const bool is_harmless =
          known != known_.end() &&
          (known->values.empty() ||
           std::find(known->values.begin(), known->values.end(), value) != known->values.end());
      if (!is_harmless) list.push_back(key.name.substr(0, 100) + " = " + value);
    }
    return list;
  }

 private:
  const GgufFile& file_;
  const std::string front_;
  const std::vector<HarmlessKey>& known_;
};

constexpr const char* kFrequencies = "rope_freqs.weight";  // factors of pairs, Llama 3's

// Factors by which angles are divided: one of all pairs, or a tensor of llama's with one for each.
// A factor without a type is linear, as llama.cpp has it.
Status take_factors(const GgufFile& file, const Keys& keys, LanguageModelFile& model) {
  DecoderSizes& sizes = model.sizes;
  MANTISSA_ASSIGN(const std::string type, keys.text("rope.scaling.type"));
  MANTISSA_ASSIGN(const double factor, keys.real("rope.scaling.factor", 1));
  const auto take = [&](double number, const std::string& name) {
    auto taken = rotary_factor(number, name);
    if (taken.ok()) return sizes.rotary_factors.push_back(*taken);
    model.lacks.push_back(taken.error().message);
  };
  if (type == "linear" || type.empty()) take(factor, keys.name("rope.scaling.factor"));
  sizes.rotary_factors = shortest_factors(std::move(sizes.rotary_factors));
  const GgufTensor* tensor = file.find_tensor(kFrequencies);
  if (tensor == nullptr || model.architecture != "llama" || !has_angles(sizes)) return {};
  if (tensor->type != kGgufF32 || tensor->shape != std::vector{sizes.head_channels / 2}) {
    model.lacks.push_back(std::string("tensor ") + kFrequencies + " with other than " +
                          std::to_string(sizes.head_channels / 2) + " numbers of F32");
    return {};
  }
  if (!sizes.rotary_factors.empty()) {
    model.lacks.push_back(std::string("tensor ") + kFrequencies + " beside a rope.scaling.factor");
    return {};
  }
  MANTISSA_ASSIGN(const std::vector<float> numbers, file.floats(*tensor));
  const size_t before = model.lacks.size();
  for (const float number : numbers) {
    if (model.lacks.size() == before) take(number, kFrequencies);
  }
  sizes.rotary_factors = shortest_factors(std::move(sizes.rotary_factors));
  return {};
}

Status take_llama_sizes(const GgufFile& file, const Keys& keys, LanguageModelFile& model) {
  DecoderSizes& sizes = model.sizes;
  MANTISSA_ASSIGN(sizes.key_heads, keys.size("attention.head_count_kv", sizes.heads));
  const int64_t usual = std::max<int64_t>(1, sizes.channels / sizes.heads);
  MANTISSA_ASSIGN(sizes.head_channels, keys.size("attention.key_length", usual));
  MANTISSA_ASSIGN(const int64_t values, keys.size("attention.value_length", sizes.head_channels));
  if (values != sizes.head_channels) {
    model.lacks.push_back("heads of " + std::to_string(sizes.head_channels) +
                          " channels for keys and " + std::to_string(values) + " for values");
  }
  MANTISSA_ASSIGN(const int64_t turned, keys.size("rope.dimension_count", sizes.head_channels));
  if (turned != sizes.head_channels) {
    model.lacks.push_back(keys.name("rope.dimension_count") + " = " + std::to_string(turned) +
                          ", a part of the " + std::to_string(sizes.head_channels) +
                          " channels of a head");
  }
  MANTISSA_ASSIGN(sizes.rotary_base, keys.real("rope.freq_base", sizes.rotary_base));
  MANTISSA_ASSIGN(sizes.epsilon, keys.real("attention.layer_norm_rms_epsilon", sizes.epsilon));
  sizes.head_norms = model.architecture == "qwen3";
  sizes.query_bias = !sizes.head_norms && file.find_tensor("blk.0.attn_q.bias") != nullptr;
  return take_factors(file, keys, model);
}

Status take_gpt2_sizes(const GgufFile& file, const Keys& keys, LanguageModelFile& model) {
  DecoderSizes& sizes = model.sizes;
  MANTISSA_ASSIGN(sizes.epsilon, keys.real("attention.layer_norm_epsilon", sizes.epsilon));
  const GgufTensor* table = file.find_tensor("position_embd.weight");
  if (table == nullptr) return invalid_input("it has no tensor position_embd.weight");
  sizes.positions = table->shape[0];
  model.positions = std::min(std::max<int64_t>(1, model.positions), sizes.positions);
  return {};
}

Status take_sizes(const GgufFile& file, const Keys& keys, LanguageModelFile& model) {
  DecoderSizes& sizes = model.sizes;
  MANTISSA_ASSIGN(sizes.layers, keys.size("block_count"));
  MANTISSA_ASSIGN(sizes.channels, keys.size("embedding_length"));
  MANTISSA_ASSIGN(sizes.inner, keys.size("feed_forward_length"));
  MANTISSA_ASSIGN(sizes.heads, keys.size("attention.head_count"));
  MANTISSA_ASSIGN(model.positions, keys.size("context_length", 1));
  const GgufTensor* table = file.find_tensor("token_embd.weight");
  if (table == nullptr) return invalid_input("it has no tensor token_embd.weight");
  sizes.vocabulary = table->shape[0];
  sizes.tied = file.find_tensor("output.weight") == nullptr;
  const bool is_llama = sizes.layout == DecoderLayout::kLlama;
  return is_llama ? take_llama_sizes(file, keys, model) : take_gpt2_sizes(file, keys, model);
}

Status take_texts(const GgufFile& file, LanguageModelFile& model) {
  MANTISSA_ASSIGN(const std::optional<std::string> kind, file.text("tokenizer.ggml.model"));
  MANTISSA_ASSIGN(const std::optional<std::string> pre, file.text("tokenizer.ggml.pre"));
  model.tokenizer_kind = kind.value_or("none") + (pre ? ", " + *pre : "");
  auto tokenizer = byte_bpe_of(file);
  if (tokenizer.ok()) {
    model.tokenizer = std::move(*tokenizer);
  } else {
    model.lacks.push_back(tokenizer.error().message);
  }
  MANTISSA_ASSIGN(const std::optional<std::string> jinja, file.text("tokenizer.chat_template"));
  take_chat(jinja.value_or(""), "tokenizer.chat_template", model);
  return {};
}

Result<LanguageModelFile> model_of(const std::shared_ptr<const GgufFile>& file) {
  LanguageModelFile model;
  MANTISSA_ASSIGN(const auto architecture, file->text("general.architecture"));
  if (!architecture) return invalid_input("it has no key general.architecture");
  model.architecture = *architecture;
  MANTISSA_ASSIGN(const auto name, file->text("general.name"));
  model.name = name.value_or("");
  const ModelFamily* const family = find_family(model.architecture);
  if (family == nullptr) {
    model.lacks.push_back(unknown_family("general.architecture", model.architecture));
  } else {
    model.sizes.layout = family->layout;
  }
  const Keys keys(*file, model);
  const Status sizes = take_sizes(*file, keys, model);
  if (!sizes.ok()) return family == nullptr ? invalid_input(model.lacks[0]) : sizes.error();
  for (std::string& key : keys.lacks()) model.lacks.push_back(std::move(key));
  MANTISSA_RETURN_IF_ERROR(take_texts(*file, model));
  for (const GgufTensor& tensor : file->tensors()) {
    const bool is_taken = tensor.name == kFrequencies && model.architecture == "llama";
    if (is_taken) continue;
    model.tensors.push_back({layout_name_of_gguf(model.sizes.layout, tensor.name), tensor.name,
                             gguf_block_type(tensor.type)->name, tensor.shape});
  }
  model.neighbours_are_pairs = model.architecture == "llama";
  model.floats = [file](const std::string& tensor) {
    return file->floats(*file->find_tensor(tensor));
  };
  model.bytes = [file](const std::string& tensor) {
    return file->bytes(*file->find_tensor(tensor));
  };
  return model;
}

}  // namespace

Result<LanguageModelFile> read_gguf_model(const fs::path& path) {
  MANTISSA_ASSIGN(GgufFile file, GgufFile::open(path));
  auto model = model_of(std::make_shared<const GgufFile>(std::move(file)));
  if (model.ok()) return model;
  Error error = model.error();
  if (error.message.find(path.string()) == std::string::npos) {
    error.message = path.string() + ": " + error.message;
  }
  return error;
}

}  // namespace mantissa
