// Byte-level BPE tokenizers in GGUF files.
#include <optional>
#include <utility>

#include "data/tokenizers/byte_bpe/byte_bpe_files.h"
#include "formats/json_tree.h"

namespace mantissa {
namespace {

// The types of tokens in GGUF files.
constexpr int64_t kUnknown = 2, kControl = 3, kUserDefined = 4;

const std::string kFront = "tokenizer.ggml.";

Status check_model(const GgufFile& file) {
  MANTISSA_ASSIGN(const std::optional<std::string> model, file.text(kFront + "model"));
  if (!model) return invalid_input("it has no tokenizer (no key tokenizer.ggml.model)");
  if (*model != "gpt2") {
    return invalid_input("its tokenizer is " + json_quoted(model->substr(0, 100)) +
                         "; gpt2, byte-level BPE, is the one that is read");
  }
  MANTISSA_ASSIGN(const std::optional<bool> space, file.truth(kFront + "add_space_prefix"));
  if (!space.value_or(false)) return {};
  return invalid_input(
      "its tokenizer puts a space before each text (add_space_prefix), which is "
      "not supported");
}

Result<PreTokenizer> pre_tokenizer_of(const GgufFile& file) {
  MANTISSA_ASSIGN(const std::optional<std::string> name, file.text(kFront + "pre"));
  const auto kind = parse_pre_tokenizer(name.value_or(""));
  if (kind) return *kind;
  return invalid_input("its pre-tokenizer is " +
                       (name ? json_quoted(name->substr(0, 100)) : "not named") +
                       "; gpt-2, smollm, llama-bpe and qwen2 are those that are read");
}

Status take_types(const GgufFile& file, const std::vector<std::string>& tokens,
                  std::vector<AddedToken>& added) {
  MANTISSA_ASSIGN(const auto types, file.wholes(kFront + "token_type"));
  if (!types) return {};
  if (types->size() != tokens.size()) {
    return invalid_input("its tokenizer has " + std::to_string(tokens.size()) + " tokens and " +
                         std::to_string(types->size()) + " types of them");
  }
  for (size_t i = 0; i < tokens.size(); ++i) {
    const int64_t type = (*types)[i];
    const bool special = type == kControl || type == kUnknown;
    if (!special && type != kUserDefined) continue;
    added.push_back({.text = tokens[i], .number = static_cast<int32_t>(i), .special = special});
  }
  return {};
}

Result<std::vector<ByteBpe::Merge>> merges_of(const GgufFile& file) {
  MANTISSA_ASSIGN(const auto lines, file.texts(kFront + "merges"));
  if (!lines) return invalid_input("its tokenizer has no merges");
  std::vector<ByteBpe::Merge> merges;
  merges.reserve(lines->size());
  for (const std::string& line : *lines) {
    // A space begins no token: in the alphabet it is another character.
    const size_t space = line.find(' ', 1);
    if (space == std::string::npos) {
      return invalid_input("its tokenizer's merge " + json_quoted(line.substr(0, 60)) +
                           " is no pair");
    }
    merges.emplace_back(line.substr(0, space), line.substr(space + 1));
  }
  return merges;
}

Status take_numbers(const GgufFile& file, ByteBpeOptions& options) {
  struct Role {
    const char* key;
    int32_t& number;
  };
  for (const auto& [key, number] :
       {Role{"bos_token_id", options.begin}, Role{"eos_token_id", options.end},
        Role{"padding_token_id", options.padding}}) {
    MANTISSA_ASSIGN(const std::optional<int64_t> found, file.whole(kFront + key));
    if (!found) continue;
    if (*found < 0 || *found >= static_cast<int64_t>(kMostByteBpeTokens)) {
      return invalid_input("its " + std::string(key) + " is " + std::to_string(*found));
    }
    number = static_cast<int32_t>(*found);
  }
  MANTISSA_ASSIGN(const std::optional<bool> begins, file.truth(kFront + "add_bos_token"));
  MANTISSA_ASSIGN(const std::optional<bool> ends, file.truth(kFront + "add_eos_token"));
  // As llama.cpp has it for files that do not say.
  if (begins.value_or(options.pre_tokenizer == PreTokenizer::kLlama3)) {
    options.first = options.begin;
  }
  if (ends.value_or(false)) options.last = options.end;
  return {};
}

}  // namespace

Result<ByteBpe> byte_bpe_of(const GgufFile& file) {
  MANTISSA_RETURN_IF_ERROR(check_model(file));
  ByteBpeOptions options;
  MANTISSA_ASSIGN(options.pre_tokenizer, pre_tokenizer_of(file));
  options.composes = options.pre_tokenizer == PreTokenizer::kQwen2;
  options.ignores_merges = options.pre_tokenizer == PreTokenizer::kLlama3;
  MANTISSA_ASSIGN(auto tokens, file.texts(kFront + "tokens"));
  if (!tokens) return invalid_input("its tokenizer has no tokens");
  if (tokens->size() > kMostByteBpeTokens) {
    return invalid_input("its tokenizer has " + std::to_string(tokens->size()) + " tokens; " +
                         std::to_string(kMostByteBpeTokens) + " are possible");
  }
  MANTISSA_RETURN_IF_ERROR(take_types(file, *tokens, options.added));
  MANTISSA_RETURN_IF_ERROR(take_numbers(file, options));
  MANTISSA_ASSIGN(const auto merges, merges_of(file));
  return ByteBpe::create(std::move(*tokens), merges, std::move(options));
}

}  // namespace mantissa
