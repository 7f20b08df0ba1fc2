#include "formats/tensorboard.h"

#include <array>
#include <bit>
#include <cstring>

namespace mantissa {
namespace {

constexpr std::array<uint32_t, 256> kTable = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0);
    table[byte] = crc;
  }
  return table;
}();

// Field numbers of tensorflow.Event, Summary and Summary.Value, with their wire types.
constexpr char kEventWallTime = 1 << 3 | 1;     // double
constexpr char kEventStep = 2 << 3 | 0;         // varint
constexpr char kEventFileVersion = 3 << 3 | 2;  // text
constexpr char kEventSummary = 5 << 3 | 2;      // message
constexpr char kSummaryValue = 1 << 3 | 2;      // message
constexpr char kValueTag = 1 << 3 | 2;          // text
constexpr char kValueSimpleValue = 2 << 3 | 5;  // float

template <typename T>
std::string little_endian(T value) {
  static_assert(std::endian::native == std::endian::little);
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}

std::string with_length(char field, std::string_view content) {
  return field + varint(content.size()) + std::string(content);
}

std::string wall_time_field(double seconds) { return kEventWallTime + little_endian(seconds); }

}  // namespace

uint32_t crc32c(std::span<const std::byte> bytes) {
  uint32_t crc = ~0u;
  for (const std::byte byte : bytes) {
    crc = crc >> 8 ^ kTable[(crc ^ std::to_integer<uint32_t>(byte)) & 0xFF];
  }
  return ~crc;
}

uint32_t masked_crc32c(std::span<const std::byte> bytes) {
  return std::rotr(crc32c(bytes), 15) + 0xA282EAD8u;
}

Result<EventFile> EventFile::create(const std::filesystem::path& path, double wall_time) {
  MANTISSA_ASSIGN(OutputFile file, OutputFile::open(path, 0));
  EventFile events(std::move(file));
  MANTISSA_RETURN_IF_ERROR(events.write_record(wall_time_field(wall_time) +
                                               with_length(kEventFileVersion, "brain.Event:2")));
  return events;
}

Status EventFile::write(double wall_time, int64_t step, const Scalars& scalars) {
  std::string summary;
  for (const auto& [name, value] : scalars) {
    summary += with_length(kSummaryValue, with_length(kValueTag, name) + kValueSimpleValue +
                                              little_endian(static_cast<float>(value)));
  }
  return write_record(wall_time_field(wall_time) + kEventStep +
                      varint(static_cast<uint64_t>(step)) + with_length(kEventSummary, summary));
}

Status EventFile::write_record(std::string_view event) {
  const std::string length = little_endian(uint64_t{event.size()});
  const auto crc = [](std::string_view text) {
    return little_endian(masked_crc32c(std::as_bytes(std::span(text))));
  };
  return file_.write(length + crc(length) + std::string(event) + crc(event));
}

}  // namespace mantissa
