// Updates of weights whose output channels have exponents of their own: plain SGD against its
// definition, element by element; all optimisers against weights with one exponent.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/random.h"
#include "numerics/exponent.h"
#include "numerics/lazy_update.h"
#include "ops/ops.h"
#include "ops/updates/update_parts.h"
#include "ops/updates/update_subject.h"

namespace mantissa::ops {
namespace {

using Wide = __int128;

// BlockWeights [channels, length] in `exponents.size()` blocks.
struct BlockWeights {
  BlockWeights(std::vector<int16_t> exponents_, int64_t channels_, int64_t length_)
      : exponents(std::move(exponents_)),
        channels(channels_),
        length(length_),
        mantissa(count()),
        accumulator(count()),
        moments{std::vector<int16_t>(count()), std::vector<int16_t>(count())},
        sums(count()) {
    for (size_t i = 0; i < count(); ++i) {
      const uint64_t bits = random_bits(4, RandomStream::kRound, 0, i);
      mantissa[i] = static_cast<int8_t>(static_cast<int>(bits % 181) - 90);
      accumulator[i] = static_cast<int16_t>(static_cast<int>(bits >> 20 & 32767) - 16383);
    }
  }
  size_t count() const { return static_cast<size_t>(channels * length); }
  int64_t value(size_t i) const { return lazy_value(mantissa[i], accumulator[i], kShift); }

  // Sums of a step; those of channel o are smaller by 2^(o % 4).
  void set_sums(uint32_t step) {
    for (size_t i = 0; i < count(); ++i) {
      const auto bits = static_cast<int64_t>(random_bits(5, RandomStream::kRound, step, i));
      sums[i] = bits >> (28 + static_cast<int64_t>(i) / length % 4);
    }
  }

  std::vector<int16_t> exponents;
  int64_t channels, length;
  std::vector<int8_t> mantissa;
  std::vector<int16_t> accumulator;
  std::vector<int16_t> moments[2];
  std::vector<int64_t> sums;
  int16_t moment_exponents[2] = {-128, -128}, gradient_exponent = -40;
  int64_t saturated = 0;
};

class UpdateBlocks : public ::testing::Test {
 protected:
  void update(const Op& op, BlockWeights& w, int threads = 2) {
    const auto tensor = [&](auto& data, int16_t* exponent) {
      return tensor_of(data, Shape{w.channels, w.length}, exponent, &w.saturated);
    };
    ParameterView view;
    view.mantissa = tensor(w.mantissa, w.exponents.data());
    view.mantissa.blocks = static_cast<int64_t>(w.exponents.size());
    view.accumulator = tensor(w.accumulator, nullptr);
    for (int m = 0; m < 2; ++m) {
      view.moments[m] = tensor(w.moments[m], &w.moment_exponents[m]);
    }
    view.gradient = tensor(w.sums, nullptr);
    run_update(op, view, w.gradient_exponent, scalars_, threads);
  }

