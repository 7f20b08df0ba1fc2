#include "base/files/folder_lock.h"

#include <gtest/gtest.h>

#include <optional>

#include "base/test_folder.h"

namespace mantissa {
namespace {

TEST(FolderLock, IsHeldByOneUntilItLetsGo) {
  const TestFolder folder;
  std::optional<FolderLock> first;
  {
    auto lock = FolderLock::acquire(folder.path());
    ASSERT_TRUE(lock.ok());
    first.emplace(std::move(*lock));
  }
  const auto second = FolderLock::acquire(folder.path());
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.error().message.find("another process"), std::string::npos);
  first.reset();
  EXPECT_TRUE(FolderLock::acquire(folder.path()).ok());
}

TEST(FolderLock, NeedsAFolder) { EXPECT_FALSE(FolderLock::acquire("/nonexistent/folder").ok()); }

}  // namespace
}  // namespace mantissa
