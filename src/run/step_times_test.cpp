#include "run/step_times.h"

#include <gtest/gtest.h>

namespace mantissa {
namespace {

TEST(StepTimes, OfNothingAreZero) {
  const StepTimes times;
  EXPECT_EQ(times.median_ms(), 0);
  EXPECT_EQ(times.examples_per_second(32), 0);
}

TEST(StepTimes, RateCountsWaiting) {
  StepTimes times;
  times.add(0.25, 0.5);
  times.add(0.5, 1.5);
  EXPECT_EQ(times.busy_seconds(), 2);
  EXPECT_EQ(times.examples_per_second(32), 32);
}

TEST(StepTimes, MedianIsOfTheLast) {
  StepTimes times;
  times.reserve(5);
  for (const double seconds : {4.0, 0.5, 1.0, 2.0, 0.25}) times.add(seconds, seconds);
  EXPECT_EQ(times.median_ms(), 1000);
  for (int i = 0; i < 4096; ++i) times.add(0.125, 0.125);  // pushes all others out
  for (int i = 0; i < 2040; ++i) times.add(8, 8);
  EXPECT_EQ(times.median_ms(), 125);
  for (int i = 0; i < 10; ++i) times.add(8, 8);
  EXPECT_EQ(times.median_ms(), 8000);
  EXPECT_EQ(StepTimes::predict_bytes(3), 12);
  EXPECT_EQ(StepTimes::predict_bytes(1'000'000), 4096 * 4);
}

}  // namespace
}  // namespace mantissa
