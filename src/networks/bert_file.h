// Encoders of other programs in BERT's layout: a folder with model.safetensors, config.json and a
// WordPiece tokenizer, as Hugging Face's transformers writes it.
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/result.h"
#include "data/tokenizers/wordpiece.h"
#include "onnx/import/import.h"

namespace mantissa {

struct ImportedEncoder {
  onnx::ImportedNetwork network;  // of bert_encoder: no loss, no labels
  WordPiece tokenizer;
};

// Whether a path has the form of such an encoder: a folder, or a safetensors file.
bool is_bert_path(const std::filesystem::path& path);

// Reads an encoder from a folder, or from a safetensors file with the other files beside it.
// `sequence`: tokens of an example; 0: 128, or fewer if there are fewer positions. Names may begin
// with "bert." ("encoder.layer.0.attention.self.query.weight"), norms may be called gamma and beta.
// Poolers and heads are left out, with a note. Errors name the file: another model_type,
// activation or kind of positions, parameters that are missing, have other shapes or a type that is
// not F32, F16 or BF16, a tokenizer with more pieces than the network has tokens.
Result<ImportedEncoder> import_bert(const std::filesystem::path& path, int64_t sequence);

}  // namespace mantissa
