#include "base/files/output_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>

#include "base/test_folder.h"

namespace mantissa {
namespace {

TEST(OutputFile, CutsBackAndAppends) {
  const TestFolder folder;
  const auto path = folder / "log";
  const auto write = [&](int64_t kept_bytes, const char* text) {
    auto file = OutputFile::open(path, kept_bytes);
    ASSERT_TRUE(file.ok());
    EXPECT_TRUE(file->write(text).ok());
    EXPECT_TRUE(file->flush().ok());
  };
  write(0, "one\n");
  write(100, "two\n");
  EXPECT_EQ(get_file(path), "one\ntwo\n");
  write(4, "three\n");
  EXPECT_EQ(get_file(path), "one\nthree\n");
  write(0, "");
  EXPECT_EQ(get_file(path), "");
}

TEST(OutputFile, RefusesWhatIsNoFile) {
  const TestFolder folder;
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  for (const auto& path : {folder / "pipe", folder.path(), folder / "no/such"}) {
    const auto file = OutputFile::open(path, 0);
    ASSERT_FALSE(file.ok()) << path;
    EXPECT_NE(file.error().message.find(path.string()), std::string::npos);
  }
}

// A limit on the file size stands in for a full disk.
TEST(OutputFile, SaysThatTheDiskIsFull) {
  const TestFolder folder;
  auto file = OutputFile::open(folder / "log", 0);
  ASSERT_TRUE(file.ok());
  rlimit before;
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small = {4, before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  const Status status = file->write("too long");
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("File too large"), std::string::npos);
  EXPECT_EQ(get_file(folder / "log"), "too ");
}

}  // namespace
}  // namespace mantissa
