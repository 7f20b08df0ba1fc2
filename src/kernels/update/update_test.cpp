// The reference and every instruction set against exact formulations, and conservation over the
// whole sequence gradient_extremes -> direction_extremes -> step -> change_unit.
#include "kernels/update/update.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/common/test_rows.h"
#include "kernels/elementwise/test_values.h"
#include "numerics/exponent.h"
#include "numerics/lazy_update.h"

namespace mantissa::kernels {
namespace {

// Test values within [-limit, limit].
template <typename T>
std::vector<T> symmetric_values(int64_t count, uint64_t seed, int bits, int64_t limit) {
  std::vector<T> values = test_values<T>(count, seed, bits);
  for (T& value : values) value = static_cast<T>(saturate(value, limit));
  return values;
}

class UpdateTest : public RowTest<UpdateKernels> {};

// One parameter, its gradient and its velocity.
struct Parameter {
  int64_t size;
  int weight_bits, shift, sum_bits;
  bool momentum;
  bool looks_ahead = false;  // the direction is not the new velocity
  int velocity_bits = 16;
  int64_t decay = 77;
  std::vector<int8_t> weights8;
  std::vector<int16_t> weights16;
  std::vector<int16_t> accumulator, velocity;
  std::vector<int32_t> velocity32;
  std::vector<int64_t> gradient;
  std::vector<int32_t> narrow;  // the gradient, for sums of 32 bits

  Parameter(int64_t size_, int weight_bits_, int shift_, bool momentum_, int sum_bits_ = 64)
      : size(size_),
        weight_bits(weight_bits_),
        shift(shift_),
        sum_bits(sum_bits_),
        momentum(momentum_),
        weights8(symmetric_values<int8_t>(size, 1, std::min(weight_bits, 8) - 1,
                                          mantissa_limit(std::min(weight_bits, 8)))),
        weights16(symmetric_values<int16_t>(size, 1, 15, mantissa_limit(16))),
        accumulator(
            symmetric_values<int16_t>(size, 2, std::max(shift - 1, 1), (int64_t{1} << shift) / 2)),
        velocity(test_values<int16_t>(size, 3, 15)),
        velocity32(symmetric_values<int32_t>(size, 3, 31, mantissa_limit(32))),
        gradient(test_values<int64_t>(size, 4, sum_bits == 64 ? 45 : 29)) {}

  int64_t weight(int64_t i) const { return weight_bits <= 8 ? weights8[i] : weights16[i]; }
  int64_t value(int64_t i) const { return lazy_value(weight(i), accumulator[i], shift); }

  int64_t kept(int64_t i) const { return velocity_bits == 16 ? velocity[i] : velocity32[i]; }

  GradientSums sums() {
    if (sum_bits == 64) return {gradient.data()};
    narrow.assign(gradient.begin(), gradient.end());
    return {narrow.data(), sum_bits};
  }

