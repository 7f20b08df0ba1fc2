// Writes ONNX files. The same model gives the same bytes.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"
#include "onnx/model.h"

namespace mantissa::onnx {

// The bytes of a file. Fields are in the order of their numbers, tensors in raw form inside the
// file. Errors: an attribute without a value, a tensor of strings, a tensor whose number of bytes
// does not match its type and dims, a model of 2 GiB or more, which protobuf cannot read.
Result<std::string> model_bytes(const ModelData& model);

// The same to a file, atomically.
Status write_model(const std::filesystem::path& path, const ModelData& model);

}  // namespace mantissa::onnx
