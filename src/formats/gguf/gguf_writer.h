// Writes GGUF files, version 3 (gguf.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "formats/gguf/gguf.h"

namespace mantissa {

// Keys and values in the order in which they are added. No key comes twice.
class GgufKeys {
 public:
  void add_text(std::string_view key, std::string_view value);
  void add_whole(std::string_view key, uint32_t value);
  void add_real(std::string_view key, float value);
  void add_truth(std::string_view key, bool value);
  void add_texts(std::string_view key, std::span<const std::string> values);
  void add_wholes(std::string_view key, std::span<const int32_t> values);

  uint64_t count() const { return count_; }
  const std::string& bytes() const { return bytes_; }

 private:
  void begin(std::string_view key, GgufType type);

  uint64_t count_ = 0;
  std::string bytes_;
};

// A tensor as bytes of its type's blocks, row by row.
struct GgufTensorBytes {
  std::string name;
  std::vector<int64_t> shape;  // the slowest dimension first
  uint32_t type = 0;           // gguf_blocks.h
  std::string bytes;
};

// Atomically. The tensors' bytes have the sizes of their shapes.
Status write_gguf(const std::filesystem::path& path, const GgufKeys& keys,
                  std::span<const GgufTensorBytes> tensors);

}  // namespace mantissa
