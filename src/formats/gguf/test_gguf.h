// For tests: makes the bytes of GGUF files, right and wrong ones.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/gguf/gguf.h"

namespace mantissa {

class GgufBytes {
 public:
  template <typename T>
  static std::string number(T value, size_t bytes = sizeof(T)) {
    std::string text;
    for (size_t i = 0; i < bytes; ++i) {
      text += static_cast<char>(static_cast<uint64_t>(value) >> 8 * i & 0xff);
    }
    return text;
  }
  static std::string text(std::string_view value) {
    return number<uint64_t>(value.size()) + std::string(value);
  }
  static std::string real(float value) { return number(__builtin_bit_cast(uint32_t, value)); }

  // A key of any type, with these bytes behind the type.
  GgufBytes& add(std::string_view key, GgufType type, const std::string& bytes) {
    ++keys;
    header += text(key) + number(static_cast<uint32_t>(type)) + bytes;
    return *this;
  }
  GgufBytes& add_text(std::string_view key, std::string_view value) {
    return add(key, GgufType::kText, text(value));
  }
  GgufBytes& add_whole(std::string_view key, uint32_t value) {
    return add(key, GgufType::kUint32, number(value));
  }
  GgufBytes& add_real(std::string_view key, float value) {
    return add(key, GgufType::kFloat32, real(value));
  }
  GgufBytes& add_truth(std::string_view key, bool value) {
    return add(key, GgufType::kTruth, std::string(1, value ? '\1' : '\0'));
  }
  GgufBytes& add_array(std::string_view key, GgufType type, uint64_t count,
                       const std::string& elements) {
    return add(key, GgufType::kArray,
               number(static_cast<uint32_t>(type)) + number(count) + elements);
  }
  GgufBytes& add_texts(std::string_view key, const std::vector<std::string>& values) {
    std::string all;
    for (const std::string& value : values) all += text(value);
    return add_array(key, GgufType::kText, values.size(), all);
  }
  GgufBytes& add_wholes(std::string_view key, const std::vector<int32_t>& values) {
    std::string all;
    for (const int32_t value : values) all += number(value);
    return add_array(key, GgufType::kInt32, values.size(), all);
  }

  // dims: the fastest first, as in files. place: from the start of the data; negative: the next.
  GgufBytes& add_tensor(std::string_view name, const std::vector<uint64_t>& dims, uint32_t type,
                        const std::string& bytes, int64_t place = -1) {
    constexpr size_t kAlignment = 32;
    data.resize((data.size() + kAlignment - 1) / kAlignment * kAlignment);
    ++tensors;
    tensor_list += text(name) + number(static_cast<uint32_t>(dims.size()));
    for (const uint64_t dim : dims) tensor_list += number(dim);
    tensor_list +=
        number(type) + number(place >= 0 ? static_cast<uint64_t>(place) : uint64_t{data.size()});
    data += bytes;
    return *this;
  }
  GgufBytes& add_floats(std::string_view name, const std::vector<uint64_t>& dims,
                        const std::vector<float>& values) {
    std::string bytes;
    for (const float value : values) bytes += real(value);
    return add_tensor(name, dims, 0, bytes);
  }

  std::string bytes() const {
    constexpr size_t kAlignment = 32;
    std::string all =
        "GGUF" + number(version) + number(tensors) + number(keys) + header + tensor_list;
    all.resize((all.size() + kAlignment - 1) / kAlignment * kAlignment);
    return all + data;
  }

  uint32_t version = 3;
  uint64_t tensors = 0, keys = 0;
  std::string header, tensor_list, data;
};

}  // namespace mantissa
