// Event files for TensorBoard: TFRecord framing (length, masked CRC-32C, data, masked CRC-32C)
// around Event messages in protobuf's encoding. Scalars need five of their fields.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/files/output_file.h"
#include "base/result.h"

namespace mantissa {

// CRC-32C (Castagnoli), and as TFRecord stores it: rotated, with a constant added.
uint32_t crc32c(std::span<const std::byte> bytes);
uint32_t masked_crc32c(std::span<const std::byte> bytes);

// Names and values at one step. Values are stored as float.
using Scalars = std::vector<std::pair<std::string, double>>;

class EventFile {
 public:
  // Creates the file, or replaces it, with its first record (the version). Its name should hold
  // "tfevents", or TensorBoard passes it over.
  static Result<EventFile> create(const std::filesystem::path& path, double wall_time);

  // Appends one record and hands it to the system. `wall_time` in seconds since 1970.
  Status write(double wall_time, int64_t step, const Scalars& scalars);

 private:
  explicit EventFile(OutputFile file) : file_(std::move(file)) {}
  Status write_record(std::string_view event);

  OutputFile file_;
};

}  // namespace mantissa
