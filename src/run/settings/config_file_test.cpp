#include "run/settings/config_file.h"

#include <gtest/gtest.h>

#include <string>

#include "base/test_folder.h"

namespace mantissa {
namespace {

class ConfigFileTest : public testing::Test {
 protected:
  Result<std::map<std::string, std::string>> read(const std::string& text) {
    put_file(folder_ / "run.toml", text);
    MANTISSA_ASSIGN(const ConfigFile file, read_config(folder_ / "run.toml"));
    return file.all();
  }

  // The error, which must name the file and be short enough to read.
  std::string refusal(const std::string& text) {
    const auto settings = read(text);
    if (settings.ok()) return "accepted";
    EXPECT_NE(settings.error().message.find("run.toml"), std::string::npos);
    EXPECT_LT(settings.error().message.size(), 600u);
    return settings.error().message;
  }

  TestFolder folder_;
};

std::string repeated(const std::string& text, int count) {
  std::string result;
  for (int i = 0; i < count; ++i) result += text;
  return result;
}

TEST_F(ConfigFileTest, GivesSettingsAsText) {
  const auto settings =
      read("model = 'mlp'  # of 3 layers\nseed = 7\nwidth = 0.25\nresume = true\n");
  ASSERT_TRUE(settings.ok()) << settings.error().message;
  EXPECT_EQ(*settings,
            (std::map<std::string, std::string>{
                {"model", "mlp"}, {"resume", "true"}, {"seed", "7"}, {"width", "0.25"}}));
}

TEST_F(ConfigFileTest, IsFlat) {
  EXPECT_NE(refusal("a.b = 1\n").find("'a' is neither text, a number nor"), std::string::npos);
  EXPECT_NE(refusal("[a]\nb = 1\n").find("'a' is neither"), std::string::npos);
  EXPECT_NE(refusal("a = [1]\n").find("'a' is neither"), std::string::npos);
  EXPECT_NE(refusal("a = [\n").find("line"), std::string::npos);
}

// Nested values are counted before recursion reads them.
TEST_F(ConfigFileTest, RefusesWhatNestsDeeply) {
  for (const std::string& text :
       {"a" + repeated(".a", 50'000) + " = 1\n", "[a" + repeated(".a", 50'000) + "]\n",
        "[[a" + repeated(".a", 50'000) + "]]\n", "a = {b" + repeated(".a", 50'000) + " = 1}\n",
        "a = " + repeated("[", 50'000) + repeated("]", 50'000) + "\n",
        repeated("[a" + repeated(".a", 1000) + "]\n", 50)}) {
    EXPECT_NE(refusal(text).find("more than 4096 dots and brackets"), std::string::npos);
  }
  // Just within the limit it is read, and refused for what it is.
  EXPECT_NE(refusal("a" + repeated(".a", 4096) + " = 1\n").find("is neither"), std::string::npos);
}

TEST_F(ConfigFileTest, RefusesTooManySettingsAndLongNames) {
  std::string many;
  for (int i = 0; i < 1001; ++i) many += "a" + std::to_string(i) + " = 1\n";
  EXPECT_NE(refusal(many).find("1001 settings"), std::string::npos);
  EXPECT_NE(refusal(std::string(500'000, 'a') + " = 1\n").find("500000 bytes"), std::string::npos);
  const std::string twice = std::string(400'000, 'a') + " = 1\n";
  EXPECT_NE(refusal(twice + twice), "accepted");
}

}  // namespace
}  // namespace mantissa
