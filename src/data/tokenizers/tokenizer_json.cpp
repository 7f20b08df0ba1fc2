// tokenizer.json, Hugging Face's.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "data/tokenizers/tokenizer_files.h"

namespace mantissa {
namespace {

using nlohmann::json;

// The pieces of an object from pieces to numbers, which are 0, 1, 2 ...
Result<std::vector<std::string>> pieces_of(const json& vocabulary) {
  std::vector<std::string> pieces(vocabulary.size());
  for (const auto& [piece, number] : vocabulary.items()) {
    const bool fits = number.is_number_unsigned() && number.get<uint64_t>() < pieces.size() &&
                      pieces[number.get<uint64_t>()].empty();
    if (!fits) {
      return invalid_input("the numbers of its " + std::to_string(pieces.size()) +
                           " pieces are not 0 to " + std::to_string(pieces.size() - 1) +
                           ", each once: see '" + piece + "'");
    }
    pieces[number.get<uint64_t>()] = piece;
  }
  return pieces;
}

// The part of that name, which may be missing, has a type that is supported here. null: "none".
Status check_type(const json& file, const char* part, const char* what, const std::string& wanted) {
  const auto found = file.find(part);
  if (found == file.end()) return {};
  const std::string type = found->is_object() ? found->value("type", "") : "none";
  if (type == wanted) return {};
  return invalid_input(std::string("its ") + what + " is '" + type + "'; " + wanted +
                       " is the one that is read");
}

Status take_normalizer(const json& file, WordPieceOptions& options) {
  MANTISSA_RETURN_IF_ERROR(check_type(file, "normalizer", "normalizer", "BertNormalizer"));
  const json normalizer = file.value("normalizer", json::object());
  if (!normalizer.value("clean_text", true)) {
    return invalid_input("clean_text is off, which is not supported");
  }
  options.lower_case = normalizer.value("lowercase", true);
  const auto accents = normalizer.find("strip_accents");
  const bool is_said = accents != normalizer.end() && !accents->is_null();
  options.strip_accents = is_said ? accents->get<bool>() : options.lower_case;
  options.split_chinese = normalizer.value("handle_chinese_chars", true);
  return {};
}

// transformers lets tokenizer_config.json have its way.
Status check_beside(const TokenizerConfig& config, const WordPieceOptions& options) {
  const auto differs = [](const std::optional<bool>& flag, bool own) {
    return flag && *flag != own;
  };
  const char* entry = differs(config.lower_case, options.lower_case)         ? "do_lower_case"
                      : differs(config.strip_accents, options.strip_accents) ? "strip_accents"
                      : differs(config.split_chinese, options.split_chinese)
                          ? "tokenize_chinese_chars"
                          : nullptr;
  if (entry == nullptr) return {};
  return invalid_input(
      std::string("its normalizer and ") + entry +
      " of tokenizer_config.json beside it say different things: mend one of them");
}

Status refuse_around(const std::string& what) {
  return invalid_input("its post-processor " + what +
                       "; one special token before a text and one behind it are what is read");
}

// The tokens around a text, and their numbers as the post-processor has them.
Status take_template(const json& processor, WordPieceOptions& options,
                     std::map<std::string, int64_t>& numbers) {
  const json& single = processor.at("single");
  const auto special = [&](size_t i) -> std::string {
    const auto found = single[i].find("SpecialToken");
    const bool fits = found != single[i].end() && found->value("type_id", 0) == 0;
    return fits ? found->at("id").get<std::string>() : "";
  };
  const bool has_form = single.size() == 3 && single[1].contains("Sequence") &&
                        single[1]["Sequence"].value("type_id", 0) == 0 && !special(0).empty() &&
                        !special(2).empty();
  if (!has_form) return refuse_around("has another template");
  options.first = special(0);
  options.last = special(2);
  for (const std::string& name : {options.first, options.last}) {
    const json& ids = processor.at("special_tokens").at(name).at("ids");
    if (ids.size() != 1) return refuse_around("makes several tokens of '" + name + "'");
    numbers[name] = ids[0].get<int64_t>();
  }
  return {};
}

Status take_post_processor(const json& file, WordPieceOptions& options,
                           std::map<std::string, int64_t>& numbers) {
  const auto found = file.find("post_processor");
  if (found == file.end()) return {};
  const std::string type = found->is_object() ? found->value("type", "") : "none";
  if (type == "TemplateProcessing") return take_template(*found, options, numbers);
  if (type != "BertProcessing") return refuse_around("is '" + type + "'");
  options.first = found->at("cls").at(0).get<std::string>();
  options.last = found->at("sep").at(0).get<std::string>();
  numbers[options.first] = found->at("cls").at(1).get<int64_t>();
  numbers[options.last] = found->at("sep").at(1).get<int64_t>();
  return {};
}

Status take_limits(const json& file, WordPieceOptions& options) {
  const json truncation = file.value("truncation", json());
  if (truncation.is_object()) {
    if (truncation.value("direction", "Right") != "Right" ||
        truncation.value("strategy", "LongestFirst") == "OnlySecond") {
      return invalid_input("its truncation is not that of a text's end, which is not supported");
    }
    options.most_tokens = truncation.at("max_length").get<int64_t>();
  }
  const json padding = file.value("padding", json());
  if (!padding.is_object()) return {};
  if (padding.value("direction", "Right") != "Right") {
    return invalid_input("its padding is before the text, which is not supported");
  }
  options.padding = padding.value("pad_token", options.padding);
  return {};
}

Status take_decoder(const json& file, const WordPieceOptions& options) {
  const auto found = file.find("decoder");
  if (found == file.end() || found->is_null()) return {};
  MANTISSA_RETURN_IF_ERROR(check_type(file, "decoder", "decoder", "WordPiece"));
  if (found->value("prefix", options.continuation) == options.continuation) return {};
  return invalid_input("its decoder's prefix is not that of its model");
}

Status take_model(const json& model, WordPieceOptions& options) {
  const std::string kind = model.value("type", "");
  if (kind != "WordPiece") {
    return invalid_input("its model is '" + kind + "'; WordPiece is the one that is read");
  }
  options.unknown = model.value("unk_token", options.unknown);
  options.continuation = model.value("continuing_subword_prefix", options.continuation);
  options.longest_word = model.value("max_input_chars_per_word", options.longest_word);
  return {};
}

// Tokens in the files beside must be among the tokens of the tokenizer.
Status take_added(const json& file, const TokenizerConfig& config, WordPieceOptions& options) {
  if (!file.contains("added_tokens")) return {};
  options.added.emplace();
  for (const json& entry : file.at("added_tokens")) options.added->push_back(added_token(entry));
  std::vector<std::string> beside = config.added_special;
  for (const AddedToken& token : config.added) beside.push_back(token.text);
  for (const std::string& text : beside) {
    const bool is_known = std::any_of(options.added->begin(), options.added->end(),
                                      [&](const AddedToken& token) { return token.text == text; });
    if (is_known) continue;
    return invalid_input("its added_tokens lack '" + text + "', which a file beside it adds");
  }
  return {};
}

void take_names(const TokenizerConfig& config, WordPieceOptions& options) {
  const auto take = [&](const char* role, std::string& name) {
    const auto found = config.special.find(role);
    if (found != config.special.end()) name = found->second;
  };
  take("mask_token", options.mask);
  take("pad_token", options.padding);
}

int32_t number_of(const WordPiece& tokenizer, const std::string& name) {
  const WordPieceOptions& options = tokenizer.options();
  return name == options.first ? tokenizer.first() : tokenizer.last();
}

}  // namespace

Result<WordPiece> parse_tokenizer_json(const json& file, const TokenizerConfig& config) {
  WordPieceOptions options;
  std::map<std::string, int64_t> around;
  const json& model = file.at("model");
  options.most_tokens = config.most_tokens;
  MANTISSA_RETURN_IF_ERROR(take_model(model, options));
  MANTISSA_RETURN_IF_ERROR(take_normalizer(file, options));
  MANTISSA_RETURN_IF_ERROR(check_beside(config, options));
  MANTISSA_RETURN_IF_ERROR(check_type(file, "pre_tokenizer", "pre-tokenizer", "BertPreTokenizer"));
  MANTISSA_RETURN_IF_ERROR(take_post_processor(file, options, around));
  take_names(config, options);
  MANTISSA_RETURN_IF_ERROR(take_limits(file, options));
  MANTISSA_RETURN_IF_ERROR(take_decoder(file, options));
  MANTISSA_RETURN_IF_ERROR(take_added(file, config, options));
  MANTISSA_ASSIGN(std::vector<std::string> pieces, pieces_of(model.at("vocab")));
  MANTISSA_ASSIGN(WordPiece tokenizer, WordPiece::create(std::move(pieces), options));
  for (const auto& [name, number] : around) {
    if (number_of(tokenizer, name) != number) {
      return refuse_around("gives '" + name + "' another number than its vocabulary").error();
    }
  }
  return tokenizer;
}

}  // namespace mantissa
