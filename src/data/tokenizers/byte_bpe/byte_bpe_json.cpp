// Byte-level BPE tokenizers in tokenizer.json, Hugging Face's, and the files beside it.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/files/file_system.h"
#include "data/tokenizers/byte_bpe/byte_bpe_files.h"
#include "data/tokenizers/common/token_files.h"
#include "formats/json_text.h"
#include "formats/json_tree.h"

namespace mantissa {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr auto kMostJsonTokens = static_cast<int64_t>(kMostByteBpeTokens);

// The value of an entry, or null if it is left out.
const json& part(const json& object, const char* key) {
  static const json kNull;
  const auto found = object.find(key);
  return found == object.end() ? kNull : *found;
}

std::string type_of(const json& object) {
  return object.is_object() ? object.value("type", "none") : "none";
}

Error refuse(const std::string& what, const std::string& found, const std::string& read) {
  return invalid_input("its " + what + " is " + json_quoted(found.substr(0, 300)) + "; " + read);
}

bool is_empty(const json& text) { return text.is_null() || text == ""; }

Status take_model(const json& model, ByteBpeOptions& options) {
  if (type_of(model) != "BPE")
    return refuse("model", type_of(model), "BPE is the one that is read");
  const char* unsupported = nullptr;
  if (!part(model, "dropout").is_null()) unsupported = "dropout";
  if (!is_empty(part(model, "continuing_subword_prefix")))
    unsupported = "continuing_subword_prefix";
  if (!is_empty(part(model, "end_of_word_suffix"))) unsupported = "end_of_word_suffix";
  if (model.value("byte_fallback", false)) unsupported = "byte_fallback";
  if (unsupported != nullptr) {
    return invalid_input(std::string("its model has ") + unsupported + ", which is not supported");
  }
  options.ignores_merges = model.value("ignore_merges", false);
  return {};
}

// Bytes become characters, with GPT-2's division of texts or without one.
bool is_byte_level(const json& step, bool divides) {
  return type_of(step) == "ByteLevel" && !step.value("add_prefix_space", true) &&
         step.value("use_regex", true) == divides;
}

Result<PreTokenizer> pre_tokenizer_of(const json& pre) {
  if (is_byte_level(pre, true)) return PreTokenizer::kGpt2;
  const json& steps = part(pre, "pretokenizers");
  if (type_of(pre) == "Sequence" && steps.is_array() && steps.size() == 2) {
    const json &first = steps[0], &second = steps[1];
    if (type_of(first) == "Digits" && first.value("individual_digits", false) &&
        is_byte_level(second, true)) {
      return PreTokenizer::kSmolLm;
    }
    if (type_of(first) == "Split" && first.value("behavior", "") == "Isolated" &&
        !first.value("invert", false) && is_byte_level(second, false)) {
      const std::string pattern = part(first, "pattern").value("Regex", "");
      for (const PreTokenizer kind : {PreTokenizer::kLlama3, PreTokenizer::kQwen2}) {
        if (pattern == pre_tokenizer_pattern(kind)) return kind;
      }
    }
  }
  return refuse("pre-tokenizer", pre.is_null() ? "none" : pre.dump(),
                "those of GPT-2, SmolLM, Llama 3 and Qwen2 are read");
}

Status take_normalizer(const json& normalizer, ByteBpeOptions& options) {
  options.composes = type_of(normalizer) == "NFC";
  if (options.composes || normalizer.is_null()) return {};
  return refuse("normalizer", type_of(normalizer), "none or NFC are read");
}

Status refuse_processor(const std::string& found) {
  return refuse("post-processor", found,
                "at most one special token before a text and one behind it are read");
}

Status take_template(const json& processor, ByteBpeOptions& options) {
  const json& single = processor.at("single");
  int32_t* side = &options.first;
  for (const json& piece : single) {
    if (piece.contains("Sequence")) {
      if (side == &options.last) return refuse_processor("a template with two texts");
      side = &options.last;
      continue;
    }
    const std::string name = piece.at("SpecialToken").at("id").get<std::string>();
    const json& ids = processor.at("special_tokens").at(name).at("ids");
    if (ids.size() != 1 || *side >= 0) return refuse_processor("a template with more tokens");
    *side = ids[0].get<int32_t>();
  }
  return side == &options.last ? Status() : refuse_processor("a template without a text");
}

Status take_post_processor(const json& processor, ByteBpeOptions& options) {
  const std::string type = type_of(processor);
  if (processor.is_null() || type == "ByteLevel") return {};
  if (type == "TemplateProcessing") return take_template(processor, options);
  if (type != "Sequence") return refuse_processor(type);
  for (const json& step : processor.at("processors")) {
    MANTISSA_RETURN_IF_ERROR(take_post_processor(step, options));
  }
  return {};
}

// The tokens by number: the model's, and the added ones.
Result<std::vector<std::string>> tokens_of(const json& model, ByteBpeOptions& options,
                                           const json& added) {
  const json& vocabulary = model.at("vocab");
  std::vector<std::string> tokens(vocabulary.size());
  const auto put = [&](const std::string& token, int64_t number) {
    if (number < 0 || number >= static_cast<int64_t>(kMostByteBpeTokens)) return false;
    if (static_cast<size_t>(number) >= tokens.size())
      tokens.resize(static_cast<size_t>(number) + 1);
    std::string& place = tokens[static_cast<size_t>(number)];
    if (!place.empty() && place != token) return false;
    place = token;
    return true;
  };
  for (const auto& [token, number] : vocabulary.items()) {
    if (put(token, number.get<int64_t>())) continue;
    return invalid_input("its token " + json_quoted(token) + " has a number that is another's");
  }
  for (const json& entry : added) {
    options.added.push_back(added_token(entry));
    const AddedToken& token = options.added.back();
    if (put(token.text, token.number)) continue;
    return invalid_input("its added token " + json_quoted(token.text) +
                         " has a number that is another's");
  }
  const auto gap = std::find(tokens.begin(), tokens.end(), "");
  if (gap == tokens.end()) return tokens;
  return invalid_input("no token has the number " + std::to_string(gap - tokens.begin()));
}

// The settings of a folder; empty: it has no such file.
Result<json> read_settings_file(const fs::path& path) {
  MANTISSA_ASSIGN(const bool there, is_there(path));
  if (!there) return json::object();
  MANTISSA_ASSIGN(const std::string text, read_tokenizer_text(path));
  json settings = parse_json(text, kMostJsonTokens);
  if (settings.is_object()) return settings;
  return invalid_input("is no JSON object");
}

std::string text_of_token(const json& token) {
  return token.is_object()   ? token.value("content", "")
         : token.is_string() ? token.get<std::string>()
                             : "";
}

Status take_config(const json& config, const std::vector<std::string>& tokens,
                   ByteBpeOptions& options) {
  if (config.value("add_prefix_space", json(false)) == json(true)) {
    return invalid_input("its add_prefix_space is on, which is not supported");
  }
  const std::pair<const char*, int32_t*> roles[] = {
      {"bos_token", &options.begin}, {"eos_token", &options.end}, {"pad_token", &options.padding}};
  for (const auto& [role, number] : roles) {
    const std::string text = text_of_token(part(config, role));
    if (text.empty()) continue;
    const auto found = std::find(tokens.begin(), tokens.end(), text);
    if (found == tokens.end()) {
      return invalid_input(std::string("its ") + role + " " + json_quoted(text) +
                           " is no token of tokenizer.json");
    }
    *number = static_cast<int32_t>(found - tokens.begin());
  }
  return {};
}

Result<ByteBpe> tokenizer_of(const json& file, const json& config) {
  if (!file.is_object()) return invalid_input("is no tokenizer.json");
  ByteBpeOptions options;
  const json& model = file.at("model");
  MANTISSA_RETURN_IF_ERROR(take_model(model, options));
  MANTISSA_RETURN_IF_ERROR(take_normalizer(part(file, "normalizer"), options));
  MANTISSA_ASSIGN(options.pre_tokenizer, pre_tokenizer_of(part(file, "pre_tokenizer")));
  MANTISSA_RETURN_IF_ERROR(take_post_processor(part(file, "post_processor"), options));
  if (type_of(part(file, "decoder")) != "ByteLevel") {
    return refuse("decoder", type_of(part(file, "decoder")), "ByteLevel is the one that is read");
  }
  if (!part(file, "truncation").is_null()) {
    return invalid_input("it cuts texts short (truncation), which is not supported");
  }
  MANTISSA_ASSIGN(std::vector<std::string> tokens,
                  tokens_of(model, options, part(file, "added_tokens")));
  MANTISSA_ASSIGN(const auto merges, byte_bpe_merges(model.at("merges")));
  MANTISSA_RETURN_IF_ERROR(take_config(config, tokens, options));
  return ByteBpe::create(std::move(tokens), merges, std::move(options));
}

// Errors name the file.
template <typename T, typename Work>
Result<T> of_file(const fs::path& path, const Work& work) {
  try {
    Result<T> result = work();
    if (result.ok() || result.error().message.find(path.string()) != std::string::npos) {
      return result;
    }
    result.error().message = path.string() + ": " + result.error().message;
    return result;
  } catch (const json::exception&) {
    return invalid_input(path.string() + ": is damaged");
  }
}

}  // namespace

