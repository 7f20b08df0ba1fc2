// The settings in the files of a Hugging Face tokenizer, as options of WordPiece. A setting that
// WordPiece here does not support is an error that names it.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "data/tokenizers/common/token_files.h"
#include "data/tokenizers/wordpiece.h"

namespace mantissa {

// tokenizer_config.json, special_tokens_map.json and added_tokens.json beside a tokenizer: only the
// settings that they have.
struct TokenizerConfig {
  std::optional<bool> lower_case, strip_accents, split_chinese;
  std::map<std::string, std::string> special;  // by role: "cls_token"
  std::vector<AddedToken> added;               // numbers as the files have them
  std::vector<std::string> added_special;      // texts whose numbers are the vocabulary's
  int64_t most_tokens = 0;                     // 0: no limit
};

Result<TokenizerConfig> read_tokenizer_config(const std::filesystem::path& folder,
                                              bool of_a_vocabulary);

// The options of vocab.txt, whose pieces are given.
Result<WordPieceOptions> vocabulary_options(const TokenizerConfig& config,
                                            const std::vector<std::string>& pieces);

// A tokenizer.json, with the files beside it. Entries that are left out are the usual ones of BERT.
Result<WordPiece> parse_tokenizer_json(const nlohmann::json& file, const TokenizerConfig& config);

}  // namespace mantissa
