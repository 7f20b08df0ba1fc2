#include "graph/attributes.h"

#include <gtest/gtest.h>

#include <cmath>

namespace mantissa {
namespace {

enum class Mode { kSame, kValid, kFull };

struct Settings {
  int64_t channels = 0;
  int small = 0;
  bool bias = false;
  double slope = 0;
  Mode mode = Mode::kSame;
  WholeList pads;
  double half_slope = 0;
};

void derive(Settings& settings) { settings.half_slope = settings.slope / 2; }

constexpr AttributeSpec kSpecs[] = {required_whole<&Settings::channels>("channels", 1, 64),
                                    whole<&Settings::small>("small", -3, INT32_MIN, INT32_MAX),
                                    flag<&Settings::bias>("bias", true),
                                    real<&Settings::slope>("slope", 0.01, 0, 1),
                                    text<&Settings::mode>("mode", "same", "same valid full"),
                                    whole_list<&Settings::pads>("pads", 0, 9)};
constexpr AttributeSchema kSchema = schema<Settings, derive>(kSpecs);

std::string refusal(const Attributes& given) {
  const auto completed = complete(given, kSchema);
  return completed.ok() ? "accepted" : completed.error().message;
}

TEST(Attributes, HaveTheDefaultsOfTheSchema) {
  const auto completed = complete({{"channels", 3}}, kSchema);
  ASSERT_TRUE(completed.ok());
  const auto& settings = completed->as<Settings>();
  EXPECT_EQ(settings.channels, 3);
  EXPECT_EQ(settings.small, -3);
  EXPECT_TRUE(settings.bias);
  EXPECT_EQ(settings.slope, 0.01);
  EXPECT_EQ(settings.mode, Mode::kSame);
  EXPECT_TRUE(settings.pads.empty());
  EXPECT_EQ(settings.half_slope, 0.005);
  EXPECT_EQ(*complete(*completed, kSchema), *completed);
}

TEST(Attributes, AreThoseThatWereGiven) {
  const auto completed = complete({{"pads", WholeList{1, 2}},
                                   {"mode", "full"},
                                   {"slope", 1},
                                   {"small", INT32_MIN},
                                   {"channels", 64},
                                   {"bias", 0}},
                                  kSchema);
  ASSERT_TRUE(completed.ok());
  const auto& settings = completed->as<Settings>();
  EXPECT_FALSE(settings.bias);
  EXPECT_EQ(settings.small, INT32_MIN);
  EXPECT_EQ(settings.slope, 1.0);
  EXPECT_EQ(settings.mode, Mode::kFull);
  EXPECT_EQ(settings.pads, (WholeList{1, 2}));
  EXPECT_EQ(settings.half_slope, 0.5);
}

TEST(AttributesDeathTest, AreReadAsTheirStructOnly) {
  struct Others {
    int64_t channels = 0;
  };
  const auto completed = complete({{"channels", 3}}, kSchema);
  EXPECT_TRUE(completed->has_struct_of(kSchema));
  EXPECT_DEATH(completed->as<Others>(), "");
  const Attributes given = {{"channels", 3}};
  EXPECT_FALSE(given.has_struct_of(kSchema));
  EXPECT_DEATH(given.as<Settings>(), "");
}

TEST(Attributes, ErrorsSayWhatThereIs) {
  EXPECT_EQ(refusal({}), "wants channels");
  EXPECT_EQ(refusal({{"channels", 1}, {"strid", 2}}),
            "has no attribute 'strid'; it has channels, small, bias, slope, mode, pads");
  EXPECT_EQ(refusal({{"channels", 0}}), "attribute 'channels' is 0; wants 1 to 64");
  EXPECT_EQ(refusal({{"channels", "many"}}), "attribute 'channels' is many; wants a whole number");
  EXPECT_EQ(refusal({{"channels", 1.5}}), "attribute 'channels' is 1.5; wants a whole number");
  EXPECT_EQ(refusal({{"channels", 1}, {"channels", 2}}), "attribute 'channels' is given twice");
  EXPECT_EQ(refusal({{"channels", 1}, {"bias", 2}}), "attribute 'bias' is 2; wants 0 to 1");
  EXPECT_EQ(refusal({{"channels", 1}, {"slope", std::nan("")}}),
            "attribute 'slope' is nan; wants 0 to 1");
  EXPECT_EQ(refusal({{"channels", 1}, {"mode", "sam"}}),
            "attribute 'mode' is sam; wants one of: same valid full");
  EXPECT_EQ(refusal({{"channels", 1}, {"mode", "same valid"}}),
            "attribute 'mode' is same valid; wants one of: same valid full");
  EXPECT_EQ(refusal({{"channels", 1}, {"pads", WholeList{1, 10}}}),
            "attribute 'pads' is [1, 10]; wants 0 to 9");
  const auto none = complete({{"stride", 1}}, {});
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().message, "has no attribute 'stride'; it has none");
}

TEST(Attributes, RealsAreWrittenInTheFewestDigitsThatGiveThemBack) {
  EXPECT_EQ(to_string(AttributeValue(0.1)), "0.1");
  EXPECT_EQ(to_string(AttributeValue(1.0 / 3)), "0.3333333333333333");
  EXPECT_EQ(to_string(AttributeValue(int64_t{-7})), "-7");
}

}  // namespace
}  // namespace mantissa
