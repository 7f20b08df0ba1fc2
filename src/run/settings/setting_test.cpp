#include "run/settings/setting.h"

#include <gtest/gtest.h>

namespace mantissa {
namespace {

using Texts = std::map<std::string, std::string>;

struct Size {
  int64_t height = 0;
};
struct Config {
  Size size;
  std::string name;
  bool is_grey = false;
  int threads = 0;
};

Status parse_name(const std::string&, const std::string& text, Config& config) {
  if (text.empty()) return invalid_input("has no letters");
  config.name = text;
  return {};
}

constexpr SettingOf<Config> kRows[] = {
    {"height", "in pixels", "28", parse_whole<1, 64, &Config::size, &Size::height>,
     traits::kIdentity, print_unless<1, &Config::size, &Size::height>},
    {"name", "of the data", "digits", parse_name, 0, print_text<&Config::name>},
    {"grey", "without colours", "true", parse_switch<&Config::is_grey>, traits::kSwitch},
    {"threads", "0: all", "0", parse_threads<&Config::threads>},
    {"seed", "read elsewhere", "1"}};

TEST(Setting, DefaultsAreThoseOfTheTable) {
  const auto config = default_config<Config>(kRows);
  EXPECT_EQ(config.size.height, 28);
  EXPECT_EQ(config.name, "digits");
  EXPECT_FALSE(config.is_grey) << "a switch is off until it is given";
  EXPECT_EQ(config.threads, processors());
}

TEST(Setting, TakesWhatItsRowsReadAndLeavesTheRest) {
  Config config;
  Texts settings = {{"height", "32"}, {"grey", "true"}, {"seed", "7"}, {"colour", "red"}};
  ASSERT_TRUE(take_settings<Config>(kRows, settings, config).ok());
  EXPECT_EQ(config.size.height, 32);
  EXPECT_TRUE(config.is_grey);
  EXPECT_EQ(settings, (Texts{{"seed", "7"}, {"colour", "red"}}));
}

TEST(Setting, ErrorsNameTheSettingOnce) {
  const auto refusal = [](const std::string& name, const std::string& text) {
    Config config;
    Texts settings = {{name, text}};
    return take_settings<Config>(kRows, settings, config).error().message;
  };
  EXPECT_EQ(refusal("height", "65"), "height: '65' is not a whole number from 1 to 64");
  EXPECT_EQ(refusal("name", ""), "name: has no letters");
  EXPECT_EQ(refusal("grey", "yes"), "grey: 'yes' is neither true nor false");
  EXPECT_EQ(refusal("threads", "-1"), "threads: '-1' is not a whole number from 0 to 256");
}

TEST(Setting, PrintsValuesThatMeanSomething) {
  Config config = default_config<Config>(kRows);
  EXPECT_EQ(kRows[0].text(config), "28");
  config.size.height = 1;
  EXPECT_EQ(kRows[0].text(config), "");
  EXPECT_EQ(kRows[3].text(config), "") << "no file has it";
}

}  // namespace
}  // namespace mantissa
