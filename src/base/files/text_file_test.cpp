#include "base/files/text_file.h"

#include <gtest/gtest.h>

#include "base/files/atomic_file.h"
#include "base/files/file_bytes.h"
#include "base/test_folder.h"

namespace mantissa {
namespace {

TEST(TextFile, HasNoByteOrderMark) {
  const TestFolder folder;
  put_file(folder / "a.txt", std::string("\xef\xbb\xbf"
                                         "a\xef\xbb\xbf"));
  EXPECT_EQ(*read_text_file(folder / "a.txt", 100), "a\xef\xbb\xbf");
  put_file(folder / "a.txt", std::string("\xef\xbb"));
  EXPECT_EQ(*read_text_file(folder / "a.txt", 100), "\xef\xbb");
}

TEST(TextFile, PointersOfGitLfsAreNoFiles) {
  const TestFolder folder;
  const std::string text = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n";
  put_file(folder / "a", text);
  constexpr const char* kName =
      "is a pointer of Git LFS to a file that was not fetched: git lfs pull";
  EXPECT_NE(InputFile::open(folder / "a").error().message.find(kName), std::string::npos);
  EXPECT_NE(read_file(folder / "a", 1000).error().message.find(kName), std::string::npos);
  EXPECT_NE(FileBytes::read(folder / "a", 1000).error().message.find(kName), std::string::npos);
  put_file(folder / "a", text + std::string(2000, 'x'));
  EXPECT_TRUE(InputFile::open(folder / "a").ok());
  put_file(folder / "a", text.substr(1));
  EXPECT_TRUE(InputFile::open(folder / "a").ok());
}

}  // namespace
}  // namespace mantissa
