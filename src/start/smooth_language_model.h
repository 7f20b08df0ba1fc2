// Smooths an imported language model by the values that it has for a text (docs/language.md, 0151).
#pragma once

#include <string>

#include "base/result.h"
#include "data/tokenizers/vocabulary.h"
#include "models/decoder.h"
#include "onnx/import/import.h"
#include "start/insert_batch_norm.h"

namespace mantissa {

// Runs the network in fp32 on about 1,024 tokens of the text's training part, in sequences that lie
// evenly in it, and moves powers of two (networks/language/smoothing.h). Notes what it moved.
// Returns the file, its hash and the number of tokens as JSON. Errors: the text cannot be read or
// is too short, and errors of running the network.
Result<std::string> smooth_language_model(const DecoderSizes& sizes, const std::string& path,
                                          const Vocabulary& vocabulary,
                                          const MeasuringSettings& settings,
                                          onnx::ImportedNetwork& imported);

}  // namespace mantissa
