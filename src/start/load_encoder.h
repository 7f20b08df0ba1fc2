// Encoders from files.
#pragma once

#include <filesystem>

#include "base/result.h"
#include "infer/encoder.h"

namespace mantissa {

// The encoder of a file that `mantissa import` wrote, or of one in BERT's layout (bert_file.h),
// with its weights in the format. Errors: other files, networks that are no encoders, formats whose
// exponents need calibration.
Result<Encoder> load_encoder(const std::filesystem::path& path, const Format& format);

}  // namespace mantissa
