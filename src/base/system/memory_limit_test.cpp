#include "base/system/memory_limit.h"

#include <gtest/gtest.h>

#include "base/test_folder.h"

namespace mantissa {
namespace {

// A machine of 8 GiB, as a process sees it that is in `groups`.
class Limits : public ::testing::Test {
 protected:
  void SetUp() override { put("proc/meminfo", "MemFree: 9 kB\nMemTotal:        8388608 kB\n"); }

  void put(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((folder_ / name).parent_path());
    put_file(folder_ / name, text);
  }
  MemoryLimit limit() const { return memory_limit(folder_ / "proc", folder_ / "cgroup"); }
  // The file of the groups that sets the limit.
  std::string source() const {
    return std::filesystem::path(limit().source).lexically_relative(folder_.path()).string();
  }

  const TestFolder folder_;
};

constexpr int64_t kMiB = int64_t{1} << 20;

TEST_F(Limits, AreThoseOfTheMachineWithoutGroups) {
  EXPECT_EQ(limit().bytes, 8192 * kMiB);
  EXPECT_EQ(source(), "proc/meminfo");
  put("proc/self/cgroup", "0::/\n");
  put("cgroup/memory.max", "max\n");
  EXPECT_EQ(limit().bytes, 8192 * kMiB);
  put("cgroup/memory.max", "99999999999999999999\n");
  EXPECT_EQ(limit().bytes, 8192 * kMiB);
}

TEST_F(Limits, OfAGroupAndOfThoseAboveIt) {
  put("proc/self/cgroup", "0::/work.slice/job 1\n");
  put("cgroup/work.slice/job 1/memory.max", std::to_string(512 * kMiB) + "\n");
  EXPECT_EQ(limit().bytes, 512 * kMiB);
  EXPECT_EQ(source(), "cgroup/work.slice/job 1/memory.max");
  put("cgroup/work.slice/memory.max", std::to_string(256 * kMiB) + "\n");
  EXPECT_EQ(limit().bytes, 256 * kMiB);
  EXPECT_EQ(source(), "cgroup/work.slice/memory.max");
  put("cgroup/work.slice/memory.max", "0\n");
  EXPECT_EQ(limit().bytes, 0);
}

// A container sees its own group as the top one, whatever the group's name outside.
TEST_F(Limits, OfAContainer) {
  put("cgroup/memory.max", std::to_string(300 * kMiB) + "\n");
  for (const char* group : {"/", "/docker/0123abcd", "/../other"}) {
    put("proc/self/cgroup", std::string("0::") + group + "\n");
    EXPECT_EQ(limit().bytes, 300 * kMiB) << group;
  }
}

TEST_F(Limits, OfVersionOne) {
  put("proc/self/cgroup", "12:cpu,cpuacct:/job\n5:hugetlb,memory:/job\n0::/\n");
  put("cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(limit().bytes, 8192 * kMiB);
  put("cgroup/memory/job/memory.limit_in_bytes", std::to_string(64 * kMiB) + "\n");
  EXPECT_EQ(limit().bytes, 64 * kMiB);
  EXPECT_EQ(source(), "cgroup/memory/job/memory.limit_in_bytes");
  put("proc/self/cgroup", "5:memory_more:/job\n");
  EXPECT_EQ(limit().bytes, 8192 * kMiB);
}

TEST_F(Limits, OfNothingReadable) {
  const TestFolder empty;
  EXPECT_EQ(memory_limit(empty / "proc", empty / "cgroup").source, "");
  put("proc/self/cgroup", "nonsense\n:\n0:\n");
  EXPECT_EQ(limit().bytes, 8192 * kMiB);
}

TEST(MemoryLimit, OfThisMachineIsPlausible) { EXPECT_GT(memory_limit().bytes, 16 * kMiB); }

}  // namespace
}  // namespace mantissa