  StepScalars scalars_{
      .learning_rate = 0.3, .momentum = 0.9, .weight_decay = 0.01, .gradient_scale = 1.0 / 64};
};

int64_t narrow_to(Wide n, int shift, Wide limit) {
  const Wide unit = Wide{1} << shift;
  Wide floor = n >> shift;
  const Wide twice_rest = 2 * (n - floor * unit);
  if (twice_rest > unit || (twice_rest == unit && floor % 2 != 0)) ++floor;
  return static_cast<int64_t>(floor > limit ? limit : floor < -limit ? -limit : floor);
}

// docs/formats.md, "The update", word for word.
void plain_sgd(const StepScalars& scalars, BlockWeights& w) {
  const int largest = *std::max_element(w.exponents.begin(), w.exponents.end());
  uint64_t most = 0;
  for (const int64_t sum : w.sums) most = std::max(most, magnitude(sum));
  const int gradient_shift = exact_shift(most, 32);
  int64_t gradient_multiplier = 0, decay_multiplier = 0;
  const Term terms[] = {
      {Real(std::ldexp(scalars.gradient_scale, w.gradient_exponent + gradient_shift)), 31,
       &gradient_multiplier},
      {Real(std::ldexp(scalars.weight_decay, largest - kShift)), 8 + kShift, &decay_multiplier}};
  const int wide_exponent = choose_multipliers(terms);
  std::vector<Wide> wide(w.count());
  most = 0;
  for (size_t i = 0; i < w.count(); ++i) {
    const int below = largest - w.exponents[i / static_cast<size_t>(w.length)];
    const int64_t decay = narrow_to(decay_multiplier, below, Wide{1} << 62);
    wide[i] = Wide{narrow_to(w.sums[i], gradient_shift, Wide{1} << 62)} * gradient_multiplier +
              Wide{w.value(i)} * decay;
    most = std::max(most, magnitude(static_cast<int64_t>(wide[i])));
  }
  const int direction_shift = exact_shift(most, 32);
  const int rate_shift = 32;  // 0.3 lies in [2^-2, 2^-1): 31 bits
  const auto rate = static_cast<int64_t>(std::nearbyint(std::ldexp(scalars.learning_rate, 32)));
  for (int64_t o = 0; o < w.channels; ++o) {
    int16_t& exponent = w.exponents[static_cast<size_t>(o)];
    const int update_shift = exponent - kShift - (wide_exponent + direction_shift - rate_shift);
    ASSERT_GT(update_shift, 0);
    std::vector<int64_t> values;
    for (int64_t i = o * w.length; i < (o + 1) * w.length; ++i) {
      const Wide product = Wide{narrow_to(wide[i], direction_shift, mantissa_limit(32))} * rate;
      const Wide half = Wide{1} << (update_shift - 1);
      values.push_back(w.value(static_cast<size_t>(i)) -
                       static_cast<int64_t>((product + half) >> update_shift));
    }
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    const int smallest = std::max(-100, largest - 12);
    const int growth = lazy_growth(*low, *high, 8, kShift, std::max(0, exponent - smallest));
    for (int64_t k = 0; k < w.length; ++k) {
      const LazySplit split = lazy_rescale_and_split(values[k], growth, kShift);
      w.mantissa[o * w.length + k] = static_cast<int8_t>(split.weight);
      w.accumulator[o * w.length + k] = static_cast<int16_t>(split.accumulator);
    }
    exponent = static_cast<int16_t>(exponent + growth);
  }
}

// Channels that grow, that shrink, and that may shrink no further. Many threads with few elements,
// and enough elements for several threads.
TEST_F(UpdateBlocks, SgdIsThatOfItsDefinition) {
  for (const int64_t length : {1, 9, 300, 9000}) {
    std::vector<int16_t> exponents;
    for (int o = 0; o < 13; ++o) exponents.push_back(static_cast<int16_t>(-8 - o));
    BlockWeights w(exponents, 13, length), wanted(exponents, 13, length);
    // Channels of small weights. One of them is as far below the largest exponent as is allowed.
    for (const int64_t o : {5, 12}) {
      for (int64_t i = o * length; i < (o + 1) * length; ++i)
        w.mantissa[i] = wanted.mantissa[i] = 1;
    }
    bool grew = false, shrank = false;
    for (uint32_t step = 0; step < 6; ++step) {
      SCOPED_TRACE(std::to_string(length) + " elements, step " + std::to_string(step));
      w.set_sums(step), wanted.set_sums(step);
      const std::vector<int16_t> before = w.exponents;
      plain_sgd(scalars_, wanted);
      update(kUpdateSgd, w, 1 + static_cast<int>(step) * 2);
      ASSERT_EQ(w.exponents, wanted.exponents);
      ASSERT_EQ(w.mantissa, wanted.mantissa);
      ASSERT_EQ(w.accumulator, wanted.accumulator);
      for (size_t o = 0; o < before.size(); ++o) {
        grew |= w.exponents[o] > before[o], shrank |= w.exponents[o] < before[o];
      }
    }
    EXPECT_TRUE(grew) << length;
    EXPECT_TRUE(shrank) << length;
  }
}

TEST_F(UpdateBlocks, EqualExponentsAreOneExponent) {
  scalars_.learning_rate = 1e-3;  // no exponent changes
  for (const Op* op :
       {&kUpdateSgd, &kUpdateMomentum, &kUpdateNesterov, &kUpdateAdam, &kUpdateAdamW}) {
    SCOPED_TRACE(op->name);
    scalars_.step = 0;
    BlockWeights blocks(std::vector<int16_t>(7, -9), 7, 50), whole({-9}, 7, 50);
    for (uint32_t step = 0; step < 4; ++step, ++scalars_.step) {
      blocks.set_sums(step), whole.set_sums(step);
      update(*op, blocks), update(*op, whole);
      ASSERT_EQ(blocks.mantissa, whole.mantissa);
      ASSERT_EQ(blocks.accumulator, whole.accumulator);
      ASSERT_EQ(blocks.moments[0], whole.moments[0]);
      ASSERT_EQ(blocks.moments[1], whole.moments[1]);
      ASSERT_EQ(blocks.exponents, std::vector<int16_t>(7, whole.exponents[0]));
    }
  }
}

// In each of these optimisers the decay of a channel follows its own exponent: without gradients
// all weights shrink by the same factor.
TEST_F(UpdateBlocks, WeightDecayKnowsTheExponents) {
  scalars_.learning_rate = 0.1;
  for (const Op* op : {&kUpdateSgd, &kUpdateMomentum, &kUpdateNesterov, &kUpdateAdamW}) {
    SCOPED_TRACE(op->name);
    scalars_.step = 0;
    BlockWeights w({-3, -9, -7, -11}, 4, 40);
    std::vector<double> before;
    for (size_t i = 0; i < w.count(); ++i) {
      before.push_back(std::ldexp(static_cast<double>(w.value(i)), w.exponents[i / 40] - kShift));
    }
    update(*op, w);
    // 1 - rate * decay; Nesterov's first step is longer by its momentum.
    const double factor = 1 - 0.001 * (op == &kUpdateNesterov ? 1.9 : 1);
    for (size_t i = 0; i < w.count(); ++i) {
      const double unit = std::ldexp(1.0, w.exponents[i / 40] - kShift);
      // A direction of 16 bits is rounded in units of the largest channel's.
      const double rounding = std::ldexp(0.001, -2 + 7 - 15);
      EXPECT_NEAR(static_cast<double>(w.value(i)) * unit, before[i] * factor, unit + rounding) << i;
    }
  }
}

}  // namespace
}  // namespace mantissa::ops
