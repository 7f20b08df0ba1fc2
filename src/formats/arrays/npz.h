// NPZ files: named arrays, as numpy.savez and numpy.savez_compressed write them. A ZIP archive with
// an NPY file for each array.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "base/result.h"
#include "formats/arrays/npy.h"

namespace mantissa {

struct NpzLimits {
  int64_t bytes = int64_t{2} << 30;  // of all arrays together
  int64_t arrays = 65536;
};

// An array of texts, Python objects or records, or of numbers that are not read.
struct OtherArray {
  std::string name;
  std::string type;  // as NPY files have it, "<U5"; "" of records
};

// Reads all arrays, in the file's order. Memory is touched only as data arrive, so that a false
// size costs nothing. An entry that is larger than its array is not decompressed. Errors name the
// file: no archive, or a damaged one (checksums are verified), a name twice, a compression other
// than deflate, encryption, entries that are no arrays (parse_npy), more than the limits. Arrays of
// other types are listed in `others`; without `others` they are an error.
Result<std::vector<NpyArray>> read_npz(const std::filesystem::path& path,
                                       const NpzLimits& limits = {},
                                       std::vector<OtherArray>* others = nullptr);

// Writes the arrays in the given order, uncompressed, atomically. The same arrays give the same
// bytes. Errors: no array, no name, a name twice, one that is not UTF-8; errors of npy_header and
// write_file_atomically.
Status write_npz(const std::filesystem::path& path, std::span<const NpyView> arrays);

}  // namespace mantissa