Result<std::vector<ByteBpe::Merge>> byte_bpe_merges(const json& list) {
  std::vector<ByteBpe::Merge> merges;
  merges.reserve(list.size());
  for (const json& merge : list) {
    if (merge.is_array() && merge.size() == 2) {
      merges.emplace_back(merge[0].get<std::string>(), merge[1].get<std::string>());
      continue;
    }
    const std::string text = merge.get<std::string>();
    const size_t space = text.find(' ', 1);
    if (space == std::string::npos) {
      return invalid_input("its merge " + json_quoted(text.substr(0, 60)) + " is no pair");
    }
    merges.emplace_back(text.substr(0, space), text.substr(space + 1));
  }
  return merges;
}

Result<ByteBpe> byte_bpe_of(const json& tokenizer) {
  try {
    return tokenizer_of(tokenizer, json::object());
  } catch (const json::exception&) {
    return invalid_input("is damaged");
  }
}

Result<ByteBpe> read_byte_bpe(const fs::path& folder) {
  const fs::path config_path = folder / "tokenizer_config.json", path = folder / "tokenizer.json";
  MANTISSA_ASSIGN(const json config,
                  of_file<json>(config_path, [&] { return read_settings_file(config_path); }));
  return of_file<ByteBpe>(path, [&]() -> Result<ByteBpe> {
    MANTISSA_ASSIGN(const std::string text, read_tokenizer_text(path));
    return tokenizer_of(parse_json(text, kMostJsonTokens), config);
  });
}

Result<std::string> read_chat_template(const fs::path& folder) {
  const fs::path path = folder / "chat_template.jinja";
  MANTISSA_ASSIGN(const bool there, is_there(path));
  if (there) return read_tokenizer_text(path);
  const fs::path config_path = folder / "tokenizer_config.json";
  return of_file<std::string>(config_path, [&]() -> Result<std::string> {
    MANTISSA_ASSIGN(const json config, read_settings_file(config_path));
    const json& found = part(config, "chat_template");
    if (found.is_string()) return found.get<std::string>();
    for (const json& each : found) {
      if (each.value("name", "") == "default") return each.value("template", "");
    }
    if (found.is_null() || found.empty()) return std::string();
    return invalid_input("it has several chat templates, none of them called default");
  });
}

}  // namespace mantissa
