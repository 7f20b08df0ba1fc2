// safetensors files: an 8-byte little-endian header length, a JSON header (metadata; name, dtype,
// shape and place of each tensor), then the tensors' bytes (little-endian, row-major).
//
// Files written here are canonical: the same input gives the same bytes. Metadata gets two keys,
// "sha256" (of the compact header without that key, then all data) and "sha256_covers" (says that);
// a file with either is checked in full when it is read, so any flipped bit is found.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/atomic_file.h"
#include "base/result.h"

namespace mantissa {

struct SafetensorsView {
  std::string name;
  std::string dtype;           // "I8", "U8", "I16", "I32", "I64", "F64", ...
  std::vector<int64_t> shape;  // empty: a scalar
  std::span<const std::byte> data;
};

// One tensor of a file that was read; `data` lies in the SafetensorsFile and may be unaligned.
using SafetensorsTensor = SafetensorsView;

// The contents of a file. Owns the bytes that its tensors point into: can be moved, not copied.
// The bytes of a file that was opened stay on the disk: `data` of its tensors is empty.
struct SafetensorsFile {
  SafetensorsFile() = default;
  SafetensorsFile(SafetensorsFile&&) noexcept = default;
  SafetensorsFile& operator=(SafetensorsFile&&) noexcept = default;

  std::map<std::string, std::string> metadata;  // without the two keys of the checksum
  std::string sha256;                           // that was verified; "": there was none
  std::vector<SafetensorsTensor> tensors;       // in the order of their data
  std::vector<uint32_t> by_name;                // their places, in the order of their names
  std::unique_ptr<std::byte[]> buffer;
  std::unique_ptr<const InputFile> disk;  // of a file that was opened
  std::vector<int64_t> offsets;           // of its tensors

  // The tensor of that name, or null.
  const SafetensorsTensor* find(std::string_view name) const;
  // The bytes of one of `tensors`: its data, or read from the disk into `room`.
  Result<std::span<const std::byte>> bytes(const SafetensorsTensor& tensor,
                                           std::vector<std::byte>& room) const;
};

// Gives the bytes of the tensor with that place, valid until the next call.
using TensorBytes = std::function<Result<std::span<const std::byte>>(size_t tensor)>;

// The size in bytes of one element ("I8": 1, "F64": 8), or 0 for an unknown dtype.
int64_t safetensors_dtype_bytes(std::string_view dtype);

// Writes the tensors in the given order, atomically. Errors: a dtype that is not known, data whose
// size is not the shape's, a name twice, a reserved metadata key, text that is not UTF-8, a header
// over 100 MB, and errors of write_file_atomically.
Status write_safetensors(const std::filesystem::path& path,
                         const std::map<std::string, std::string>& metadata,
                         std::span<const SafetensorsView> tensors);
// The same of tensors that are not all in memory at once. `bytes` is asked three times for each.
Status write_safetensors(const std::filesystem::path& path,
                         const std::map<std::string, std::string>& metadata,
                         std::span<const SafetensorsView> tensors, const TensorBytes& bytes);

// The same bytes in memory.
Result<std::string> safetensors_bytes(const std::map<std::string, std::string>& metadata,
                                      std::span<const SafetensorsView> tensors);

// Reads a file and checks all of it: lengths, JSON, dtypes, shapes, that the tensors fill the data
// without gap or overlap, and the checksum if there is one. Nothing larger than the file itself
// justifies is allocated. Errors name the file and say where it is wrong.
Result<SafetensorsFile> read_safetensors(const std::filesystem::path& path);

// The same, but the tensors stay on the disk: their bytes are read once for the checksum, a
// megabyte at a time, and then when they are asked for.
Result<SafetensorsFile> open_safetensors(const std::filesystem::path& path);

// The same as read_safetensors of bytes in memory. Errors call them `path`.
Result<SafetensorsFile> parse_safetensors(std::string_view bytes,
                                          const std::filesystem::path& path);

}  // namespace mantissa
