#include "onnx/files/read_context.h"

#include <bit>
#include <cstring>

#include "formats/arrays/safetensors_header.h"

namespace mantissa::onnx {
namespace {

constexpr int64_t kHeapBytes = 16;         // of a block, besides the requested bytes
constexpr size_t kInPlaceCharacters = 15;  // of a string that needs no block

}  // namespace

Result<FieldCounts> count_fields(ReadContext& context, std::span<const std::byte> message) {
  FieldCounts counts{};
  int64_t fields = 0;
  WireReader reader(message);
  WireField field;
  while (reader.next(field)) {
    ++fields;
    const uint32_t number = field.key >> 3;
    if (number < counts.size() && field.key == wire_key(number, WireType::kBytes)) {
      ++counts[number];
    }
  }
  MANTISSA_RETURN_IF_ERROR(context.budget.take_fields(fields));
  MANTISSA_RETURN_IF_ERROR(end_of(reader));
  return counts;
}

Result<std::string> read_text(ReadContext& context, const WireField& field) {
  const size_t size = field.bytes.size();
  if (size > kInPlaceCharacters) {
    MANTISSA_RETURN_IF_ERROR(context.budget.take_bytes(static_cast<int64_t>(size) + kHeapBytes));
  }
  return std::string(reinterpret_cast<const char*>(field.bytes.data()), size);
}

Status add_integers(ReadContext& context, const WireField& field, std::vector<int64_t>& numbers) {
  if ((field.key & 7) != static_cast<uint32_t>(WireType::kBytes)) {
    MANTISSA_RETURN_IF_ERROR(context.budget.take_bytes(kHeapBytes));
    numbers.push_back(static_cast<int64_t>(field.value));
    return {};
  }
  int64_t count = 0;
  for (const std::byte byte : field.bytes) count += (byte & std::byte{0x80}) == std::byte{0};
  MANTISSA_RETURN_IF_ERROR(context.budget.take_bytes(count * 8 + kHeapBytes));
  numbers.reserve(numbers.size() + static_cast<size_t>(count));
  std::span<const std::byte> left = field.bytes;
  while (!left.empty()) {
    const std::optional<uint64_t> number = take_varint(left);
    if (!number) return invalid_input("a number is cut off or has more than 64 bits");
    numbers.push_back(static_cast<int64_t>(*number));
  }
  return {};
}

float to_float(const WireField& field) {
  return std::bit_cast<float>(static_cast<uint32_t>(field.value));
}

Status add_floats(ReadContext& context, const WireField& field, std::vector<float>& numbers) {
  if ((field.key & 7) != static_cast<uint32_t>(WireType::kBytes)) {
    MANTISSA_RETURN_IF_ERROR(context.budget.take_bytes(kHeapBytes));
    numbers.push_back(to_float(field));
    return {};
  }
  const size_t size = field.bytes.size();
  if (size % sizeof(float) != 0) return invalid_input("a list of floats is cut off");
  MANTISSA_RETURN_IF_ERROR(context.budget.take_bytes(static_cast<int64_t>(size) + kHeapBytes));
  const size_t before = numbers.size();
  numbers.resize(before + size / sizeof(float));
  if (size > 0) std::memcpy(numbers.data() + before, field.bytes.data(), size);
  return {};
}

Status end_of(const WireReader& reader) {
  if (reader.fault() == nullptr) return {};
  return invalid_input(std::string("damaged, or not an ONNX file: ") + reader.fault());
}

std::string describe(const char* what, const std::string& name) {
  constexpr size_t kMost = 200;  // names of files may have any length
  return std::string(what) + " " +
         readable_name(name.size() > kMost ? name.substr(0, kMost) + "..." : name);
}

}  // namespace mantissa::onnx
