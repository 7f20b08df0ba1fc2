#include "base/base64.h"

#include <gtest/gtest.h>

namespace mantissa {
namespace {

std::string encoded(std::string_view bytes) { return to_base64(std::as_bytes(std::span(bytes))); }

TEST(Base64, IsThatOfTheStandard) {
  EXPECT_EQ(encoded(""), "");
  EXPECT_EQ(encoded("f"), "Zg==");
  EXPECT_EQ(encoded("fo"), "Zm8=");
  EXPECT_EQ(encoded("foo"), "Zm9v");
  EXPECT_EQ(encoded("foobar"), "Zm9vYmFy");
  EXPECT_EQ(encoded("\xff\xfe\xfb"), "//77");
}

TEST(Base64, ComesBack) {
  std::string bytes;
  for (int i = 0; i < 700; ++i) {
    EXPECT_EQ(from_base64(encoded(bytes)), bytes);
    bytes += static_cast<char>(i * 37);
  }
}

TEST(Base64, RefusesOtherText) {
  for (const char* text : {"Zg=", "Zg", "Zm9v\n", "Z=9v", "Zh==", "Zm9=", "====", "Zm9-", "Z==="}) {
    EXPECT_EQ(from_base64(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace mantissa
