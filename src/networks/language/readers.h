// The two kinds of files of language models; used by model_file.cpp only.
#pragma once

#include <filesystem>

#include "networks/language/model_file.h"

namespace mantissa {

// Numbers of layers, channels, heads and tokens.
constexpr int64_t kMostSize = int64_t{1} << 24;

Result<LanguageModelFile> read_gguf_model(const std::filesystem::path& path);
Result<LanguageModelFile> read_model_folder(const std::filesystem::path& folder);

// Whether a folder's config.json names a decoder.
Result<bool> has_decoder(const std::filesystem::path& folder);

}  // namespace mantissa
