#include "run/settings/profile_file.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/test_folder.h"

namespace mantissa {
namespace {

class ProfileFile : public ::testing::Test {
 protected:
  std::filesystem::path write(const std::string& text) const {
    std::ofstream(path_) << text;
    return path_;
  }
  const TestFolder folder_;
  const std::filesystem::path path_ = folder_ / "profile.toml";
};

TEST_F(ProfileFile, ReadsWhatItWrites) {
  MachineProfile profile;
  profile.tiers = {{{1000, 7.25}, {123456789, 3.5}, {INT64_MAX, 0.125}}};
  profile.on_chip = {65536, 1.5};
  profile.dense_macs_per_ns = 1e-3;
  profile.depthwise_macs_per_ns = 2;
  profile.wide_macs_per_ns = 3;
  profile.float_macs_per_ns = 4;
  profile.elements_per_ns = 5.5;
  const auto read = read_profile(write(to_toml(profile)));
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(to_toml(*read), to_toml(profile));
  EXPECT_EQ(read->tiers[1].bytes, 123456789);
  EXPECT_EQ(read->tiers[2].bytes, INT64_MAX);
  EXPECT_EQ(read->elements_per_ns, 5.5);
  EXPECT_EQ(read->on_chip.bytes, 65536);
  EXPECT_EQ(read->on_chip.bytes_per_ns, 1.5);
  EXPECT_NE(to_toml(*read), to_toml(MachineProfile{}));
}

TEST_F(ProfileFile, WhatIsLeftOutIsAsBuiltIn) {
  const auto read = read_profile(write("elements_per_ns = 9\n"));
  ASSERT_TRUE(read.ok());
  MachineProfile expected;
  expected.elements_per_ns = 9;
  EXPECT_EQ(to_toml(*read), to_toml(expected));
  EXPECT_EQ(read_profile(write("on_chip_bytes = 0\n"))->on_chip.bytes, 0);
  EXPECT_EQ(to_toml(*find_profile("builtin")), to_toml(MachineProfile{}));
}

TEST_F(ProfileFile, RefusesWhatCannotBe) {
  for (const char* text : {"elements_per_ns = 0", "on_chip_bytes = -1", "elements_per_ns = -1",
                           "elements_per_ns = nan", "elements_per_ns = 1e99",
                           "elements_per_ns = \"fast\"", "speed = 1", "elements_per_ns"}) {
    const auto read = read_profile(write(text));
    ASSERT_FALSE(read.ok()) << text;
    EXPECT_NE(read.error().message.find(path_.string()), std::string::npos) << text;
  }
  EXPECT_FALSE(find_profile("/nowhere/profile.toml").ok());
}

}  // namespace
}  // namespace mantissa
