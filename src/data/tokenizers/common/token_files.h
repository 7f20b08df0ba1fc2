// Code that the files of all tokenizers share.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "base/result.h"
#include "data/tokenizers/common/added_tokens.h"

namespace mantissa {

// An entry of "added_tokens", whose number is "id", or given.
AddedToken added_token(const nlohmann::json& entry, std::optional<int32_t> number = std::nullopt);
// The same the other way.
nlohmann::json to_json(const AddedToken& token);

// The text of a file: at most 64 MiB. Errors as read_file.
Result<std::string> read_tokenizer_text(const std::filesystem::path& path);

}  // namespace mantissa
