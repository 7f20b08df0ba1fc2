#include "data/datasets/readers.h"

#include <gtest/gtest.h>

#include "base/test_folder.h"

namespace mantissa {
namespace {

// So that no other data are read instead, and the error is that of the disk.
TEST(Readers, WhatCannotBeLookedAtIsTakenForThere) {
  const TestFolder folder;
  put_file(folder / "file", std::string("x"));
  EXPECT_TRUE(is_file(folder / "file"));
  EXPECT_FALSE(is_file(folder.path()));
  EXPECT_TRUE(is_folder(folder.path()));
  EXPECT_FALSE(is_folder(folder / "file"));
  EXPECT_FALSE(is_file(folder / "nothing"));
  EXPECT_FALSE(is_folder(folder / "nothing"));

  // A link to itself cannot be followed, whoever asks.
  const std::filesystem::path loop = folder / "loop";
  std::filesystem::create_symlink("loop", loop);
  EXPECT_TRUE(is_file(loop));
  EXPECT_TRUE(is_folder(loop));
  const auto data = inspect_dataset(loop, {});
  ASSERT_FALSE(data.ok());
  EXPECT_NE(data.error().message.find("Too many levels"), std::string::npos)
      << data.error().message;
}

}  // namespace
}  // namespace mantissa
