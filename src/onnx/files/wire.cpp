#include "onnx/files/wire.h"

#include <algorithm>

namespace mantissa::onnx {
namespace {

constexpr int kMostVarintBytes = 10;
constexpr uint64_t kMostKey = 0xffff'ffff;

uint64_t take_fixed(std::span<const std::byte>& bytes, size_t size) {
  uint64_t value = 0;
  for (size_t i = 0; i < size; ++i) value |= static_cast<uint64_t>(bytes[i]) << (8 * i);
  bytes = bytes.subspan(size);
  return value;
}

}  // namespace

std::optional<uint64_t> take_varint(std::span<const std::byte>& bytes) {
  uint64_t value = 0;
  const size_t most = std::min<size_t>(bytes.size(), kMostVarintBytes);
  for (size_t i = 0; i < most; ++i) {
    const auto byte = static_cast<uint64_t>(bytes[i]);
    if (i == kMostVarintBytes - 1 && byte > 1) return std::nullopt;
    value |= (byte & 0x7f) << (7 * i);
    if ((byte & 0x80) == 0) {
      bytes = bytes.subspan(i + 1);
      return value;
    }
  }
  return std::nullopt;
}

bool WireReader::stop(const char* fault) {
  fault_ = fault;
  return false;
}

bool WireReader::read_value(WireType type, WireField& field) {
  switch (type) {
    case WireType::kVarint: {
      const std::optional<uint64_t> value = take_varint(left_);
      if (!value) return stop("a number is cut off or has more than 64 bits");
      field.value = *value;
      return true;
    }
    case WireType::kFixed64:
    case WireType::kFixed32: {
      const size_t size = type == WireType::kFixed64 ? 8 : 4;
      if (left_.size() < size) return stop("a number is cut off");
      field.value = take_fixed(left_, size);
      return true;
    }
    case WireType::kBytes: {
      const std::optional<uint64_t> size = take_varint(left_);
      if (!size || *size > left_.size()) return stop("a part is longer than the one around it");
      field.bytes = left_.first(static_cast<size_t>(*size));
      left_ = left_.subspan(static_cast<size_t>(*size));
      return true;
    }
  }
  return stop("a field has a type that ONNX does not use");
}

bool WireReader::next(WireField& field) {
  if (left_.empty() || fault_ != nullptr) return false;
  const std::optional<uint64_t> key = take_varint(left_);
  if (!key || *key > kMostKey || *key >> 3 == 0) return stop("a field's number is damaged");
  field = {static_cast<uint32_t>(*key), 0, {}};
  return read_value(static_cast<WireType>(*key & 7), field);
}

}  // namespace mantissa::onnx
