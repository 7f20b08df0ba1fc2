// GGUF files, version 3: the networks of llama.cpp. A header of keys with values and of tensors
// with their places, then the tensors' bytes, all little-endian.
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace mantissa {

// The types of values, by their numbers in files.
enum class GgufType : uint32_t {
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kUint32,
  kInt32,
  kFloat32,
  kTruth,
  kText,
  kArray,
  kUint64,
  kInt64,
  kFloat64
};

// A key and where its value lies in the header.
struct GgufKey {
  std::string name;
  GgufType type = GgufType::kUint8;   // of the value, or of the elements of an array
  std::optional<int64_t> count = {};  // elements, of an array
  size_t begin = 0, bytes = 0;        // of the value, or of all elements
};

struct GgufTensor {
  std::string name;
  std::vector<int64_t> shape;  // the slowest dimension first, as elsewhere (files: the fastest)
  uint32_t type = 0;           // gguf_blocks.h
  int64_t begin = 0;           // in the file
  int64_t bytes = 0;

  int64_t count() const;
};

// Reads this many bytes from a place in a file.
using ReadAt = std::function<Status(int64_t offset, std::span<std::byte> out)>;

// A file whose header was read and checked. Bytes of tensors are read when they are asked for.
//
// Errors of all functions name the file. Refused are: other versions, big-endian files, arrays of
// arrays, a key or a tensor twice, types of tensors that are not known, rows that are no whole
// number of blocks, places that are not aligned, overlap or lie outside of the file, and more than
// 65,536 keys, 65,536 tensors, 2^21 elements of an array, or 32 MiB of header.
class GgufFile {
 public:
  static Result<GgufFile> open(const std::filesystem::path& path);
  // The same of bytes elsewhere: `size` of them, which errors call `path`.
  static Result<GgufFile> read(const std::filesystem::path& path, int64_t size, ReadAt read_at);

  const std::vector<GgufKey>& keys() const { return keys_; }
  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  const GgufTensor* find_tensor(const std::string& name) const;
  bool has(const std::string& key) const { return key_by_name_.contains(key); }

  // The value of a key, or nothing if there is no such key. An error: it has another type. Whole
  // numbers have any integer type, and must fit int64.
  Result<std::optional<std::string>> text(const std::string& key) const;
  Result<std::optional<int64_t>> whole(const std::string& key) const;
  Result<std::optional<double>> real(const std::string& key) const;
  Result<std::optional<bool>> truth(const std::string& key) const;
  Result<std::optional<std::vector<std::string>>> texts(const std::string& key) const;
  Result<std::optional<std::vector<int64_t>>> wholes(const std::string& key) const;

  // A value as text of bounded length, for people: "10000", "[3 texts]".
  std::string described(const GgufKey& key) const;

  // The numbers of a tensor.
  Result<std::vector<float>> floats(const GgufTensor& tensor) const;
  // Its bytes, as they are in the file.
  Result<std::vector<std::byte>> bytes(const GgufTensor& tensor) const;

 private:
  friend class GgufHeaderReader;
  const GgufKey* find(const std::string& key) const;
  Result<int64_t> whole_at(const GgufKey& key, int64_t i) const;
  Error wrong_type(const std::string& key, const char* wanted) const;

  std::filesystem::path path_;
  ReadAt read_at_;
  std::string header_;
  std::vector<GgufKey> keys_;
  std::vector<GgufTensor> tensors_;  // in the order of the file
  std::map<std::string, size_t> key_by_name_, tensor_by_name_;
};

}  // namespace mantissa
