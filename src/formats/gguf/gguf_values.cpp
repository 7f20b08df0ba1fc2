// Values of keys, and numbers of tensors.
#include <algorithm>
#include <bit>
#include <cstring>
#include <exception>
#include <memory>

#include "base/sizes.h"
#include "formats/arrays/safetensors_header.h"
#include "formats/gguf/gguf.h"
#include "formats/gguf/gguf_blocks.h"

namespace mantissa {
namespace {

constexpr size_t kShownBytes = 60;

bool is_whole(GgufType type) {
  return type <= GgufType::kInt32 || type == GgufType::kUint64 || type == GgufType::kInt64;
}

uint64_t little_endian(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes[i]);
  return value;
}

bool has_sign(GgufType type) {
  return type == GgufType::kInt8 || type == GgufType::kInt16 || type == GgufType::kInt32 ||
         type == GgufType::kInt64;
}

double real_of(GgufType type, std::string_view bytes) {
  const uint64_t bits = little_endian(bytes);
  if (type == GgufType::kFloat64) return std::bit_cast<double>(bits);
  return std::bit_cast<float>(static_cast<uint32_t>(bits));
}

std::string real_text(double number) {
  std::string text(32, '\0');
  const int length = std::snprintf(text.data(), text.size(), "%.9g", number);
  text.resize(static_cast<size_t>(std::clamp(length, 0, 31)));
  return text;
}

}  // namespace

int64_t GgufTensor::count() const {
  int64_t count = 1;
  for (const int64_t dim : shape) count *= dim;  // the file has the bytes of all elements
  return count;
}

const GgufKey* GgufFile::find(const std::string& key) const {
  const auto found = key_by_name_.find(key);
  return found == key_by_name_.end() ? nullptr : &keys_[found->second];
}

const GgufTensor* GgufFile::find_tensor(const std::string& name) const {
  const auto found = tensor_by_name_.find(name);
  return found == tensor_by_name_.end() ? nullptr : &tensors_[found->second];
}

Error GgufFile::wrong_type(const std::string& key, const char* wanted) const {
  return invalid_input("'" + path_.string() + "': key " + readable_name(key) + " is " +
                       described(*find(key)) + ", and no " + wanted);
}

Result<int64_t> GgufFile::whole_at(const GgufKey& key, int64_t i) const {
  const size_t bytes = key.bytes / static_cast<size_t>(key.count.value_or(1));
  const uint64_t bits = little_endian(
      std::string_view(header_).substr(key.begin + static_cast<size_t>(i) * bytes, bytes));
  if (has_sign(key.type)) {
    const int unused = 64 - 8 * static_cast<int>(bytes);
    return static_cast<int64_t>(bits << unused) >> unused;
  }
  if (bits <= uint64_t{INT64_MAX}) return static_cast<int64_t>(bits);
  return wrong_type(key.name, "number that fits 64 bits with a sign");
}

Result<std::optional<std::string>> GgufFile::text(const std::string& key) const {
  const GgufKey* found = find(key);
  if (found == nullptr) return std::optional<std::string>();
  if (found->type != GgufType::kText || found->count) return wrong_type(key, "text");
  constexpr size_t kLength = 8;
  return std::optional(header_.substr(found->begin + kLength, found->bytes - kLength));
}

Result<std::optional<int64_t>> GgufFile::whole(const std::string& key) const {
  const GgufKey* found = find(key);
  if (found == nullptr) return std::optional<int64_t>();
  if (!is_whole(found->type) || found->count) return wrong_type(key, "whole number");
  MANTISSA_ASSIGN(const int64_t number, whole_at(*found, 0));
  return std::optional(number);
}

Result<std::optional<double>> GgufFile::real(const std::string& key) const {
  const GgufKey* found = find(key);
  if (found == nullptr) return std::optional<double>();
  const bool fits = found->type == GgufType::kFloat32 || found->type == GgufType::kFloat64;
  if (!fits || found->count) return wrong_type(key, "real number");
  return std::optional(
      real_of(found->type, std::string_view(header_).substr(found->begin, found->bytes)));
}

