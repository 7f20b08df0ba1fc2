#include "formats/tensorboard.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "base/test_folder.h"

namespace mantissa {
namespace {

std::span<const std::byte> view_bytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// RFC 3720, appendix B.4, and the usual check value.
TEST(Crc32c, KnownVectors) {
  EXPECT_EQ(crc32c(view_bytes("123456789")), 0xE3069283u);
  EXPECT_EQ(crc32c(view_bytes(std::string(32, '\0'))), 0x8A9136AAu);
  EXPECT_EQ(crc32c(view_bytes(std::string(32, '\xff'))), 0x62A8AB43u);
  std::string rising;
  for (int i = 0; i < 32; ++i) rising += static_cast<char>(i);
  EXPECT_EQ(crc32c(view_bytes(rising)), 0x46DD794Eu);
  EXPECT_EQ(crc32c({}), 0u);
}

// Bit by bit, as the polynomial says; and the mask taken off again.
uint32_t slow_crc(const std::string& text) {
  uint32_t crc = 0xFFFFFFFFu;
  for (const char c : text) {
    crc ^= static_cast<unsigned char>(c);
    for (int i = 0; i < 8; ++i) crc = (crc >> 1) ^ ((crc & 1) * 0x82F63B78u);
  }
  return ~crc;
}
uint32_t unmasked(uint32_t masked) {
  const uint32_t rotated = masked - 0xA282EAD8u;
  return rotated << 15 | rotated >> 17;
}

// A protobuf message as a reader without a schema sees it: a list of (field number, raw value).
struct Field {
  uint64_t number = 0, varint = 0;
  std::string bytes;
};
std::vector<Field> fields_of(const std::string& message) {
  std::vector<Field> fields;
  size_t at = 0;
  const auto varint = [&] {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(message.at(at++));
      value |= uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return value;
    }
  };
  while (at < message.size()) {
    const uint64_t key = varint();
    Field field;
    field.number = key >> 3;
    const int type = static_cast<int>(key & 7);
    if (type == 0) field.varint = varint();
    const size_t length = type == 1 ? 8 : type == 5 ? 4 : type == 2 ? varint() : 0;
    field.bytes = message.substr(at, length);
    EXPECT_EQ(field.bytes.size(), length);
    at += length;
    fields.push_back(std::move(field));
  }
  return fields;
}

template <typename T>
T as(const std::string& bytes) {
  T value{};
  EXPECT_EQ(bytes.size(), sizeof value);
  std::memcpy(&value, bytes.data(), std::min(bytes.size(), sizeof value));
  return value;
}

std::vector<std::string> records_of(const std::string& file) {
  std::vector<std::string> records;
  for (size_t at = 0; at < file.size();) {
    const std::string head = file.substr(at, 8);
    const auto length = as<uint64_t>(head);
    EXPECT_EQ(unmasked(as<uint32_t>(file.substr(at + 8, 4))), slow_crc(head));
    records.push_back(file.substr(at + 12, length));
    EXPECT_EQ(unmasked(as<uint32_t>(file.substr(at + 12 + length, 4))), slow_crc(records.back()));
    at += 16 + length;
  }
  return records;
}

TEST(EventFile, IsReadBackByAnotherParser) {
  const TestFolder folder;
  const auto path = folder / "events.out.tfevents.1";
  {
    auto events = EventFile::create(path, 1000.5);
    ASSERT_TRUE(events.ok());
    ASSERT_TRUE(events->write(1001.25, 300, {{"train/loss", 0.5}, {"train/accuracy", 0.875}}).ok());
    ASSERT_TRUE(events->write(1002, int64_t{1} << 40, {{std::string(200, 'x'), -2}}).ok());
  }
  const auto records = records_of(get_file(path));
  ASSERT_EQ(records.size(), 3u);
  auto fields = fields_of(records[0]);
  ASSERT_EQ(fields.size(), 2u);
  EXPECT_EQ(as<double>(fields[0].bytes), 1000.5);
  EXPECT_EQ(fields[1].number, 3u);
  EXPECT_EQ(fields[1].bytes, "brain.Event:2");

  fields = fields_of(records[1]);
  ASSERT_EQ(fields.size(), 3u);
  EXPECT_EQ(fields[1].number, 2u);
  EXPECT_EQ(fields[1].varint, 300u);
  EXPECT_EQ(fields[2].number, 5u);
  std::map<std::string, float> scalars;
  for (const Field& value : fields_of(fields[2].bytes)) {
    EXPECT_EQ(value.number, 1u);
    const auto parts = fields_of(value.bytes);
    ASSERT_EQ(parts.size(), 2u);
    EXPECT_EQ(parts[0].number, 1u);
    EXPECT_EQ(parts[1].number, 2u);
    scalars[parts[0].bytes] = as<float>(parts[1].bytes);
  }
  EXPECT_EQ(scalars,
            (std::map<std::string, float>{{"train/loss", 0.5f}, {"train/accuracy", 0.875f}}));
  EXPECT_EQ(fields_of(records[2])[1].varint, uint64_t{1} << 40);
}

TEST(EventFile, SaysWhereItCannotWrite) {
  const auto events = EventFile::create("/no/such/folder/tfevents", 0);
  ASSERT_FALSE(events.ok());
  EXPECT_NE(events.error().message.find("/no/such/folder"), std::string::npos);
}

}  // namespace
}  // namespace mantissa
