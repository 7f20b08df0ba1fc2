#include "base/sizes.h"

#include <gtest/gtest.h>

namespace mantissa {
namespace {

TEST(ParseBytes, ReadsEveryUnit) {
  EXPECT_EQ(parse_bytes("1000000B").value(), 1'000'000);
  EXPECT_EQ(parse_bytes("3KiB").value(), 3072);
  EXPECT_EQ(parse_bytes("512MiB").value(), int64_t{512} << 20);
  EXPECT_EQ(parse_bytes("2GiB").value(), int64_t{2} << 30);
  EXPECT_EQ(parse_bytes("1TiB").value(), int64_t{1} << 40);
  EXPECT_EQ(parse_bytes("1.5GiB").value(), int64_t{3} << 29);
}

TEST(ParseBytes, RefusesAnythingElse) {
  for (const char* text : {"", "B", "12", "12MB", "-1B", "0B", "0.1B", "1 GiB", "GiB", "nanB",
                           "infB", "1e30TiB", "1GiBB", "0x10B", "12MiB "}) {
    const auto bytes = parse_bytes(text);
    ASSERT_FALSE(bytes.ok()) << text;
    EXPECT_EQ(bytes.error().code, ErrorCode::kInvalidInput);
    EXPECT_NE(bytes.error().message.find("512MiB"), std::string::npos);
  }
}

TEST(OutOfMemory, NamesTheThingAndItsSize) {
  const Error error = out_of_memory("the arena", int64_t{3} << 29);
  EXPECT_EQ(error.code, ErrorCode::kFailed);
  EXPECT_EQ(error.message, "no memory for the arena: the system did not give 1.5 GiB");
}

TEST(FormatBytes, UsesTheLargestUnit) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(512), "512 B");
  EXPECT_EQ(format_bytes(1024), "1.0 KiB");
  EXPECT_EQ(format_bytes((int64_t{37} << 20) + (int64_t{1} << 18)), "37.2 MiB");
  EXPECT_EQ(format_bytes(int64_t{3} << 29), "1.5 GiB");
  EXPECT_EQ(format_bytes(int64_t{1} << 40), "1.0 TiB");
}

}  // namespace
}  // namespace mantissa
