#include "data/datasets/one_against_others.h"

#include <gtest/gtest.h>

namespace mantissa {
namespace {

TEST(OneAgainstOthers, AClassIsNamedOrNumbered) {
  const std::vector<std::string> names = {"cat", "2", "dog"};
  EXPECT_EQ(positive_class(names, "dog"), 2);
  EXPECT_EQ(positive_class(names, "2"), 1) << "a name goes before a number";
  EXPECT_EQ(positive_class(names, "0"), 0);
  for (const char* other : {"3", "-1", "", "1x", "99999999999999999999"}) {
    EXPECT_FALSE(positive_class(names, other)) << other;
  }
}

DatasetInfo pets() {
  return {.name = "pets", .specs = {}, .target = {.classes = 3, .names = {"cat", "cow", "dog"}}};
}

TEST(OneAgainstOthers, MakesTwoClasses) {
  DatasetInfo info = pets();
  ASSERT_TRUE(take_positive({.positive = "cow"}, info).ok());
  EXPECT_EQ(info.target.names, (std::vector<std::string>{"not cow", "cow"}));
  EXPECT_EQ(info.target.classes, 2);
  EXPECT_EQ(info.notes, std::vector<std::string>{"the class cow is taken against the other 2"});
  ExampleSet set = picture_set({}, {}, {0, 1, 2, 1});
  relabel(1, set);
  EXPECT_EQ(set.labels(), (std::vector<Label>{0, 1, 0, 1}));
}

TEST(OneAgainstOthers, SaysWhatCannotBe) {
  DatasetInfo info = pets();
  EXPECT_EQ(take_positive({.positive = "hen"}, info).error().message,
            "positive: 'hen' is no class of pets; it has cat, cow, dog");
  EXPECT_EQ(take_positive({.classes = 5, .positive = "cow"}, info).error().message,
            "positive: makes two classes; leave out classes");
  info.table.emplace();
  EXPECT_EQ(take_positive({.positive = "cow"}, info).error().message,
            "positive: is for pictures, and pets is a table: let its target have two values");
}

}  // namespace
}  // namespace mantissa
