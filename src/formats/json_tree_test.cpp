#include "formats/json_tree.h"

#include <gtest/gtest.h>

#include <string>

#include "formats/json_text.h"

namespace mantissa {
namespace {

std::string error_of(std::string_view text, int64_t most_values = 1000) {
  const auto tree = parse_json_tree(text, most_values);
  return tree.ok() ? "accepted" : tree.error().message;
}

TEST(JsonTree, KnowsKindsAndLines) {
  const auto tree = parse_json_tree(
      "{\"a\": 1,\n \"b\": [true, null,\n  -2.5e-1\n ],\n\n \"c\": {\"d\":\n\"x\\ny\"}, "
      "\"e\":\n7\n}",
      1000);
  ASSERT_TRUE(tree.ok()) << tree.error().message;
  EXPECT_EQ(tree->kind, JsonTree::Kind::kObject);
  EXPECT_EQ(tree->keys, (std::vector<std::string>{"a", "b", "c", "e"}));
  EXPECT_EQ(std::get<int64_t>(tree->find("a")->scalar), 1);
  EXPECT_EQ(tree->find("a")->line, 1);
  const JsonTree& list = *tree->find("b");
  ASSERT_EQ(list.items.size(), 3u);
  EXPECT_EQ(list.line, 2);
  EXPECT_EQ(std::get<bool>(list.items[0].scalar), true);
  EXPECT_EQ(list.items[1].kind, JsonTree::Kind::kNull);
  EXPECT_EQ(std::get<double>(list.items[2].scalar), -0.25);
  EXPECT_EQ(list.items[2].line, 3);
  EXPECT_EQ(tree->find("c")->line, 6);
  EXPECT_EQ(std::get<std::string>(tree->find("c")->find("d")->scalar), "x\ny");
  EXPECT_EQ(tree->find("c")->find("d")->line, 7);
  EXPECT_EQ(tree->find("e")->line, 8);
  EXPECT_EQ(tree->find("f"), nullptr);
}

TEST(JsonTree, ErrorsHaveTheirLine) {
  EXPECT_EQ(error_of("{\n\"a\": 1\n\"b\": 2}").substr(0, 24), "line 3: is not JSON: une");
  EXPECT_EQ(error_of("").substr(0, 20), "line 1: is not JSON:");
  EXPECT_EQ(error_of(std::string_view()).substr(0, 20), "line 1: is not JSON:");
  EXPECT_EQ(error_of("[1]\n x").substr(0, 20), "line 2: is not JSON:");
  EXPECT_EQ(error_of("[1,\n\n1e999]").substr(0, 20), "line 3: is not JSON:");
  EXPECT_EQ(error_of("\"\xff\"").substr(0, 20), "line 1: is not JSON:");
  EXPECT_EQ(error_of(std::string("[1]\n\0", 5)), "line 2: is not JSON: a zero byte");
  EXPECT_EQ(error_of("{\"a\":1,\n\"a\":2}"), "line 2: \"a\" stands twice in one object");
  EXPECT_EQ(error_of("[\n9223372036854775808]"),
            "line 2: 9223372036854775808 is too large; at most 2^63 - 1 fits");
  EXPECT_EQ(error_of("[1, 2, 3]", 4), "accepted");
  EXPECT_EQ(error_of("[1, 2, 3]", 3), "line 1: too many values");
}

TEST(JsonTree, RefusesDepthAndManyEntries) {
  std::string deep(2'000'000, '[');
  EXPECT_EQ(error_of(deep), "line 1: nests deeper than 32 lists and objects");
  EXPECT_EQ(error_of(std::string(kMostJsonDepth, '[') + std::string(kMostJsonDepth, ']')),
            "accepted");
  std::string wide = "{\"a\":0";
  for (int i = 0; i < kMostJsonEntries; ++i) {
    wide.append(",\"").append(std::to_string(i)).append("\":0");
  }
  EXPECT_EQ(error_of(wide + "}", 1 << 20), "line 1: an object has more than 1000 entries");
}

}  // namespace
}  // namespace mantissa
