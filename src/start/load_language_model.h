// Language models of other programs, as they are: without a training run.
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/result.h"
#include "infer/frozen_network.h"
#include "numerics/format.h"

namespace mantissa {

// Whether a path is a language model's file of another program (is_model_file), or the file that
// import made of one. Only the beginning of a file is read.
Result<bool> is_imported_language_model(const std::filesystem::path& path);

// Such a model with its weights in the format. `sequence`: positions of a text; 0: of a file of
// another program `usual`, or as many as it has; of the file that import made its own, and another
// number is an error. Errors: formats whose exponents need calibration, and those of import.
Result<FrozenNetwork> load_language_model(const std::filesystem::path& path, const Format& format,
                                          int64_t sequence, int64_t usual);

}  // namespace mantissa
