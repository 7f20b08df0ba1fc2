// NPY files: one array of numbers, as numpy.save writes it (NEP 1): magic, version, the length of a
// header, the header (a Python dictionary: type, order, shape), and the numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace mantissa {

enum class NpyType : uint8_t {
  kBool,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kUint8,
  kUint16,
  kUint32,
  kUint64,
  kFloat,
  kDouble,
};

int64_t npy_element_bytes(NpyType type);
// numpy's name: "bool", "int8", ..., "uint64", "float32", "float64".
const char* npy_type_name(NpyType type);

// An array that somebody else keeps. Row-major; the bytes may be unaligned.
struct NpyView {
  std::string name;  // in an NPZ file; NPY files have none
  NpyType type = NpyType::kFloat;
  std::vector<int64_t> shape;  // empty: a scalar
  std::span<const std::byte> data;
};

struct NpyArray {
  std::string name;
  NpyType type = NpyType::kFloat;
  std::vector<int64_t> shape;
  std::vector<std::byte> data;

  NpyView view() const { return {name, type, shape, data}; }
};

// The magic, the version and the header of a file with the view's type and shape; its data follow.
// Errors: a negative dimension, data whose size is not the shape's.
Result<std::string> npy_header(const NpyView& view);

// The beginning of a file: the header's description of its array.
struct NpyHead {
  std::string type_code;        // as in the file: "<f4", "|S5", "|O"; "" for records
  std::optional<NpyType> type;  // none: no numbers, or an unsupported type
  bool is_half = false;         // float16 in the file, float for us
  bool is_big_endian = false;
  bool is_fortran = false;
  std::vector<int64_t> shape = {};
  size_t data_at = 0;                 // where its numbers begin
  std::optional<int64_t> bytes = {};  // of all of them; none: too many for a size
};

constexpr size_t kMostNpyHeadBytes = (size_t{1} << 16) + 12;

// Reads the head of a file that begins so. An error for one that Python could not have written.
Result<NpyHead> parse_npy_head(std::span<const std::byte> begin);

// The array of a whole file, little-endian. Arrays in Fortran's order are transposed. Errors: other
// types of numbers, texts, records and Python objects; more or fewer bytes than the shape says; a
// header that Python could not have written.
Result<NpyArray> parse_npy(std::span<const std::byte> file);

}  // namespace mantissa
