#include "base/files/atomic_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <array>
#include <csignal>
#include <string>
#include <string_view>

#include "base/test_folder.h"

namespace mantissa {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

Status write(const std::filesystem::path& path, std::string_view text) {
  const std::array pieces = {bytes_of(text)};
  return write_file_atomically(path, pieces);
}

bool has(const Error& error, std::string_view part) {
  return error.message.find(part) != std::string::npos;
}

TEST(AtomicFile, WritesAllPiecesInOrderAndReplaces) {
  const TestFolder folder;
  const auto path = folder / "state.bin";
  const std::string large(300'000, 'x');
  const std::array pieces = {bytes_of("one"), bytes_of(""), bytes_of(large), bytes_of("end")};
  ASSERT_TRUE(write_file_atomically(path, pieces).ok());
  EXPECT_EQ(get_file(path), "one" + large + "end");
  ASSERT_TRUE(write(path, "new").ok());
  EXPECT_EQ(get_file(path), "new");
  ASSERT_TRUE(write_file_atomically(path, {}).ok());
  EXPECT_EQ(get_file(path), "");
  EXPECT_EQ(folder.count(), 1);
}

TEST(AtomicFile, WritesInTheCurrentFolder) {
  const TestFolder folder;
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  const Status status = write("plain-name", "x");
  std::filesystem::current_path(before);
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(get_file(folder / "plain-name"), "x");
}

// A temporary's name is longer than the file's.
TEST(AtomicFile, WritesNamesAsLongAsTheyMayBe) {
  const TestFolder folder;
  for (const std::string& name :
       {std::string(240, 'a'), std::string(245, 'b'), std::string(255, 'c')}) {
    const Status status = write(folder / name, name);
    EXPECT_TRUE(status.ok()) << status.error().message;
    EXPECT_EQ(get_file(folder / name), name);
  }
  std::string umlauts = "x";
  while (umlauts.size() < 255) umlauts += "\xc3\xa4";
  EXPECT_TRUE(write(folder / umlauts, "x").ok());
  EXPECT_EQ(folder.count(), 4);
  const Status too_long = write(folder / std::string(256, 'd'), "x");
  ASSERT_FALSE(too_long.ok());
  EXPECT_TRUE(has(too_long.error(), "name too long")) << too_long.error().message;
  EXPECT_EQ(folder.count(), 4);
}

TEST(AtomicFile, NamesFileAndReasonOfAnError) {
  const TestFolder folder;
  const Status no_folder = write(folder / "missing/file", "x");
  ASSERT_FALSE(no_folder.ok());
  EXPECT_TRUE(has(no_folder.error(), "missing/file")) << no_folder.error().message;
  EXPECT_TRUE(has(no_folder.error(), "No such file or directory"));

  std::filesystem::create_directory(folder / "taken");
  const Status is_folder = write(folder / "taken", "x");
  ASSERT_FALSE(is_folder.ok());
  EXPECT_TRUE(has(is_folder.error(), "Is a directory")) << is_folder.error().message;
  EXPECT_EQ(folder.count(), 1) << "the temporary is still there";
}

TEST(AtomicFile, KnowsItsTemporaries) {
  EXPECT_EQ(temporary_target("a.json.tmp-12-0"), "a.json");
  EXPECT_EQ(temporary_target("a.tmp-1-2.tmp-3-4"), "a.tmp-1-2");
  for (const char* name : {"a.json", "a.tmp-", "a.tmp-1", "a.tmp-1-", "a.tmp--1", "a.tmp-1-2x",
                           "a.tmp-1-2-3", "a.tmp-x-2"}) {
    EXPECT_EQ(temporary_target(name), "") << name;
  }
}

// A limit on the file size stands in for a full disk.
TEST(AtomicFile, LeavesTheOldFileWhenTheDiskIsFull) {
  const TestFolder folder;
  ASSERT_TRUE(write(folder / "state", "old").ok());
  rlimit before;
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small = {4096, before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  const Status status = write(folder / "state", std::string(10'000, 'x'));
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(status.ok());
  EXPECT_TRUE(has(status.error(), "File too large")) << status.error().message;
  EXPECT_EQ(get_file(folder / "state"), "old");
  EXPECT_EQ(folder.count(), 1) << "the temporary is still there";
}

TEST(ReadFile, ReadsAndRefuses) {
  const TestFolder folder;
  put_file(folder / "a", std::string("12345"));
  const auto read = read_file(folder / "a", 5);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->size(), 5u);
  EXPECT_EQ((*read)[4], std::byte{'5'});

  EXPECT_TRUE(has(read_file(folder / "a", 4).error(), "too large"));
  EXPECT_TRUE(has(read_file(folder / "b", 4).error(), "No such file"));
  EXPECT_TRUE(has(read_file(folder.path(), 4).error(), "is a folder"));
  EXPECT_TRUE(has(read_file("/dev/zero", 4).error(), "not a regular file"));
}

TEST(ReadFile, DoesNotWaitForAPipe) {
  const TestFolder folder;
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_TRUE(has(read_file(folder / "pipe", 4).error(), "not a regular file"));
}

TEST(InputFile, ReadsInPartsAndReportsShortFiles) {
  const TestFolder folder;
  put_file(folder / "a", std::string("12345"));
  auto file = InputFile::open(folder / "a");
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->size(), 5);
  std::array<std::byte, 3> part;
  EXPECT_TRUE(file->read_exactly(part).ok());
  EXPECT_EQ(part[2], std::byte{'3'});
  InputFile moved = std::move(*file);
  const Status short_read = moved.read_exactly(part);
  ASSERT_FALSE(short_read.ok());
  EXPECT_TRUE(has(short_read.error(), "3 more bytes are needed and 2 are there"));
}

TEST(InputFile, ReadsFromPlaces) {
  const TestFolder folder;
  put_file(folder / "digits", std::string("0123456789"));
  auto file = InputFile::open(folder / "digits");
  ASSERT_TRUE(file.ok());
  std::array<std::byte, 3> three{};
  const auto is = [&](std::string_view text) {
    return std::equal(three.begin(), three.end(), bytes_of(text).begin());
  };
  ASSERT_TRUE(file->read_at(7, three).ok());
  EXPECT_TRUE(is("789"));
  ASSERT_TRUE(file->read_exactly(three).ok());
  EXPECT_TRUE(is("012"));  // as if the other read had not been
  const Status behind = file->read_at(8, three);
  ASSERT_FALSE(behind.ok());
  EXPECT_TRUE(has(behind.error(), "3 more bytes are needed and 2 are there"));
}

}  // namespace
}  // namespace mantissa
