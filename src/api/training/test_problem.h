// Something to learn, and shorthands, for tests of networks of one's own.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "mantissa/training.h"

namespace mantissa {

// Numbers that look random, the same everywhere.
class Numbers {
 public:
  explicit Numbers(uint64_t seed) : state_(seed * 2 + 1) {}
  uint64_t next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return state_ >> 33;
  }
  double between(double low, double high) {
    return low + (high - low) * static_cast<double>(next() % 10007) / 10007;
  }

 private:
  uint64_t state_;
};

// Pictures of 6 x 6 whose class is the brightest third; numbers, and targets that follow from them.
struct Problem {
  int64_t count;
  std::vector<uint8_t> pixels;
  std::vector<float> numbers, targets;
  std::vector<int32_t> labels;

  explicit Problem(int64_t examples, uint64_t seed = 1) : count(examples) {
    Numbers random(seed);
    for (int64_t n = 0; n < count; ++n) {
      const auto label = static_cast<int32_t>(random.next() % 3);
      labels.push_back(label);
      for (int i = 0; i < 36; ++i) {
        const uint64_t noise = random.next() % 60;
        pixels.push_back(static_cast<uint8_t>((i / 12 == label ? 150 : 40) + noise));
      }
      double sum = 0;
      for (int i = 0; i < 4; ++i) {
        numbers.push_back(static_cast<float>(random.between(-1, 1)));
        sum += numbers.back();
      }
      targets.push_back(static_cast<float>(sum / 2));
      targets.push_back(static_cast<float>(-sum));
    }
  }

  ArraySet pictures() const {
    return {count,
            {{"pixels", Elements::kUint8, {6, 6, 1}, pixels.data()},
             {"labels", Elements::kInt32, {}, labels.data()}}};
  }
  ArraySet all() const {
    ArraySet set = pictures();
    set.arrays.push_back({"numbers", Elements::kFloat, {4}, numbers.data()});
    set.arrays.push_back({"targets", Elements::kFloat, {2}, targets.data()});
    return set;
  }
  ArraySet batch(int64_t first, int64_t size) const {
    return {size,
            {{"pixels", Elements::kUint8, {6, 6, 1}, pixels.data() + first * 36},
             {"labels", Elements::kInt32, {}, labels.data() + first}}};
  }
};

inline Network built(Outcome<Network> network) {
  EXPECT_TRUE(network.ok()) << network.error();
  return *network;
}

inline Trainer trainer_of(const Network& network, const Settings& settings) {
  auto trainer = Trainer::create(network, settings);
  EXPECT_TRUE(trainer.ok()) << trainer.error();
  return std::move(*trainer);
}

inline const Settings kSmall = {{"batch-size", "32"}, {"threads", "2"}};

}  // namespace mantissa
