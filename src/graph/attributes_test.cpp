#include "graph/attributes.h"

#include <gtest/gtest.h>

#include <cmath>

namespace mantissa {
namespace {

constexpr AttributeSpec kSchema[] = {required_whole("channels", 1, 64), flag("bias", true),
                                     real("slope", 0.01, 0, 1), text("mode", "same", "same valid"),
                                     whole_list("pads", 0, 9)};

std::string refusal(const Attributes& given) {
  const auto completed = complete(given, kSchema);
  return completed.ok() ? "accepted" : completed.error().message;
}

TEST(Attributes, HaveTheDefaultsOfTheSchema) {
  const auto completed = complete({{"channels", 3}}, kSchema);
  ASSERT_TRUE(completed.ok());
  EXPECT_EQ(completed->whole("channels"), 3);
  EXPECT_TRUE(completed->is_set("bias"));
  EXPECT_EQ(completed->real("slope"), 0.01);
  EXPECT_EQ(completed->text("mode"), "same");
  EXPECT_TRUE(completed->list("pads").empty());
  EXPECT_EQ(*complete(*completed, kSchema), *completed);
}

TEST(Attributes, AreThoseThatWereGiven) {
  const auto completed = complete(
      {{"pads", WholeList{1, 2}}, {"mode", "valid"}, {"slope", 1}, {"channels", 64}, {"bias", 0}},
      kSchema);
  ASSERT_TRUE(completed.ok());
  EXPECT_FALSE(completed->is_set("bias"));
  EXPECT_EQ(completed->real("slope"), 1.0);
  EXPECT_EQ(completed->text("mode"), "valid");
  EXPECT_EQ(completed->list("pads"), (WholeList{1, 2}));
}

TEST(Attributes, ErrorsSayWhatThereIs) {
  EXPECT_EQ(refusal({}), "wants channels");
  EXPECT_EQ(refusal({{"channels", 1}, {"strid", 2}}),
            "has no attribute 'strid'; it has channels, bias, slope, mode, pads");
  EXPECT_EQ(refusal({{"channels", 0}}), "attribute 'channels' is 0; wants 1 to 64");
  EXPECT_EQ(refusal({{"channels", "many"}}), "attribute 'channels' is many; wants a whole number");
  EXPECT_EQ(refusal({{"channels", 1.5}}), "attribute 'channels' is 1.5; wants a whole number");
  EXPECT_EQ(refusal({{"channels", 1}, {"channels", 2}}), "attribute 'channels' is given twice");
  EXPECT_EQ(refusal({{"channels", 1}, {"bias", 2}}), "attribute 'bias' is 2; wants 0 to 1");
  EXPECT_EQ(refusal({{"channels", 1}, {"slope", std::nan("")}}),
            "attribute 'slope' is nan; wants 0 to 1");
  EXPECT_EQ(refusal({{"channels", 1}, {"mode", "sam"}}),
            "attribute 'mode' is sam; wants one of: same valid");
  EXPECT_EQ(refusal({{"channels", 1}, {"mode", "same valid"}}),
            "attribute 'mode' is same valid; wants one of: same valid");
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
