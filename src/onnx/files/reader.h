// Reads ONNX files, which may hold anything. The numbers of tensors stay in its bytes.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

#include "base/result.h"
#include "onnx/model.h"

namespace mantissa::onnx {

// The model of a file of at most 2 GiB and, if it refers to them, its data files, which must lie
// in the model's folder (base/files/file_bytes.h). Checked: the limits of onnx/files/read_budget.h,
// the size of data against type and dims, and names (onnx/files/check_names.h). Not checked:
// operators and their attributes. Tensors of strings have no bytes. Attributes of kinds that
// AttributeData lacks have no value. Errors name the file.
Result<ModelData> read_model(const std::filesystem::path& path);

// The same of bytes in memory, which `owner` keeps alive; data files lie in `folder`.
Result<ModelData> parse_model(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                              const std::filesystem::path& folder);

// A TensorProto by itself, as ONNX's operator tests have their inputs and outputs in files.
Result<TensorData> parse_tensor(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                                const std::filesystem::path& folder);

}  // namespace mantissa::onnx
