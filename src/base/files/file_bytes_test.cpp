#include "base/files/file_bytes.h"

#include <gtest/gtest.h>

#include <string>

#include "base/test_folder.h"

namespace mantissa {
namespace {

TEST(FileBytes, AFileThatWasCutShortIsAnError) {
  const TestFolder folder;
  put_file(folder / "data", std::string(3 << 20, 'x'));
  const auto file = FileBytes::open_inside(folder.path(), "data");
  ASSERT_TRUE(file.ok()) << file.error().message;
  const auto first = (*file)->part(0, 100);
  ASSERT_TRUE(first.ok()) << first.error().message;
  std::filesystem::resize_file(folder / "data", 200);
  EXPECT_EQ((*first)[99], std::byte{'x'});
  EXPECT_TRUE((*file)->part(1000, 1000).ok());  // was read with the first
  const auto last = (*file)->part((3 << 20) - 8, 8);
  ASSERT_FALSE(last.ok());
  EXPECT_NE(last.error().message.find("was cut short while it was read: "), std::string::npos)
      << last.error().message;
}

TEST(FileBytes, AFileMayBeEmpty) {
  const TestFolder folder;
  put_file(folder / "empty", std::string());
  const auto file = FileBytes::read(folder / "empty", 100);
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_TRUE((*file)->bytes().empty());
  EXPECT_FALSE(FileBytes::read(folder.path(), 100).ok());
  put_file(folder / "more", std::string(101, 'x'));
  EXPECT_FALSE(FileBytes::read(folder / "more", 100).ok());
}

}  // namespace
}  // namespace mantissa
