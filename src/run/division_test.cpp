#include "run/division.h"

#include <gtest/gtest.h>

#include "base/test_folder.h"

namespace mantissa {
namespace {

std::string text_of(const Result<std::vector<std::string>>& names) {
  return names.ok() ? division_text(*names) : names.error().message;
}

TEST(Division, OfTextsAndFiles) {
  EXPECT_EQ(text_of(parse_division(R"(["a", "b.c"])")), R"(["a","b.c"])");
  for (const char* bad : {"", "[]", "[1]", R"(["a", 1])", R"({"a": 1})", "[\"a\""}) {
    EXPECT_NE(text_of(parse_division(bad)).find("is no list"), std::string::npos) << bad;
  }
  const TestFolder folder;
  const auto of_file = [&](const std::string& text) {
    put_file(folder / "d.json", text);
    return text_of(read_division(folder / "d.json"));
  };
  EXPECT_EQ(of_file(R"({"stages": ["a", "b"]})"), R"(["a","b"])");
  EXPECT_NE(of_file(R"(["a", "b"])").find("d.json: is not {\"stages\""), std::string::npos);
  EXPECT_NE(of_file(R"({"stages": 3})").find("d.json: \"stages\" is no list"), std::string::npos);
  EXPECT_NE(of_file(R"({"stages": ["a"], "more": 1})").find("is not"), std::string::npos);
}

// Layers a, b (with its batch norm b_norm), c.
class FirstLayers : public ::testing::Test {
 protected:
  FirstLayers() {
    for (const char* name : {"a", "b", "b_norm", "c"}) {
      graph_.nodes.emplace_back();
      graph_.nodes.back().name = name;
    }
    layers_.layers = {{.name = "a"}, {.name = "b"}, {.name = "c"}};
    layers_.first_node = {0, 1, 3};
  }

  std::string error(const std::vector<std::string>& names) const {
    const auto first = find_first_layers(graph_, layers_, names);
    return first.ok() ? "" : first.error().message;
  }

  Graph graph_;
  StageLayers layers_;
};

TEST_F(FirstLayers, AreFound) {
  EXPECT_EQ(*find_first_layers(graph_, layers_, {"a", "c"}), (std::vector<int>{0, 2}));
  EXPECT_EQ(*find_first_layers(graph_, layers_, {"a", "b", "c"}), (std::vector<int>{0, 1, 2}));
}

TEST_F(FirstLayers, ErrorsNameTheLayer) {
  EXPECT_EQ(error({"b", "c"}), "stage 1 begins with 'b': 'a' before it has no stage");
  EXPECT_EQ(error({"a", "c", "b"}), "'b' of stage 3 comes before 'c' of stage 2 in the network");
  EXPECT_EQ(error({"a", "b", "b"}), "stage 2 has no layer: stage 3 begins with 'b', too");
  EXPECT_EQ(error({"a", "b_norm"}), "'b_norm' cannot begin stage 2: it stays with 'b' before it");
  EXPECT_NE(error({"a", "d"}).find("'d', which is to begin stage 2, is no layer"),
            std::string::npos);
}

}  // namespace
}  // namespace mantissa
