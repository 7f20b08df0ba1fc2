#include "base/system/thread_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "base/system/test_threads.h"

namespace mantissa {
namespace {

class ThreadPoolSizes : public testing::TestWithParam<int> {};

TEST_P(ThreadPoolSizes, RunsEachTaskOnceInManyRounds) {
  ThreadPool pool(GetParam());
  ASSERT_EQ(pool.size(), GetParam());
  constexpr int kMaxTasks = 37;
  std::vector<int> runs(kMaxTasks);  // each task has its own, so a race would show
  std::atomic<bool> worker_in_range{true};
  for (int round = 0; round < 2000; ++round) {
    const int tasks = round % (kMaxTasks + 1);
    pool.parallel_for(tasks, [&](int64_t task, int worker) {
      ++runs[static_cast<size_t>(task)];
      if (worker < 0 || worker >= pool.size()) worker_in_range = false;
    });
    for (int task = 0; task < kMaxTasks; ++task) {
      ASSERT_EQ(runs[static_cast<size_t>(task)], task < tasks ? 1 : 0) << "round " << round;
      runs[static_cast<size_t>(task)] = 0;
    }
  }
  EXPECT_TRUE(worker_in_range);
}

// Each worker has memory of its own: two tasks never run as the same worker at once.
TEST_P(ThreadPoolSizes, KeepsWorkersApart) {
  ThreadPool pool(GetParam());
  std::vector<std::atomic<int>> busy(static_cast<size_t>(pool.size()));
  std::atomic<int> collisions{0};
  pool.parallel_for(500, [&](int64_t, int worker) {
    if (busy[static_cast<size_t>(worker)].fetch_add(1) != 0) ++collisions;
    std::this_thread::yield();
    busy[static_cast<size_t>(worker)].fetch_sub(1);
  });
  EXPECT_EQ(collisions, 0);
}

TEST_P(ThreadPoolSizes, WakesAfterSleeping) {
  ThreadPool pool(GetParam());
  std::atomic<int> runs{0};
  for (int round = 0; round < 3; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    pool.parallel_for(10, [&](int64_t, int) { ++runs; });
  }
  EXPECT_EQ(runs, 30);
}

TEST_P(ThreadPoolSizes, StartsAndStopsOften) {
  for (int i = 0; i < 50; ++i) {
    ThreadPool pool(GetParam());
    std::atomic<int> runs{0};
    if (i % 2 == 0) pool.parallel_for(3, [&](int64_t, int) { ++runs; });
    EXPECT_EQ(runs, i % 2 == 0 ? 3 : 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, ThreadPoolSizes, testing::Values(1, 2, 3, 8));

// If a limit on processes is reached, the threads that were started do all of the tasks.
TEST(ThreadPool, WorksWithTheThreadsThatCouldBeStarted) {
  for (int more = 0; more <= 4; ++more) {
    const ThreadLimit limit(more);
    ThreadPool pool(4);
    EXPECT_EQ(pool.size(), 4);  // memory is planned for this many
    EXPECT_EQ(pool.threads(), std::min(more + 1, 4));
    EXPECT_EQ(pool.shortage().empty(), more >= 3) << pool.shortage();
    std::vector<std::atomic<int>> runs(100);
    for (int round = 0; round < 50; ++round) {
      pool.parallel_for(100, [&](int64_t task, int) { ++runs[static_cast<size_t>(task)]; });
    }
    for (const auto& count : runs) ASSERT_EQ(count, 50);
  }
}

TEST(ThreadPool, SaysHowManyThreadsAreMissing) {
  const ThreadLimit limit(2);
  EXPECT_TRUE(ThreadPool(8).shortage().starts_with("only 3 of 8 threads could be started"));
}

TEST(ThreadPool, TakesNonsenseAsOne) { EXPECT_EQ(ThreadPool(-3).size(), 1); }

}  // namespace
}  // namespace mantissa
