// State that the readers of an ONNX file's messages share.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/files/file_bytes.h"
#include "base/result.h"
#include "onnx/files/read_budget.h"
#include "onnx/files/wire.h"
#include "onnx/model.h"

namespace mantissa::onnx {

struct ReadContext {
  std::filesystem::path folder;
  std::shared_ptr<const void> owner;                             // of the model's bytes
  std::map<std::string, std::shared_ptr<FileBytes>> data_files;  // by location
  ReadBudget budget;
};

// How often each field of bytes with a number below 32 is in a message: lists are reserved whole,
// since growing ones take three times the memory.
using FieldCounts = std::array<int64_t, 32>;
Result<FieldCounts> count_fields(ReadContext& context, std::span<const std::byte> message);

// The bytes of a field as text.
Result<std::string> read_text(ReadContext& context, const WireField& field);

// Adds the numbers of a field: one, or (kBytes) a packed run of varints, or of floats.
Status add_integers(ReadContext& context, const WireField& field, std::vector<int64_t>& numbers);
Status add_floats(ReadContext& context, const WireField& field, std::vector<float>& numbers);

float to_float(const WireField& field);

// The error that a walk over a message ended with, if any.
Status end_of(const WireReader& reader);

// "node 'x'", with names that are arbitrary bytes made readable.
std::string describe(const char* what, const std::string& name);

// A TensorProto, data files included.
Result<TensorData> read_tensor(ReadContext& context, std::span<const std::byte> message);

}  // namespace mantissa::onnx
