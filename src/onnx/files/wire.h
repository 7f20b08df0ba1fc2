// The wire format of protobuf, as in ONNX files: fields of a number and a value. A message is a run
// of fields inside the bytes of another message's field.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace mantissa::onnx {

enum class WireType : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

// A field's number and type in one, as in the file, for use in a switch.
constexpr uint32_t wire_key(uint32_t number, WireType type) {
  return number << 3 | static_cast<uint32_t>(type);
}

struct WireField {
  uint32_t key = 0;
  uint64_t value = 0;                // of numbers
  std::span<const std::byte> bytes;  // of kBytes, within the file
};

// Removes a varint from the front of `bytes`; nothing if it is cut off or has more than 64 bits.
std::optional<uint64_t> take_varint(std::span<const std::byte>& bytes);

// Walks over the fields of one message.
class WireReader {
 public:
  explicit WireReader(std::span<const std::byte> message) : left_(message) {}

  // The next field. False: there is none, or the message is damaged; then fault() says so.
  bool next(WireField& field);

  // Null, or a few words about the damage.
  const char* fault() const { return fault_; }

 private:
  bool read_value(WireType type, WireField& field);
  bool stop(const char* fault);

  std::span<const std::byte> left_;
  const char* fault_ = nullptr;
};

}  // namespace mantissa::onnx