  Update args() {
    Update update;
    update.gradient = sums();
    update.weights = weight_bits <= 8 ? static_cast<void*>(weights8.data()) : weights16.data();
    update.weight_bits = weight_bits;
    update.accumulator = shift == 0 ? nullptr : accumulator.data();
    update.shift = shift;
    if (momentum && velocity_bits == 16) update.velocity = velocity.data();
    if (momentum && velocity_bits == 32) update.velocity = velocity32.data();
    update.looks_ahead = looks_ahead;
    update.gradient_shift = sum_bits == 64 ? 15 : -2;
    update.gradient_multiplier = 1000003;
    update.velocity_multiplier = momentum ? 900001 : 0;
    update.decay_multiplier = decay;
    update.direction_bits = momentum && !looks_ahead ? velocity_bits : 32;
    update.rate_multiplier = 65537;
    return update;
  }
};

Wide exact_rhu(Wide n, int shift) {
  if (shift > 100) shift = 100;
  const Wide doubled = 2 * n + (Wide{1} << shift);
  const Wide unit = Wide{1} << (shift + 1);
  return doubled / unit - (doubled % unit < 0 ? 1 : 0);
}

Wide exact_wide(const Parameter& p, const Update& args, int64_t i) {
  const Wide g = args.gradient_shift < 0 ? Wide{p.gradient[i]} * (Wide{1} << -args.gradient_shift)
                                         : exact_rne(p.gradient[i], args.gradient_shift);
  Wide wide = g * args.gradient_multiplier + Wide{p.value(i)} * args.decay_multiplier;
  if (args.velocity.data != nullptr) wide += Wide{p.kept(i)} * args.velocity_multiplier;
  return wide;
}

Wide exact_update(Wide direction, const Update& args) {
  const Wide product = direction * args.rate_multiplier;
  if (args.update_shift >= 0) return exact_rhu(product, args.update_shift);
  return exact_saturate(product * (Wide{1} << std::min(-args.update_shift, 62)), kWideLimit);
}

Wide exact_direction(const Parameter& p, const Update& args, int64_t i) {
  return exact_saturate(exact_rne(exact_wide(p, args, i), args.direction_shift),
                        mantissa_limit(args.direction_bits));
}

// V' from the parameter before the step.
int64_t exact_value(const Parameter& p, const Update& args, int64_t i) {
  return static_cast<int64_t>(p.value(i) - exact_update(exact_direction(p, args, i), args));
}

// Element i has the W and A that a V' splits into, modulo their width.
void check_split(const Parameter& p, int64_t i, int64_t value, int growth) {
  const LazySplit split = lazy_rescale_and_split(value, growth, p.shift);
  ASSERT_EQ(p.weight(i), p.weight_bits <= 8 ? static_cast<int8_t>(split.weight)
                                            : static_cast<int16_t>(split.weight))
      << i << ", growth " << growth;
  if (p.shift > 0) {
    ASSERT_EQ(p.accumulator[i], split.accumulator) << i << ", growth " << growth;
  }
}

// Runs the sequence as an optimiser would and checks every result.
void check_sequence(const UpdateKernels& kernels, Parameter p, int update_shift, int64_t begin) {
  Update args = p.args();
  args.update_shift = update_shift;
  const Parameter before = p;
  const int64_t end = p.size;

  Extremes wanted;
  for (int64_t i = begin; i < end; ++i) {
    wanted.low = std::min(wanted.low, p.gradient[i]);
    wanted.high = std::max(wanted.high, p.gradient[i]);
  }
  const Extremes gradients = kernels.gradient_extremes(args.gradient, begin, end);
  ASSERT_EQ(gradients.low, wanted.low);
  ASSERT_EQ(gradients.high, wanted.high);

  Wide low = INT64_MAX, high = INT64_MIN;
  for (int64_t i = begin; i < end; ++i) {
    low = std::min(low, exact_wide(before, args, i));
    high = std::max(high, exact_wide(before, args, i));
  }
  const Extremes directions = kernels.direction_extremes(args, begin, end);
  ASSERT_TRUE(directions.low == low && directions.high == high);
  const uint64_t largest =
      begin == end ? 0 : std::max(magnitude(directions.low), magnitude(directions.high));
  args.direction_shift = std::max(exact_shift(largest, args.direction_bits) - 1, 0);  // some clip

  const Extremes values = kernels.step(args, begin, end);
  Extremes wanted_values;
  for (int64_t i = begin; i < end; ++i) {
    const Wide direction = exact_direction(before, args, i);
    wanted_values.saturated +=
        direction != exact_rne(exact_wide(before, args, i), args.direction_shift);
    const int64_t written = args.replaces_velocity() ? p.kept(i)
                            : p.sum_bits == 32       ? p.narrow[i]
                                                     : p.gradient[i];
    ASSERT_TRUE(written == direction);
    ASSERT_TRUE(args.replaces_velocity() || p.kept(i) == before.kept(i));
    const int64_t value = exact_value(before, args, i);
    wanted_values.low = std::min(wanted_values.low, value);
    wanted_values.high = std::max(wanted_values.high, value);
  }
  ASSERT_EQ(values.low, wanted_values.low);
  ASSERT_EQ(values.high, wanted_values.high);
  ASSERT_EQ(values.saturated, wanted_values.saturated);
  for (int64_t i = begin; i < end; ++i) check_split(p, i, exact_value(before, args, i), 0);
  if (begin == end) return;

  const int growth = lazy_growth(values.low, values.high, p.weight_bits, p.shift, 12);
  if (growth != 0) kernels.change_unit(args, growth, begin, end);
  for (int64_t i = begin; i < end; ++i) {
    const int64_t updated = exact_value(before, args, i);
    check_split(p, i, updated, growth);
    // Conservation: only the doublings of the unit lose anything, and together at most one unit.
    const Wide error = Wide{p.value(i)} * (Wide{1} << std::max(growth, 0)) -
                       Wide{updated} * (Wide{1} << std::max(-growth, 0));
    ASSERT_TRUE(error >= 0 && error < (Wide{1} << std::max(growth, 0)));
  }
}

TEST_P(UpdateTest, ConservesOverTheWholeSequence) {
  for (const int64_t size : kAwkwardSizes) {
    for (const int weight_bits : {4, 8, 16}) {
      for (const int shift : {0, 1, 3, 7, 15}) {
        for (const bool momentum : {false, true}) {
          for (const int update_shift : {-70, -30, -4, -1, 0, 1, 8, 20, 40, 62, 63, 80}) {
            for (const int sum_bits : {32, 64}) {
              Parameter parameter(size, weight_bits, shift, momentum, sum_bits);
              if (!momentum) {
                check_sequence(*GetParam(), parameter, update_shift, size > 1 ? 1 : 0);
                continue;
              }
              for (const int velocity_bits : {16, 32}) {
                parameter.velocity_bits = velocity_bits;
                for (const bool looks_ahead : {false, true}) {
                  parameter.looks_ahead = looks_ahead;
                  check_sequence(*GetParam(), parameter, update_shift, size > 1 ? 1 : 0);
                }
              }
            }
          }
        }
      }
    }
  }
}

// As in a table of embeddings: some rows have sums of zero, and nothing else moves their weights.
TEST_P(UpdateTest, SumsOfZero) {
  for (const int weight_bits : {8, 16}) {
    for (const int update_shift : {-4, 0, 8, 40}) {
      for (const int sum_bits : {32, 64}) {
        Parameter parameter(501, weight_bits, 15, false, sum_bits);
        parameter.decay = 0;
        for (int64_t i = 0; i < parameter.size; ++i) {
          if (i / 50 % 2 == 1) parameter.gradient[i] = 0;
        }
        check_sequence(*GetParam(), parameter, update_shift, 1);
      }
    }
  }
}

// u = floor((product + r) / 2^shift), with r's highest 32 bits from the key and the element.
TEST_P(UpdateTest, RoundsUpdatesStochastically) {
  for (const int update_shift : {-4, 0, 1, 8, 31, 32, 33, 50, 62, 63, 80}) {
    Parameter p(1001, 8, 7, true);
    Update args = p.args();
    args.update_shift = update_shift;
    args.stochastic = true;
    args.key = {.stream = RandomStream::kUpdate, .seed = 77, .micro_batch = 3, .tensor = 9};
    args.direction_shift = 45;
    const Parameter before = p;
    for (const int64_t middle : {0, 500}) {  // in parts, which do not end with a block
      const int64_t end = middle == 0 ? 500 : p.size;
      GetParam()->step(args, middle, end);
    }
    std::vector<int64_t> values(p.size);
    for (int64_t i = 0; i < p.size; ++i) {
      const Wide direction = exact_direction(before, args, i);
      Wide update = exact_update(direction, args);
      if (update_shift > 0 && update_shift <= 62) {
        const uint32_t word = random_block(args.key, static_cast<uint32_t>(i / 4))[i % 4];
        const Wide r = (Wide{word} << update_shift) >> 32;
        update = (direction * args.rate_multiplier + r) >> update_shift;
      }
      values[i] = static_cast<int64_t>(before.value(i) - update);
      check_split(p, i, values[i], 0);
    }
    // The same random numbers once more.
    for (const int growth : {-1, 2}) {
      Parameter changed = p;
      Update again = args;
      again.weights = changed.weights8.data();
      again.accumulator = changed.accumulator.data();
      again.velocity = changed.velocity.data();
      GetParam()->change_unit(again, growth, 0, 333);
      GetParam()->change_unit(again, growth, 333, p.size);
      for (int64_t i = 0; i < p.size; ++i) check_split(changed, i, values[i], growth);
    }
  }
}

TEST_P(UpdateTest, StochasticUpdatesKeepTheMean) {
  constexpr int64_t kCount = 100'000;
  for (const int64_t direction : {1, 300, -1, -700}) {
    Parameter p(kCount, 8, 0, false);
    std::fill(p.weights8.begin(), p.weights8.end(), int8_t{0});
    std::fill(p.gradient.begin(), p.gradient.end(), direction);
    Update args = p.args();
    args.gradient_shift = 0;
    args.gradient_multiplier = args.rate_multiplier = 1;
    args.update_shift = 10;
    args.stochastic = true;
    args.key = {.stream = RandomStream::kUpdate, .seed = 1};
    GetParam()->step(args, 0, kCount);
    double mean = 0;
    for (const int8_t value : p.weights8) mean -= static_cast<double>(value) / kCount;
    const double wanted = static_cast<double>(direction) / 1024;
    const double up = wanted - std::floor(wanted);  // the part that is rounded up
    EXPECT_NEAR(mean, wanted, 5 * std::sqrt(up * (1 - up) / kCount)) << direction;
  }
}

// Clipping of a step is known before the step. The velocity is not written to find it out.
TEST_P(UpdateTest, CountsClippedDirections) {
  for (const int direction_shift : {0, 30, 38, 42, 45, 50, 62}) {
    Parameter p(1001, 8, 7, true);
    Update args = p.args();
    args.direction_shift = direction_shift;
    const Parameter before = p;
    int64_t expected = 0;
    for (int64_t i = 0; i < p.size; ++i) {
      const Wide rounded = exact_rne(exact_wide(p, args, i), direction_shift);
      expected += rounded > 32767 || rounded < -32767;
    }
    WideCounts counts(16, direction_shift, INT64_MAX);
    GetParam()->count_directions(args, 0, 333, &counts);
    GetParam()->count_directions(args, 333, p.size, &counts);
    int64_t clipped = 0;
    for (int shift = direction_shift + 1; shift <= WideCounts::kMostShift; ++shift) {
      clipped += counts.needing(shift);
    }
    EXPECT_EQ(clipped, expected) << direction_shift;
    EXPECT_EQ(p.velocity, before.velocity);
    EXPECT_EQ(GetParam()->step(args, 0, p.size).saturated, expected) << direction_shift;
  }
}

// Bits of g and of the multipliers of g, v and V.
struct Lengths {
  int g, gradient_multiplier, velocity_multiplier, decay_multiplier;
};

// `wide` of eight elements at a time: enough to fill vectors.
void check_wide(const UpdateKernels& kernels, const Parameter& p, const Update& args) {
  for (int64_t begin = 0; begin < p.size; begin += 8) {
    const int64_t end = std::min(begin + 8, p.size);
    Wide low = INT64_MAX, high = INT64_MIN;
    for (int64_t i = begin; i < end; ++i) {
      low = std::min(low, exact_wide(p, args, i));
      high = std::max(high, exact_wide(p, args, i));
    }
    const Extremes found = kernels.direction_extremes(args, begin, end);
    ASSERT_TRUE(found.low == low && found.high == high)
        << begin << ", multipliers " << args.gradient_multiplier << " " << args.velocity_multiplier
        << " " << args.decay_multiplier;
  }
}

void check_directions(const UpdateKernels& kernels, const Lengths& bits, int weight_bits,
                      int velocity_bits, int gradient_shift, int sign) {
  Parameter p(1001, weight_bits, 15, true);
  p.velocity_bits = velocity_bits;
  p.gradient = test_values<int64_t>(p.size, 5, bits.g + gradient_shift);
  p.gradient[17] = int64_t{1} << (bits.g + gradient_shift);  // the largest, which no int32 holds
  const auto multiplier = [&](int length) { return sign * ((int64_t{1} << length) - 3); };
  Update args = p.args();
  args.gradient_shift = gradient_shift;
  args.gradient_multiplier = multiplier(bits.gradient_multiplier);
  args.velocity_multiplier = multiplier(bits.velocity_multiplier + 16 - velocity_bits);
  args.decay_multiplier = multiplier(bits.decay_multiplier + 16 - weight_bits);
  check_wide(kernels, p, args);
}

TEST_P(UpdateTest, DirectionsOfEveryLength) {
  for (const Lengths& bits : {Lengths{31, 28, 44, 28}, Lengths{31, 1, 1, 1}, Lengths{27, 32, 31, 2},
                              Lengths{26, 33, 32, 24}, Lengths{15, 44, 33, 23}}) {
    for (const int weight_bits : {8, 16}) {
      for (const int gradient_shift : {0, 1, 20}) {
        for (const int sign : {1, -1}) {
          check_directions(*GetParam(), bits, weight_bits, 16, gradient_shift, sign);
          if (bits.velocity_multiplier < 20) continue;
          check_directions(*GetParam(), bits, weight_bits, 32, gradient_shift, sign);
        }
      }
    }
  }
}

// Sums of 32 bits are shifted either way; their multipliers may then be longer.
TEST_P(UpdateTest, DirectionsOfNarrowSums) {
  for (const int gradient_shift : {-31, -17, -1, 0, 1, 13, 31, 62, 90}) {
    for (const int weight_bits : {8, 16}) {
      Parameter p(1001, weight_bits, 15, true, 32);
      p.gradient = test_values<int64_t>(p.size, 6, std::clamp(31 + gradient_shift, 1, 30));
      p.gradient[17] = gradient_shift < 0 ? 0 : INT32_MIN + 1;
      Update args = p.args();
      args.gradient_shift = gradient_shift;
      args.gradient_multiplier = (1 << 28) - 3;
      check_wide(*GetParam(), p, args);
    }
  }
}

TEST_P(UpdateTest, Sketches) {
  for (const int64_t size : kAwkwardSizes) {
    for (const int sum_bits : {32, 64}) {
      Parameter p(size, 8, 15, true, sum_bits);
      for (const int gradient_shift : {0, 3, 16, 31, 47, 62}) {
        if (gradient_shift >= sum_bits) continue;
        for (const int factor : {0, 1, 23170, 32767}) {
          const DirectionSketch sketch{p.velocity.data(), gradient_shift, 32767 - factor, factor};
          const int64_t begin = size > 1 ? 1 : 0;
          Extremes gradient, direction;
          for (int64_t i = begin; i < size; ++i) {
            const int64_t d = static_cast<int16_t>(p.gradient[i] >> gradient_shift) *
                                  int64_t{sketch.gradient_factor} +
                              p.velocity[i] * int64_t{sketch.velocity_factor};
            gradient = {std::min(gradient.low, p.gradient[i]),
                        std::max(gradient.high, p.gradient[i])};
            direction = {std::min(direction.low, d), std::max(direction.high, d)};
          }
          const SketchExtremes found = GetParam()->sketch_extremes(p.sums(), sketch, begin, size);
          ASSERT_EQ(found.gradient.low, gradient.low);
          ASSERT_EQ(found.gradient.high, gradient.high);
          ASSERT_EQ(found.direction.low, direction.low);
          ASSERT_EQ(found.direction.high, direction.high);
        }
      }
    }
  }
}

// Small values shrink the unit, large updates grow it; several steps in a row on the same state.
TEST_P(UpdateTest, GrowsAndShrinks) {
  bool grew = false, shrank = false;
  Parameter p(1000, 8, 15, true);
  for (int step = 0; step < 40; ++step) {
    p.gradient = test_values<int64_t>(p.size, static_cast<uint64_t>(100 + step), 45);
    Update args = p.args();
    const Extremes directions = GetParam()->direction_extremes(args, 0, p.size);
    args.direction_shift =
        exact_shift(std::max(magnitude(directions.low), magnitude(directions.high)), 16);
    // Ten steps that hardly move, then ten that jump.
    args.update_shift = step / 10 % 2 == 0 ? 24 : 6;
    if (step % 10 == 0) {
      for (auto& weight : p.weights8) weight = static_cast<int8_t>(weight / 8);
    }
    const Parameter before = p;
    const Extremes values = GetParam()->step(args, 0, p.size);
    const int growth = lazy_growth(values.low, values.high, 8, 15, 12);
    grew |= growth > 0;
    shrank |= growth < 0;
    if (growth != 0) GetParam()->change_unit(args, growth, 0, p.size);
    for (int64_t i = 0; i < p.size; ++i) {
      check_split(p, i, exact_value(before, args, i), growth);
      ASSERT_LE(magnitude(p.weight(i)), 127u);
    }
  }
  EXPECT_TRUE(grew && shrank);
}

// V' of every length: a direction, in place of the gradient, times a rate.
TEST_P(UpdateTest, ChangesTheUnitByEveryGrowth) {
  for (int growth = -12; growth <= 70; ++growth) {
    for (const int shift : {0, 1, 15}) {
      for (const int sum_bits : {32, 64}) {
        const int bits = std::clamp(14 + shift + growth, 1, 61);
        Parameter p(1000, 16, shift, false, sum_bits);
        p.gradient = test_values<int64_t>(p.size, 9, std::min(bits, 30));
        Update args = p.args();
        args.gradient_shift = args.update_shift = 0;
        args.gradient_multiplier = 1;
        args.decay_multiplier = 0;  // the direction is the gradient
        args.rate_multiplier = std::max((int64_t{1} << std::max(bits - 30, 0)) - 1, int64_t{1});
        const Parameter before = p;
        GetParam()->step(args, 0, p.size);
        GetParam()->change_unit(args, growth, 0, p.size);
        for (int64_t i = 0; i < p.size; ++i) {
          check_split(p, i, exact_value(before, args, i), growth);
        }
      }
    }
  }
}

#if defined(__x86_64__)
INSTANTIATE_TEST_SUITE_P(Rows, UpdateTest,
                         testing::Values(&kUpdateReference, &kUpdateAvx2, &kUpdateAvx512Vnni),
                         row_name);
#else
INSTANTIATE_TEST_SUITE_P(Rows, UpdateTest, testing::Values(&kUpdateReference), row_name);
#endif

}  // namespace
}  // namespace mantissa::kernels
