#include "formats/json_text.h"

#include <gtest/gtest.h>

#include <string>

namespace mantissa {
namespace {

std::string repeated(const std::string& text, int count) {
  std::string result;
  for (int i = 0; i < count; ++i) result += text;
  return result;
}

std::string nested(const std::string& open, const std::string& close, int depth) {
  return repeated(open, depth) + "1" + repeated(close, depth);
}

TEST(JsonText, ParsesWhatIsWithinTheLimits) {
  EXPECT_EQ(parse_json(R"({"a":[1,{"b":"x"}]})")["a"][1]["b"], "x");
  EXPECT_TRUE(parse_json("{").is_discarded());
  EXPECT_TRUE(parse_json("").is_discarded());
  EXPECT_TRUE(parse_json(nested("[", "]", kMostJsonDepth)).is_array());
  EXPECT_TRUE(parse_json(nested("{\"a\":", "}", kMostJsonDepth)).is_object());
  EXPECT_TRUE(parse_json("[" + repeated("[],", 100) + "[]]").is_array());
}

TEST(JsonText, RefusesDepth) {
  for (const int depth : {kMostJsonDepth + 1, 100'000}) {
    EXPECT_TRUE(parse_json(nested("[", "]", depth)).is_discarded());
    EXPECT_TRUE(parse_json(nested("{\"a\":", "}", depth)).is_discarded());
    EXPECT_TRUE(
        parse_json<nlohmann::ordered_json>(nested("[{\"a\":", "}]", depth)).is_discarded());
  }
}

TEST(JsonText, CountsNothingWithinStrings) {
  const std::string text = "{\"" + repeated("[{,\\\"", 2000) + "\":\"" + repeated("[{,\\\\", 2000) +
                           "\"}";
  EXPECT_TRUE(parse_json(text).is_object());
  EXPECT_TRUE(parse_json("{\"a\\\"\":" + nested("[", "]", 100'000) + "}").is_discarded());
}

TEST(JsonText, LimitsEntriesOfObjectsAndNotOfLists) {
  const auto object = [](int64_t entries) {
    std::string text;
    for (int64_t i = 0; i < entries; ++i) {
      text += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":[1,2]";
    }
    return "{" + text + "}";
  };
  EXPECT_EQ(parse_json(object(kMostJsonEntries)).size(), kMostJsonEntries);
  EXPECT_TRUE(parse_json(object(kMostJsonEntries + 1)).is_discarded());
  EXPECT_TRUE(parse_json<nlohmann::ordered_json>(object(200'000)).is_discarded());
  EXPECT_EQ(parse_json("[" + repeated("1,", 100'000) + "1]").size(), 100'001);
}

}  // namespace
}  // namespace mantissa
