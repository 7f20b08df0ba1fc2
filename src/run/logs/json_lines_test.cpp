#include "run/logs/json_lines.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/test_folder.h"

namespace mantissa {
namespace {

std::string line(int64_t step) { return "{\"step\":" + std::to_string(step) + "}\n"; }

class JsonLinesTest : public ::testing::Test {
 protected:
  // Opens a file of that text at step `last_step` of a run that writes a line every 10 steps.
  Result<JsonLines> open(const std::string& text, int64_t last_step) {
    put_file(path_, text);
    return JsonLines::open(path_, last_step, 10);
  }

  // The text that is left of it.
  std::string kept(const std::string& text, int64_t last_step) {
    const auto lines = open(text, last_step);
    EXPECT_TRUE(lines.ok());
    EXPECT_TRUE(!lines.ok() || lines->gap().empty()) << lines->gap();
    return get_file(path_);
  }

  TestFolder folder_;
  std::filesystem::path path_ = folder_ / "log.jsonl";
};

TEST_F(JsonLinesTest, CutsBackAndGoesOn) {
  const std::string whole = line(10) + line(20);
  EXPECT_EQ(kept(whole + line(30) + line(40), 29), whole);
  EXPECT_EQ(kept(whole + "{\"step\":2", 29), whole);
  EXPECT_EQ(kept(whole + "{}\n" + line(40) + std::string(100, '\0'), 29), whole);
  EXPECT_EQ(kept("", 0), "");
  auto lines = open(whole + line(30), 25);
  ASSERT_TRUE(lines.ok());
  EXPECT_EQ(lines->first() + "\n", line(10));
  EXPECT_EQ(lines->last() + "\n", line(20));
  EXPECT_TRUE(lines->write({{"step", 30}}).ok());
  EXPECT_TRUE(lines->flush().ok());
  EXPECT_EQ(get_file(path_), whole + line(30));
}

TEST_F(JsonLinesTest, SaysWhereLinesAreMissing) {
  const std::vector<std::pair<std::string, int64_t>> cases = {{line(10) + line(20), 30},
                                                              {line(10) + line(20), 99},
                                                              {"", 10},
                                                              {line(10) + "{\"step\":2", 20}};
  for (const auto& [text, last_step] : cases) {
    const auto lines = open(text, last_step);
    ASSERT_TRUE(lines.ok());
    EXPECT_NE(lines->gap().find("step " + std::to_string(last_step)), std::string::npos) << text;
  }
}

// Cutting there would delete lines that an interrupted write cannot have damaged.
TEST_F(JsonLinesTest, DamageWithGoodLinesBehindIsAnErrorAndNothingIsCut) {
  for (const std::string& bad :
       {std::string("{\"st\n"), std::string(20, '\0').append("\n"), line(99)}) {
    const std::string text = line(10) + bad + line(20);
    const auto lines = open(text, 25);
    ASSERT_FALSE(lines.ok()) << bad;
    EXPECT_NE(lines.error().message.find("line 2"), std::string::npos) << lines.error().message;
    EXPECT_EQ(get_file(path_), text);
  }
}

TEST_F(JsonLinesTest, WhatCannotBeReadIsNotBegunAnew) {
  std::filesystem::create_symlink("log.jsonl", path_);
  EXPECT_FALSE(JsonLines::open(path_, 0, 10).ok());
  std::filesystem::remove(path_);
  std::filesystem::create_directory(path_);
  EXPECT_FALSE(JsonLines::open(path_, 0, 10).ok());
}

}  // namespace
}  // namespace mantissa
