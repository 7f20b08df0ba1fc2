// Language models in GGUF files.
#include <algorithm>
#include <memory>
#include <utility>

#include "data/tokenizers/byte_bpe/byte_bpe_files.h"
#include "formats/gguf/gguf.h"
#include "formats/gguf/gguf_blocks.h"
#include "formats/json_tree.h"
#include "networks/language/layout_names.h"
#include "networks/language/readers.h"

namespace mantissa {
namespace {

namespace fs = std::filesystem;

// A key of the architecture with a value that changes nothing; all other values ask for something.
struct HarmlessKey {
  const char* name;
  std::vector<std::string> values;  // as GgufFile::described prints them; empty: any
};

// Keys without the architecture before them.
const std::vector<HarmlessKey>& known_keys() {
  static const std::vector<HarmlessKey> list = {{"block_count", {}},
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
                                                {"rope.scaling.type", {"\"none\""}},
                                                {"rope.scaling.factor", {"1"}},
                                                {"expert_count", {"0"}},
                                                {"expert_used_count", {"0"}},
                                                {"vocab_size", {}}};
  return list;
}

// Values of keys that begin with the architecture.
class Keys {
 public:
  Keys(const GgufFile& file, std::string architecture)
      : file_(file), front_(std::move(architecture) + ".") {}

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

  // The keys that ask for something.
  std::vector<std::string> lacks() const {
    std::vector<std::string> list;
    for (const GgufKey& key : file_.keys()) {
      if (!key.name.starts_with(front_)) continue;
      const std::string name = key.name.substr(front_.size()), value = file_.described(key);
      const auto known = std::find_if(known_keys().begin(), known_keys().end(),
                                      [&](const HarmlessKey& each) { return each.name == name; });
      const bool is_harmless =
          known != known_keys().end() &&
          (known->values.empty() ||
           std::find(known->values.begin(), known->values.end(), value) != known->values.end());
      if (!is_harmless) list.push_back(key.name.substr(0, 100) + " = " + value);
    }
    return list;
  }

 private:
  const GgufFile& file_;
  const std::string front_;
};

Status take_sizes(const GgufFile& file, const Keys& keys, LanguageModelFile& model) {
  LlamaSizes& sizes = model.sizes;
  MANTISSA_ASSIGN(sizes.layers, keys.size("block_count"));
  MANTISSA_ASSIGN(sizes.channels, keys.size("embedding_length"));
  MANTISSA_ASSIGN(sizes.inner, keys.size("feed_forward_length"));
  MANTISSA_ASSIGN(sizes.heads, keys.size("attention.head_count"));
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
    model.lacks.push_back(model.architecture + ".rope.dimension_count = " + std::to_string(turned) +
                          ", a part of the " + std::to_string(sizes.head_channels) +
                          " channels of a head");
  }
  MANTISSA_ASSIGN(model.positions, keys.size("context_length", 1));
  MANTISSA_ASSIGN(sizes.rotary_base, keys.real("rope.freq_base", sizes.rotary_base));
  MANTISSA_ASSIGN(sizes.epsilon, keys.real("attention.layer_norm_rms_epsilon", sizes.epsilon));
  const GgufTensor* table = file.find_tensor("token_embd.weight");
  if (table == nullptr) return invalid_input("it has no tensor token_embd.weight");
  sizes.vocabulary = table->shape[0];
  sizes.tied = file.find_tensor("output.weight") == nullptr;
  sizes.query_bias = file.find_tensor("blk.0.attn_q.bias") != nullptr;
  return {};
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
  if (!jinja) return {};
  auto chat = chat_template_of(*jinja);
  if (chat.ok()) {
    model.chat = std::move(*chat);
  } else {
    model.lacks.push_back("tokenizer.chat_template: " + chat.error().message);
  }
  return {};
}

Result<LanguageModelFile> model_of(const std::shared_ptr<const GgufFile>& file) {
  LanguageModelFile model;
  MANTISSA_ASSIGN(const auto architecture, file->text("general.architecture"));
  if (!architecture) return invalid_input("it has no key general.architecture");
  model.architecture = *architecture;
  MANTISSA_ASSIGN(const auto name, file->text("general.name"));
  model.name = name.value_or("");
  const Keys keys(*file, model.architecture);
  if (model.architecture != "llama" && model.architecture != "qwen2") {
    model.lacks.push_back(
        "general.architecture = " + json_quoted(model.architecture.substr(0, 100)) +
        ": llama and qwen2 are those that are known");
  }
  MANTISSA_RETURN_IF_ERROR(take_sizes(*file, keys, model));
  for (std::string& key : keys.lacks()) model.lacks.push_back(std::move(key));
  MANTISSA_RETURN_IF_ERROR(take_texts(*file, model));
  for (const GgufTensor& tensor : file->tensors()) {
    model.tensors.push_back({layout_name_of_gguf(tensor.name), tensor.name,
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