Result<std::optional<bool>> GgufFile::truth(const std::string& key) const {
  const GgufKey* found = find(key);
  if (found == nullptr) return std::optional<bool>();
  if (found->type != GgufType::kTruth || found->count) return wrong_type(key, "truth value");
  return std::optional(header_[found->begin] != 0);
}

Result<std::optional<std::vector<std::string>>> GgufFile::texts(const std::string& key) const {
  const GgufKey* found = find(key);
  if (found == nullptr) return std::optional<std::vector<std::string>>();
  if (found->type != GgufType::kText || !found->count) return wrong_type(key, "list of texts");
  std::vector<std::string> list;
  list.reserve(static_cast<size_t>(*found->count));
  constexpr size_t kLength = 8;
  for (size_t at = found->begin; std::ssize(list) < *found->count;) {
    const uint64_t length = little_endian(std::string_view(header_).substr(at, kLength));
    list.push_back(header_.substr(at + kLength, static_cast<size_t>(length)));
    at += kLength + static_cast<size_t>(length);
  }
  return std::optional(std::move(list));
}

Result<std::optional<std::vector<int64_t>>> GgufFile::wholes(const std::string& key) const {
  const GgufKey* found = find(key);
  if (found == nullptr) return std::optional<std::vector<int64_t>>();
  if (!is_whole(found->type) || !found->count) return wrong_type(key, "list of whole numbers");
  std::vector<int64_t> list(static_cast<size_t>(*found->count));
  for (int64_t i = 0; i < *found->count; ++i) {
    MANTISSA_ASSIGN(list[static_cast<size_t>(i)], whole_at(*found, i));
  }
  return std::optional(std::move(list));
}

std::string GgufFile::described(const GgufKey& key) const {
  if (key.count) {
    const char* what = key.type == GgufType::kText ? " texts]" : " values]";
    return "[" + std::to_string(*key.count) + what;
  }
  const std::string_view bytes = std::string_view(header_).substr(key.begin, key.bytes);
  if (key.type == GgufType::kText) {
    const std::string_view text = bytes.substr(8);
    const std::string shown = readable_name(std::string(text.substr(0, kShownBytes)));
    return text.size() > kShownBytes ? shown + "..." : shown;
  }
  if (key.type == GgufType::kTruth) return bytes[0] != 0 ? "true" : "false";
  if (!is_whole(key.type)) return real_text(real_of(key.type, bytes));
  if (key.type == GgufType::kUint64) return std::to_string(little_endian(bytes));
  return std::to_string(*whole_at(key, 0));
}

Result<std::vector<std::byte>> GgufFile::bytes(const GgufTensor& tensor) const {
  try {
    std::vector<std::byte> all(static_cast<size_t>(tensor.bytes));
    MANTISSA_RETURN_IF_ERROR(read_at_(tensor.begin, all));
    return all;
  } catch (const std::bad_alloc&) {
    return out_of_memory("tensor " + readable_name(tensor.name), tensor.bytes);
  }
}

Result<std::vector<float>> GgufFile::floats(const GgufTensor& tensor) const {
  const GgufBlockType& type = *gguf_block_type(tensor.type);
  constexpr int64_t kReadBytes = int64_t{1} << 20;
  const int64_t blocks_at_once = kReadBytes / type.bytes;
  const int64_t count = tensor.count(), blocks = count / type.elements;
  try {
    std::vector<float> numbers(static_cast<size_t>(count));
    std::vector<uint8_t> bytes;
    for (int64_t block = 0; block < blocks; block += blocks_at_once) {
      const int64_t here = std::min(blocks_at_once, blocks - block);
      bytes.resize(static_cast<size_t>(here * type.bytes));
      MANTISSA_RETURN_IF_ERROR(
          read_at_(tensor.begin + block * type.bytes, std::as_writable_bytes(std::span(bytes))));
      dequantise(type, bytes,
                 std::span(numbers).subspan(static_cast<size_t>(block * type.elements),
                                            static_cast<size_t>(here * type.elements)));
    }
    return numbers;
  } catch (const std::bad_alloc&) {
    return out_of_memory("tensor " + readable_name(tensor.name), count * int64_t{sizeof(float)});
  }
}

}  // namespace mantissa
