// Files beside a tokenizer.
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/files/file_system.h"
#include "data/tokenizers/tokenizer_files.h"
#include "formats/json_text.h"

namespace mantissa {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::array kRoles = {"unk_token", "cls_token", "sep_token", "pad_token", "mask_token"};

// A token is its text, or an object with it.
std::string token_text(const json& token) {
  return token.is_object() ? token.at("content").get<std::string>() : token.get<std::string>();
}

// Classes that divide words as BERT's tokenizer does.
bool is_of_bert(const std::string& name) {
  constexpr std::array kKnown = {"Bert",       "DistilBert", "Electra",  "MobileBert", "ConvBert",
                                 "PreTrained", "Tokenizers", "LayoutLM", "Retribert"};
  return std::any_of(kKnown.begin(), kKnown.end(), [&](const std::string& front) {
    return name == front + "Tokenizer" || name == front + "TokenizerFast" ||
           name == front + "Backend";
  });
}

Status check_vocabulary_class(const json& config) {
  const std::string name = config.value("tokenizer_class", "BertTokenizer");
  if (!is_of_bert(name)) {
    return invalid_input("its tokenizer_class is '" + name +
                         "'; BertTokenizer is the one that is read");
  }
  if (!config.value("do_basic_tokenize", true)) {
    return invalid_input("do_basic_tokenize is off, which is not supported");
  }
  const auto never = config.find("never_split");
  if (never == config.end() || never->is_null() || never->empty()) return {};
  return invalid_input("never_split names words, which is not supported");
}

Status check_sides(const json& config) {
  for (const char* side : {"padding_side", "truncation_side"}) {
    if (config.value(side, "right") == "right") continue;
    return invalid_input(std::string("its ") + side + " is 'left', which is not supported");
  }
  return {};
}

void take_flag(const json& config, const char* key, std::optional<bool>& flag) {
  const auto found = config.find(key);
  if (found != config.end() && !found->is_null()) flag = found->get<bool>();
}

void take_special(const json& config, TokenizerConfig& result) {
  for (const char* role : kRoles) {
    const auto found = config.find(role);
    if (found != config.end() && !found->is_null())
      result.special.emplace(role, token_text(*found));
  }
  for (const char* key : {"additional_special_tokens", "extra_special_tokens"}) {
    const auto found = config.find(key);
    if (found == config.end() || found->is_null()) continue;
    for (const auto& [ignored, token] : found->items()) {
      result.added_special.push_back(token_text(token));
    }
  }
}

Status take_config(const json& config, bool of_a_vocabulary, TokenizerConfig& result) {
  if (of_a_vocabulary) MANTISSA_RETURN_IF_ERROR(check_vocabulary_class(config));
  MANTISSA_RETURN_IF_ERROR(check_sides(config));
  take_flag(config, "do_lower_case", result.lower_case);
  take_flag(config, "strip_accents", result.strip_accents);
  take_flag(config, "tokenize_chinese_chars", result.split_chinese);
  take_special(config, result);
  // "No limit" is written as 10^30.
  constexpr double kMost = 1e9;
  const auto most = config.find("model_max_length");
  if (most != config.end() && most->is_number() && most->get<double>() < kMost) {
    result.most_tokens = most->get<int64_t>();
  }
  const auto added = config.find("added_tokens_decoder");
  if (added == config.end() || added->is_null()) return {};
  for (const auto& [number, entry] : added->items()) {
    result.added.push_back(added_token(entry, static_cast<int32_t>(std::stoll(number))));
  }
  return {};
}

// The older form of added tokens: their numbers by their texts.
void take_added_numbers(const json& file, TokenizerConfig& result) {
  for (const auto& item : file.items()) {
    const std::string& text = item.key();
    const auto& number = item.value();
    const bool is_known = std::any_of(result.added.begin(), result.added.end(),
                                      [&](const AddedToken& token) { return token.text == text; });
    if (is_known) continue;
    const bool special = std::any_of(result.special.begin(), result.special.end(),
                                     [&](const auto& role) { return role.second == text; });
    result.added.push_back({.text = text,
                            .number = number.get<int32_t>(),
                            .special = special,
                            .normalised = !special});
  }
}

// Calls take(JSON) for a file of the folder, if it is there.
template <typename Take>
Status read_beside(const fs::path& path, const Take& take) {
  MANTISSA_ASSIGN(const bool there, is_there(path));
  if (!there) return {};
  MANTISSA_ASSIGN(const std::string text, read_tokenizer_text(path));
  try {
    const Status taken = take(parse_json(text, kMostPieces));
    return taken.ok() ? taken : invalid_input(path.string() + ": " + taken.error().message);
  } catch (const std::exception&) {
    return invalid_input(path.string() + ": is damaged");
  }
}

}  // namespace

Result<TokenizerConfig> read_tokenizer_config(const fs::path& folder, bool of_a_vocabulary) {
  TokenizerConfig result;
  MANTISSA_RETURN_IF_ERROR(read_beside(folder / "tokenizer_config.json", [&](const json& config) {
    return take_config(config, of_a_vocabulary, result);
  }));
  MANTISSA_RETURN_IF_ERROR(read_beside(folder / "special_tokens_map.json", [&](const json& file) {
    take_special(file, result);
    return Status{};
  }));
  MANTISSA_RETURN_IF_ERROR(read_beside(folder / "added_tokens.json", [&](const json& file) {
    take_added_numbers(file, result);
    return Status{};
  }));
  return result;
}

Result<WordPieceOptions> vocabulary_options(const TokenizerConfig& config,
                                            const std::vector<std::string>& pieces) {
  WordPieceOptions options;
  options.lower_case = config.lower_case.value_or(true);
  options.strip_accents = config.strip_accents.value_or(options.lower_case);
  options.split_chinese = config.split_chinese.value_or(true);
  options.most_tokens = config.most_tokens;
  std::string* const names[] = {&options.unknown, &options.first, &options.last, &options.padding,
                                &options.mask};
  for (size_t i = 0; i < kRoles.size(); ++i) {
    const auto found = config.special.find(kRoles[i]);
    if (found != config.special.end()) *names[i] = found->second;
  }
  if (config.added.empty() && config.added_special.empty()) return options;
  std::vector<AddedToken> added = config.added;
  std::vector<std::string> special = config.added_special;
  for (const std::string* name : names) special.push_back(*name);
  for (const std::string& text : special) {
    const bool is_known = std::any_of(added.begin(), added.end(),
                                      [&](const AddedToken& token) { return token.text == text; });
    if (is_known) continue;
    const auto piece = std::find(pieces.begin(), pieces.end(), text);
    if (piece == pieces.end()) {
      return invalid_input("the special token '" + text + "' is not in the vocabulary");
    }
    added.push_back(
        {.text = text, .number = static_cast<int32_t>(piece - pieces.begin()), .special = true});
  }
  std::stable_sort(added.begin(), added.end(),
                   [](const AddedToken& a, const AddedToken& b) { return a.number < b.number; });
  options.added = std::move(added);
  return options;
}

}  // namespace mantissa
