#include "pipeline/partition.h"

#include <gtest/gtest.h>

#include <functional>

#include "base/random.h"

namespace mantissa::pipeline {
namespace {

std::vector<Layer> random_layers(uint64_t seed, int count) {
  std::vector<Layer> layers;
  for (int i = 0; i < count; ++i) {
    const auto draw = [&](uint64_t what, uint64_t bound) {
      return static_cast<int64_t>(uniform_below(
          random_bits(seed, RandomStream::kSynthetic, static_cast<uint32_t>(i), what), bound));
    };
    layers.push_back({.name = "layer" + std::to_string(i),
                      .time = static_cast<double>(1 + draw(0, 1000)),
                      .multiply_adds = draw(1, 5000),
                      .parameters = draw(2, 300),
                      .weight_bytes = draw(3, 100),
                      .state_bytes = draw(4, 100),
                      .kept_bytes = draw(5, 50),
                      .work_bytes = draw(6, 200),
                      .passed_bytes = draw(7, 100),
                      .returned_bytes = draw(8, 200)});
  }
  return layers;
}

// Calls function(first) for each division of `layers` layers into `stages`.
void all_divisions(int layers, int stages, std::vector<int>& first,
                   const std::function<void(const std::vector<int>&)>& function) {
  if (static_cast<int>(first.size()) == stages) return function(first);
  for (int i = first.empty() ? 0 : first.back() + 1; i < (first.empty() ? 1 : layers); ++i) {
    first.push_back(i);
    all_divisions(layers, stages, first, function);
    first.pop_back();
  }
}

TEST(Partition, IsTheBestOfAll) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const int count = 3 + static_cast<int>(seed % 18);  // up to 20
    const std::vector<Layer> layers = random_layers(seed, count);
    for (int stages = 1; stages <= std::min(count, count > 14 ? 4 : 6); ++stages) {
      std::vector<int> windows, versions;
      for (int s = 0; s < stages; ++s) {
        windows.push_back(stages - s);
        versions.push_back(1 + s % 2);
      }
      for (const Balance balance :
           {Balance::kTime, Balance::kOperations, Balance::kParameters, Balance::kLayers}) {
        for (const int64_t bytes : {INT64_MAX, int64_t{900}}) {
          const Limits limits = {.stage_bytes = bytes, .time_per_byte = 3};
          const Result<Division> found = divide(layers, balance, windows, versions, limits);
          double least = -1;
          std::vector<int> first;
          all_divisions(count, stages, first, [&](const std::vector<int>& by_hand) {
            const auto one = divided(layers, balance, by_hand, windows, versions, limits);
            if (one.ok() && (least < 0 || one->largest < least)) least = one->largest;
          });
          ASSERT_EQ(found.ok(), least >= 0);
          if (!found.ok()) continue;
          EXPECT_EQ(found->largest, least) << "seed " << seed;
        }
      }
    }
  }
}

TEST(Partition, SaysWhyThereIsNone) {
  const std::vector<Layer> layers = random_layers(1, 4);
  const std::vector<int> ones(5, 1), two(2, 1);
  EXPECT_EQ(divide(layers, Balance::kTime, ones, ones).error().message,
            "a network of 4 layers has 1 to 4 stages, not 5");
  const auto over = divide(layers, Balance::kTime, two, two, {.stage_bytes = 5});
  EXPECT_EQ(over.error().code, ErrorCode::kOverBudget);
  EXPECT_NE(over.error().message.find("layer 'layer0' alone needs"), std::string::npos);
  const std::vector<int> empty = {0, 4}, late = {1, 2};
  EXPECT_EQ(divided(layers, Balance::kTime, empty, two, two).error().message,
            "stage 2 has no layer");
  EXPECT_FALSE(divided(layers, Balance::kTime, late, two, two).ok());
}

// If several divisions have the least largest load, the one whose other stages are equal is taken.
TEST(Partition, EvensOutTheOtherStages) {
  std::vector<Layer> layers(7);
  for (size_t i = 0; i < layers.size(); ++i) layers[i].time = i == 0 ? 10 : 1;
  const std::vector<int> ones(3, 1);
  EXPECT_EQ(divide(layers, Balance::kTime, ones, ones)->first, (std::vector<int>{0, 1, 4}));
}

}  // namespace
}  // namespace mantissa::pipeline
