#include "base/files/file_system.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>

#include "base/test_folder.h"

namespace mantissa {
namespace {

// A link to itself cannot be followed. So nobody can tell whether the path exists.
std::filesystem::path make_unknown(const TestFolder& folder) {
  std::filesystem::create_symlink("loop", folder / "loop");
  return folder / "loop";
}

TEST(FileSystem, TellsWhatIsThereFromWhatCannotBeTold) {
  const TestFolder folder;
  put_file(folder / "file", std::string("x"));
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  std::filesystem::create_symlink("nowhere", folder / "dangling");
  EXPECT_EQ(*path_kind(folder / "file"), PathKind::kFile);
  EXPECT_EQ(*path_kind(folder.path()), PathKind::kFolder);
  EXPECT_EQ(*path_kind(folder / "pipe"), PathKind::kOther);
  for (const char* name : {"nothing", "dangling", "file/below", "no/such"}) {
    EXPECT_EQ(*path_kind(folder / name), PathKind::kNothing) << name;
    EXPECT_FALSE(*is_there(folder / name)) << name;
  }
  const auto unknown = is_there(make_unknown(folder));
  ASSERT_FALSE(unknown.ok());
  EXPECT_NE(unknown.error().message.find("loop'"), std::string::npos) << unknown.error().message;
}

TEST(FileSystem, ListsNamesInOrder) {
  const TestFolder folder;
  for (const char* name : {"b", "a", ".c"}) put_file(folder / name, std::string("x"));
  const auto names = list_names(folder.path());
  ASSERT_TRUE(names.ok());
  EXPECT_EQ(*names, (std::vector<std::string>{".c", "a", "b"}));
  for (const auto& path : {folder / "nothing", folder / "a", make_unknown(folder)}) {
    const auto none = list_names(path);
    ASSERT_FALSE(none.ok()) << path;
    EXPECT_NE(none.error().message.find(path.string()), std::string::npos) << none.error().message;
  }
}

TEST(FileSystem, MakesFoldersAndRemovesFiles) {
  const TestFolder folder;
  EXPECT_TRUE(make_folder(folder / "a/b/c").ok());
  EXPECT_TRUE(make_folder(folder / "a/b/c").ok());
  put_file(folder / "file", std::string("x"));
  EXPECT_FALSE(make_folder(folder / "file").ok());
  EXPECT_FALSE(make_folder(folder / "file/below").ok());
  EXPECT_TRUE(remove_file(folder / "file").ok());
  EXPECT_TRUE(remove_file(folder / "file").ok()) << "it is gone";
  EXPECT_FALSE(remove_file(folder / "a").ok());
  EXPECT_EQ(folder.count(), 1);
}

// The user can mend a bad path, but not a bad disk.
TEST(FileSystem, ErrorsHaveTheCodeOfTheirReason) {
  EXPECT_EQ(file_error("open", "x", ENOENT).code, ErrorCode::kInvalidInput);
  EXPECT_EQ(file_error("open", "x", EACCES).code, ErrorCode::kInvalidInput);
  EXPECT_EQ(file_error("open", "x", EIO).code, ErrorCode::kFailed);
  EXPECT_EQ(file_error("open", "x", ENFILE).code, ErrorCode::kFailed);
  EXPECT_EQ(file_error("open", "a/b", EIO).message, "cannot open 'a/b': Input/output error");
}

}  // namespace
}  // namespace mantissa
