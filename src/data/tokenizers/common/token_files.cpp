#include "data/tokenizers/common/token_files.h"

#include <nlohmann/json.hpp>

#include "base/files/text_file.h"

namespace mantissa {

using nlohmann::json;

AddedToken added_token(const json& entry, std::optional<int32_t> number) {
  const bool special = entry.value("special", false);
  return {.text = entry.at("content").get<std::string>(),
          .number = number ? *number : entry.at("id").get<int32_t>(),
          .special = special,
          .single_word = entry.value("single_word", false),
          .left_strip = entry.value("lstrip", false),
          .right_strip = entry.value("rstrip", false),
          .normalised = entry.value("normalized", !special)};
}

json to_json(const AddedToken& token) {
  return {{"content", token.text},         {"id", token.number},
          {"special", token.special},      {"single_word", token.single_word},
          {"lstrip", token.left_strip},    {"rstrip", token.right_strip},
          {"normalized", token.normalised}};
}

Result<std::string> read_tokenizer_text(const std::filesystem::path& path) {
  constexpr int64_t kMostTokenizerBytes = int64_t{64} << 20;
  return read_text_file(path, kMostTokenizerBytes);
}

}  // namespace mantissa
