// Encoders from files.
#pragma once

#include <filesystem>

#include "base/result.h"
#include "infer/encoder.h"

namespace mantissa {

// The encoder of a file that `mantissa import` wrote, or one in BERT's layout (bert_file.h), with
// its weights in the format. Errors: other files, networks that are no encoders, formats whose
// exponents would have to be calibrated.
Result<Encoder> load_encoder(const std::filesystem::path& path, const Format& format);

}  // namespace mantissa
