#include "run/settings/run_config.h"

#include <gtest/gtest.h>

#include "base/test_folder.h"
#include "run/settings/config_file.h"
#include "run/settings/run_network.h"

namespace mantissa {
namespace {

using Settings = std::map<std::string, std::string>;

std::string refusal(const Settings& settings, const Settings& derived = {}) {
  const auto config = make_run_config(settings, derived);
  return config.ok() ? "" : config.error().message;
}

// Settings that are written and read again.
ConfigFile round_trip(const RunConfig& config) {
  const TestFolder folder;
  const auto text = to_toml(config);
  EXPECT_TRUE(text.ok());
  put_file(folder / "config.toml", *text);
  const auto file = read_config(folder / "config.toml");
  EXPECT_TRUE(file.ok()) << file.error().message;
  return *file;
}

TEST(RunConfig, TheTableAcceptsItsDefaults) {
  for (const Setting& setting : training_settings()) {
    const std::string text = setting.default_text;
    if (text.empty() || setting.has(traits::kSwitch)) continue;
    RunConfig config;
    const Status parsed = parse_setting(setting, text, config);
    EXPECT_TRUE(parsed.ok()) << setting.name << ": " << parsed.error().message;
  }
  EXPECT_EQ(default_run_config().batch_size, 128);
  EXPECT_EQ(default_run_config().schedule, ScheduleKind::kOneCycle);
}

TEST(RunConfig, DerivesWhatNobodyChose) {
  const auto config = make_run_config({{"model", "mlp"}, {"batch-size", "24"}});
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->micro_batch_size, 24);
  EXPECT_EQ(config->derived,
            (std::vector<std::string>{"micro-batch-size", "learning-rate", "weight-decay"}));
  const auto before = make_run_config({{"learning-rate", "0"}}, {{"learning-rate", "0.5"}});
  ASSERT_TRUE(before.ok());
  EXPECT_EQ(before->learning_rate, 0.5);
  const auto chosen = make_run_config({{"learning-rate", "0.25"}}, {{"learning-rate", "0.5"}});
  ASSERT_TRUE(chosen.ok());
  EXPECT_EQ(chosen->learning_rate, 0.25);
  EXPECT_EQ(refusal({}, {{"colour", "red"}}), "[derived]: 'colour' is not derived from settings");
  EXPECT_EQ(refusal({}, {{"learning-rate", "fast"}}),
            "learning-rate: 'fast' is not a number from 0 to 1000");
}

TEST(RunConfig, OneOfEpochsAndSteps) {
  EXPECT_NE(refusal({{"epochs", "3"}, {"steps", "5"}}).find("exclude each other"),
            std::string::npos);
  EXPECT_EQ(refusal({{"epochs", "3"}, {"steps", "0"}}), "");
}

TEST(RunConfig, AFileKeepsWhatWasChosenApart) {
  const Settings settings = {
      {"model", "lenet5"}, {"learning-rate", "0.01"}, {"steps", "7"}, {"statistics", "true"}};
  const auto config = make_run_config(settings);
  ASSERT_TRUE(config.ok());
  const ConfigFile file = round_trip(*config);
  for (const auto& [name, text] : settings) EXPECT_EQ(file.settings.at(name), text) << name;
  EXPECT_FALSE(file.settings.contains("epochs"));
  EXPECT_EQ(file.derived, (Settings{{"micro-batch-size", "128"}, {"weight-decay", "5e-04"}}));
  const auto again = make_run_config(file.settings, file.derived);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(run_identity(*again, "data"), run_identity(*config, "data"));
  EXPECT_EQ(differing_settings(*again, *config), "");
  EXPECT_EQ(*to_toml(*again), *to_toml(*config));
}

TEST(RunConfig, AFileHoldsAnyTextThatIsUtf8) {
  std::string controls;
  for (char c = 1; c < 0x20; ++c) controls += c;
  for (const std::string& name : {controls, std::string("\x7f \"'\\ \"\"\" ''' # = [x]"),
                                  std::string("\xc3\xa4\xe2\x82\xac\xf0\x9f\x8c\xb2\xc2\x9b"),
                                  std::string("\r\n"), std::string("a\0b", 3)}) {
    const auto config = make_run_config({{"data", name}});
    ASSERT_TRUE(config.ok());
    EXPECT_EQ(round_trip(*config).settings.at("data"), name);
  }
  for (const char* name : {"\xff", "a\xc3", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80"}) {
    const auto config = make_run_config({{"data", name}});
    ASSERT_TRUE(config.ok());
    const auto text = to_toml(*config);
    ASSERT_FALSE(text.ok());
    EXPECT_EQ(text.error().message.find("data: '"), 0u) << text.error().message;
  }
}

TEST(RunConfig, NamesWhatDiffers) {
  const auto config = [](const Settings& settings) { return *make_run_config(settings); };
  EXPECT_EQ(differing_settings(config({}), config({{"threads", "3"},
                                                   {"memory-budget", "1GiB"},
                                                   {"hash-every", "7"},
                                                   {"format", "bfp:exponents=exact"}})),
            "");
  EXPECT_EQ(differing_settings(config({}), config({{"seed", "2"}, {"width", "0.5"}})),
            "width 1, now 0.5; seed 1, now 2");
  EXPECT_EQ(differing_settings(config({{"optimizer", "sgd"}}), config({})),
            "optimizer sgd, now momentum; momentum none, now 0.9");
}

// Nothing is ignored without a word.
TEST(RunConfig, SettingsOfOtherDataAreErrors) {
  const DatasetInfo pictures{.name = "p",
                             .specs = {{kPixelTensor, DataType::kUint8, Shape{28, 28, 1}}}};
  const DatasetInfo text{.name = "t.txt", .specs = {}, .target = {.kind = TargetKind::kTokens}};
  DatasetInfo table{.name = "t.csv", .specs = {}};
  table.table.emplace();
  const auto error = [](const std::string& name, const std::string& value,
                        const DatasetInfo& data) {
    const auto config = make_run_config({{"model", "mlp"}, {"out", "o"}, {name, value}});
    EXPECT_TRUE(config.ok()) << config.error().message;
    const Status fits = check_settings_of_data(*config, data);
    return fits.ok() ? "" : fits.error().message;
  };
  EXPECT_EQ(error("augment", "flip", pictures), "");
  EXPECT_EQ(error("augment", "flip", table), "augment: is for pictures, and t.csv is a table");
  EXPECT_EQ(error("augment", "flip", text), "augment: is for pictures, and t.txt is a text");
  EXPECT_EQ(error("target", "x", pictures), "target: is for tables, and p has pictures");
  EXPECT_EQ(error("target", "x", table), "");
  EXPECT_EQ(error("classes", "12", table), "");
  EXPECT_EQ(error("classes", "12", text), "classes: is for data with classes, and t.txt is a text");
  EXPECT_EQ(error("seed", "7", text), "");
  DatasetInfo arrays{.name = "a.npz", .specs = {}};
  arrays.table.emplace().shape = Shape{24, 3};
  for (const char* name : {"target", "ignore", "missing"}) {
    EXPECT_NE(error(name, "7", arrays).find(std::string(name) + ": is for tables, and a.npz has "
                                            "arrays"),
              std::string::npos);
  }
  EXPECT_NE(error("missing", "-999", arrays).find("there NaN stands for a missing number"),
            std::string::npos);
  EXPECT_EQ(error("task", "regression", arrays), "");
  EXPECT_EQ(error("channels", "first", arrays), "");
  EXPECT_EQ(error("channels", "first", table),
            "channels: is for arrays of positions or pictures of numbers, and t.csv is a table");
}

// Settings that do not go with a class for each place.
TEST(RunConfig, SettingsOfOnePlaceAreErrors) {
  const auto error = [](const std::string& name, const std::string& value, const Shape& labels) {
    const DatasetInfo data{.name = "p",
                           .specs = {{kPixelTensor, DataType::kUint8, Shape{12, 8, 1}},
                                     {kLabelTensor, DataType::kInt32, labels}}};
    const auto config = make_run_config({{"model", "mlp"}, {"out", "o"}, {name, value}});
    EXPECT_TRUE(config.ok()) << config.error().message;
    const Status fits = check_settings_of_data(*config, data);
    return fits.ok() ? "" : fits.error().message;
  };
  for (const char* moves : {"flip", "shift", "crop=2,jitter"}) {
    EXPECT_EQ(error("augment", moves, Shape{12, 8}), "");
    EXPECT_NE(error("augment", moves, Shape{6, 4}).find("augment: flip, shift and crop move the "
                                                        "pixels [12, 8, 1] of 'pixels', and p has "
                                                        "a class for each of the places [6, 4]"),
              std::string::npos);
    EXPECT_EQ(error("augment", moves, Shape{}), "");
  }
  EXPECT_EQ(error("augment", "jitter,cutout", Shape{6, 4}), "");
}

}  // namespace
}  // namespace mantissa
