// What comes before the data of a safetensors file, read and checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "formats/arrays/safetensors_header.h"

namespace mantissa {

constexpr int64_t kSafetensorsLengthBytes = 8;  // before the header
constexpr int64_t kMostSafetensorsHeader = 100'000'000;

// A source of a file's bytes, one after the other.
struct SafetensorsSource {
  const std::filesystem::path& path;
  int64_t size;
  std::function<Status(std::span<std::byte>)> read_exactly;
};

struct SafetensorsStart {
  std::string text;  // of the header
  SafetensorsHeader header;
  int64_t data_begin = 0;  // in the file
};

// Reads the header, and leaves `source` at the data. The entries are sorted by their places, have
// known dtypes and sizes that fit their shapes, and fill the data without gap or overlap; all else
// is an error that names the file.
Result<SafetensorsStart> read_safetensors_start(const SafetensorsSource& source);

// The bytes of a tensor of this dtype and shape, if the dtype is known and nothing overflows.
std::optional<int64_t> safetensors_bytes_of(std::string_view dtype,
                                            const std::vector<int64_t>& shape);

Error safetensors_error(const std::filesystem::path& path, const std::string& what);

}  // namespace mantissa
