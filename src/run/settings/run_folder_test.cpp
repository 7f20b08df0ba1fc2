#include "run/settings/run_folder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/files/file_system.h"
#include "base/test_folder.h"
#include "run/checkpoint.h"

namespace mantissa {
namespace {

using Names = std::vector<std::string>;

class RunFolder : public ::testing::Test {
 protected:
  void put(const std::string& name) { put_file(folder_ / name, std::string("x")); }
  Names names() { return *list_names(folder_.path()); }
  RunConfig config() {
    RunConfig config = default_run_config();
    config.out = folder_.path();
    return config;
  }

  TestFolder folder_;
};

TEST_F(RunFolder, CheckpointsAreWhatIsNamedAsOne) {
  for (const char* name : {"checkpoint-00000030.safetensors", "checkpoint-123456789.safetensors",
                           "checkpoint-30.safetensors", "checkpoint-00000030.safetensors.tmp-1-2",
                           "checkpoint-0000003x.safetensors", "checkpoint-.safetensors"}) {
    put(name);
  }
  EXPECT_EQ(*list_checkpoints(folder_.path()), (std::vector<int64_t>{30, 123456789}));
}

TEST_F(RunFolder, IsNotTakenForFreeWhereItCannotBeListed) {
  EXPECT_TRUE(prepare_run_folder(config()).ok());
  put("checkpoint-00000030.safetensors");
  EXPECT_FALSE(prepare_run_folder(config()).ok());
  const std::filesystem::path loop = folder_ / "loop";
  std::filesystem::create_symlink("loop", loop);
  RunConfig other = config();
  other.out = loop;
  other.resume = true;
  EXPECT_FALSE(prepare_run_folder(other).ok());
  EXPECT_FALSE(list_checkpoints(loop).ok());
  EXPECT_FALSE(remove_run(loop).ok());
  EXPECT_FALSE(tidy_run_folder(loop).ok());
}

// A network from elsewhere has the same name.
TEST_F(RunFolder, IsNotFreeWithAnyFileThatWouldBeRemoved) {
  for (const char* name : kRunFiles) {
    put(name);
    const auto taken = prepare_run_folder(config());
    ASSERT_FALSE(taken.ok()) << name;
    EXPECT_NE(taken.error().message.find(name), std::string::npos) << taken.error().message;
    RunConfig other = config();
    other.overwrite = true;
    EXPECT_TRUE(prepare_run_folder(other).ok());
    std::filesystem::remove(folder_ / name);
  }
  put("notes.txt");
  EXPECT_TRUE(prepare_run_folder(config()).ok());
}

TEST_F(RunFolder, ABeginningDoesNotRemoveWhatItCannotHaveLeft) {
  EXPECT_TRUE(check_nothing_is_lost(folder_.path()).ok());
  put("hashes.jsonl");
  EXPECT_FALSE(check_nothing_is_lost(folder_.path()).ok()) << "whose is it?";
  put("config.toml");
  EXPECT_TRUE(check_nothing_is_lost(folder_.path()).ok());
  put("model.safetensors");
  const Status status = check_nothing_is_lost(folder_.path());
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("model.safetensors and no checkpoint"), std::string::npos);
}

TEST_F(RunFolder, IsHeldByOne) {
  const auto held = prepare_run_folder(config());
  ASSERT_TRUE(held.ok());
  const auto second = prepare_run_folder(config());
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.error().message.find("another process"), std::string::npos);
}

TEST_F(RunFolder, RemovesARunAndNothingElse) {
  for (const char* name : kRunFiles) put(name);
  for (const int64_t step : {10, 20, 30}) put(checkpoint_path({}, step).string());
  put("notes.txt");
  put("lock");
  EXPECT_TRUE(remove_run(folder_.path()).ok());
  EXPECT_EQ(names(), (Names{"lock", "notes.txt"}));
}

// An error on the way leaves the older checkpoints.
TEST_F(RunFolder, RemovesTheNewestCheckpointFirst) {
  for (const int64_t step : {10, 30}) put(checkpoint_path({}, step).string());
  std::filesystem::create_directory(checkpoint_path(folder_.path(), 20));
  const Status removed = remove_run(folder_.path());
  ASSERT_FALSE(removed.ok());
  EXPECT_NE(removed.error().message.find("checkpoint-00000020"), std::string::npos);
  EXPECT_EQ(*list_checkpoints(folder_.path()), (std::vector<int64_t>{10, 20}));
}

TEST_F(RunFolder, IsTidiedUpOfWhatTheDeadLeft) {
  const Names kept = {"best.safetensors.tmp-x-1",
                      "checkpoint-00000020.safetensors",
                      "checkpoint-00000030.safetensors",
                      "mine.tmp-1-2",
                      "model.safetensors.tmp-1-2-old",
                      "summary.json",
                      "summary.json.tmp-7-0"};
  for (const std::string& name : kept) put(name);
  for (const char* name : {"checkpoint-00000010.safetensors", "best.safetensors.tmp-1-0",
                           "checkpoint-00000040.safetensors.tmp-99999999-12",
                           "evaluation.json.tmp-1-1", "summary.json.tmp-1-0"}) {
    put(name);
  }
  // Being written by somebody, as a lock on it says.
  const int alive = ::open((folder_ / "summary.json.tmp-7-0").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(::flock(alive, LOCK_EX), 0);
  EXPECT_TRUE(tidy_run_folder(folder_.path()).ok());
  EXPECT_EQ(names(), kept);
  ::close(alive);
  EXPECT_TRUE(tidy_run_folder(folder_.path()).ok());
  EXPECT_EQ(names(), Names(kept.begin(), kept.end() - 1));
}

}  // namespace
}  // namespace mantissa
