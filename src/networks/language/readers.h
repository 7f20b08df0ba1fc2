// The two kinds of files of language models; used by model_file.cpp only.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>

#include "networks/language/model_file.h"

namespace mantissa {

// Numbers of layers, channels, heads and tokens.
constexpr int64_t kMostSize = int64_t{1} << 24;

Result<LanguageModelFile> read_gguf_model(const std::filesystem::path& path);
Result<LanguageModelFile> read_model_folder(const std::filesystem::path& folder);

// Whether a folder's config.json names a decoder.
Result<bool> has_decoder(const std::filesystem::path& folder);

// Sizes, positions and lacks of a model whose architecture is known, from the entries of its
// config.json (folder_config.cpp). An error: an entry that is missing, or no size.
Status take_config(const nlohmann::json& config, LanguageModelFile& model);

// Why a family is not read, `what` being the entry that names it.
std::string unknown_family(const char* what, const std::string& family);

// Takes what a file says of conversations: a template, or why it has none here.
void take_chat(const std::string& jinja, const char* entry, LanguageModelFile& model);

// Whether angles can be computed of sizes that a file says. A network of others is refused.
bool has_angles(const DecoderSizes& sizes);

}  // namespace mantissa
