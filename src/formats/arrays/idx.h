// IDX files (the format of MNIST and its kin), plain or gzip-compressed: bytes 0, 0, type, number
// of dimensions; one big-endian 32-bit size per dimension; then the data, last dimension fastest.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "base/result.h"
#include "formats/gzip.h"

namespace mantissa {

struct IdxHeader {
  std::vector<int64_t> dims;  // 1 to 4 of them, each >= 0

  // The product of dims; checked when the header was read.
  int64_t elements() const;
  bool operator==(const IdxHeader&) const = default;
};

struct IdxArray {
  IdxHeader header;
  std::vector<uint8_t> data;  // header.elements() bytes
};

// Reads only the header of an IDX file of unsigned bytes. Errors name the file: not IDX, another
// element type, 0 or more than 4 dimensions, a size that the file cannot hold.
Result<IdxHeader> read_idx_header(const std::filesystem::path& path);

// The same from a file that was just opened. The elements follow.
Result<IdxHeader> read_idx_header(ByteReader& reader);

// Reads the whole file, straight into its final buffer. Also an error: missing or extra data.
Result<IdxArray> read_idx(const std::filesystem::path& path);

}  // namespace mantissa
