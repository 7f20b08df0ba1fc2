#include "run/memory_plan.h"

#include <gtest/gtest.h>

namespace mantissa {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

TEST(MemoryPlan, OverTheSystemsLimitIsWorthAWord) {
  MemoryPlan plan;
  plan.items = {{"arena", 60 * kMiB}, {"data set", 4 * kMiB}};
  EXPECT_EQ(limit_warning(plan, 5 * kMiB, {0, ""}), "");  // none is known
  EXPECT_EQ(limit_warning(plan, 5 * kMiB, {69 * kMiB, "memory.max"}), "");
  EXPECT_EQ(limit_warning(plan, 5 * kMiB, {69 * kMiB - 1, "memory.max"}),
            "warning: needs 64.0 MiB of memory beside 5.0 MiB that it has, and may take 69.0 MiB "
            "in all (memory.max): the system may end it; --memory-budget 63MiB plans for that, or "
            "says what it takes at least");
  const std::string hopeless = limit_warning(plan, 5 * kMiB, {4 * kMiB, "memory.max"});
  EXPECT_NE(hopeless, "");
  EXPECT_EQ(hopeless.find("--memory-budget"), std::string::npos) << hopeless;
}

}  // namespace
}  // namespace mantissa
