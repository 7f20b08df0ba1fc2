// Nesterov, Adam and the sum of squares: every row against the definitions in 128 bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "kernels/common/test_rows.h"
#include "kernels/elementwise/test_values.h"
#include "kernels/update/update.h"
#include "numerics/rounding.h"

namespace mantissa::kernels {
namespace {

class OptimizerTest : public RowTest<UpdateKernels> {};

// With velocities of type T.
template <typename T>
void check_look_ahead(const UpdateKernels& kernels, int64_t size, int shift) {
  constexpr int kBits = 8 * sizeof(T);
  std::vector<int64_t> gradient = test_values<int64_t>(size, 1, shift + kBits - 1);
  std::vector<int8_t> weights = test_values<int8_t>(size, 3, 7);
  std::vector<T> velocity = test_values<T>(size, 2, kBits - 1);
  const std::vector<T> old = velocity;
  Update args;
  std::vector<int32_t> narrow(gradient.begin(), gradient.end());
  args.gradient = {gradient.data()};
  if (shift == 1 && kBits == 16) args.gradient = {narrow.data(), 32};
  args.gradient_multiplier = 1;
  args.weights = weights.data();
  args.shift = 3;
  args.decay_multiplier = int64_t{1} << shift;
  args.velocity = velocity.data();
  args.direction_bits = kBits;
  args.direction_shift = shift;
  args.velocity_multiplier = (int64_t{1} << shift) - 7;
  const int64_t found = kernels.look_ahead(args, 0, size);
  int64_t saturated = 0;
  for (int64_t i = 0; i < size; ++i) {
    const Wide wide = Wide{gradient[i]} + Wide{old[i]} * args.velocity_multiplier +
                      Wide{weights[i]} * 8 * args.decay_multiplier;
    const Wide rounded = exact_rne(wide, shift);
    const Wide next = exact_saturate(rounded, mantissa_limit(kBits));
    saturated += next != rounded;
    ASSERT_EQ(velocity[i], static_cast<int64_t>(next));
  }
  ASSERT_EQ(found, saturated);
}

TEST_P(OptimizerTest, LookAheadReplacesTheVelocity) {
  for (const int64_t size : kAwkwardSizes) {
    for (const int shift : {0, 1, 30, 46}) check_look_ahead<int16_t>(*GetParam(), size, shift);
    for (const int shift : {0, 1, 29}) check_look_ahead<int32_t>(*GetParam(), size, shift);
  }
}

TEST_P(OptimizerTest, SumsOfSquaresAreExact) {
  for (const int64_t size : kAwkwardSizes) {
    for (const int shift : {0, 1, 13, 29}) {
      std::vector<int64_t> gradient = test_values<int64_t>(size, 3, 31 + shift);
      if (size > 0) gradient[0] = -(int64_t{1} << (31 + shift));
      unsigned __int128 exact = 0;
      for (const int64_t g : gradient) {
        const auto rounded = static_cast<int64_t>(exact_rne(g, shift));
        exact += static_cast<unsigned __int128>(Wide{rounded} * rounded);
      }
      const SquareSum sum = GetParam()->sum_of_squares({gradient.data()}, shift, 0, size);
      ASSERT_TRUE((static_cast<unsigned __int128>(sum.high) << 32) + sum.low == exact);
    }
  }
}

TEST_P(OptimizerTest, SumsOfSquaresOfNarrowSums) {
  for (const int shift : {-20, -1, 0, 1, 13, 40}) {
    const std::vector<int64_t> values = test_values<int64_t>(1001, 3, std::min(31 + shift, 31));
    std::vector<int32_t> gradient(values.begin(), values.end());
    unsigned __int128 exact = 0;
    for (const int64_t g : values) {
      const Wide scaled = shift < 0 ? Wide{g} * (1 << -shift) : exact_rne(g, shift);
      exact += static_cast<unsigned __int128>(scaled * scaled);
    }
    const SquareSum sum = GetParam()->sum_of_squares({gradient.data(), 32}, shift, 0, 1001);
    ASSERT_TRUE((static_cast<unsigned __int128>(sum.high) << 32) + sum.low == exact);
  }
}

// The definition of update.h, in integers alone.
struct Expected {
  int64_t g, first_sum, square, first, root, direction;
  int64_t saturated;
};

int64_t exact_root(int64_t n) {
  int64_t low = 0, high = int64_t{1} << 31;
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    (Wide{middle} * middle <= n ? low : high) = middle;
  }
  return low;
}

int64_t exact_quotient(Wide n, int64_t d) {  // to nearest, ties to even
  const Wide doubled = 2 * n + d;
  Wide quotient = doubled / (2 * Wide{d});
  const Wide rest = doubled % (2 * Wide{d});
  if (rest < 0) --quotient;
  if (rest == 0 && quotient % 2 != 0) --quotient;
  return static_cast<int64_t>(exact_saturate(quotient, kAdamDirectionLimit));
}

// `wide` is the update's, at direction_shift.
Expected expected(const Adam& args, int64_t wide, int direction_shift, int64_t m, int64_t s) {
  Expected e{};
  e.g = static_cast<int64_t>(exact_saturate(exact_rne(wide, direction_shift), INT32_MAX));
  const Wide first_sum = Wide{e.g} * args.gradient_multiplier + Wide{m} * args.first_multiplier;
  e.first_sum = static_cast<int64_t>(first_sum);
  const Wide h = exact_rne(e.g < 0 ? -e.g : e.g, args.magnitude_shift);
  const Wide r = args.root_align >= 0 ? Wide{s} << args.root_align : exact_rne(s, -args.root_align);
  const Wide old_weight = (Wide{1} << 24) - args.square_multiplier;
  e.square = static_cast<int64_t>((r * r * old_weight + h * h * args.square_multiplier) >> 10);
  const Wide size = first_sum < 0 ? -first_sum : first_sum;
  const Wide cut = (size + args.first_offset) >> args.first_shift;
  const Wide rounded = first_sum < 0 ? -cut : cut;
  e.first = static_cast<int64_t>(exact_saturate(rounded, 32767));
  const int64_t root = (exact_root(e.square) + args.root_offset) >> args.root_shift;
  e.root = std::max(std::min<int64_t>(root, 32767), args.root_floor);
  e.saturated = (rounded != e.first) + (root > 32767);
  if (args.numerator_shift < 0) return e;
  const int64_t denominator = std::max<int64_t>(1, e.root * args.root_multiplier + args.epsilon);
  const Wide numerator = Wide{e.first} << args.numerator_shift;
  e.direction = exact_quotient(numerator, denominator);
  const Wide largest = Wide{denominator} * kAdamDirectionLimit;
  e.saturated += numerator > largest || numerator < -largest;
  return e;
}

struct AdamCase {
  int direction_shift, magnitude_shift, root_align, root_shift, numerator_shift;
  int64_t square_multiplier, root_multiplier, epsilon, root_floor;
};

// With floating point, and without it.
constexpr decltype(&UpdateKernels::adam_direction) kAdamDirections[] = {
    &UpdateKernels::adam_direction, &UpdateKernels::adam_direction_in_integers};

// `wide` is the gradient shifted left: sums of 32 bits are shifted, sums of 64 bits multiplied.
// With `idle` there is no decay, and some rows, as in a table, have g and m of zero. Their s differ
// within a row, or are the same, also 0 and the largest.
void check_adam(const UpdateKernels& kernels, decltype(kAdamDirections[0]) direction,
                const AdamCase& c, int sum_bits, int64_t size, int64_t begin, bool idle = false) {
  const bool narrow = sum_bits == 32;
  std::vector<int64_t> gradient = test_values<int64_t>(size, 4, 31);
  std::vector<int8_t> weights(static_cast<size_t>(size), 1);
  std::vector<int16_t> first = test_values<int16_t>(size, 5, 15);
  std::vector<int16_t> root = test_values<int16_t>(size, 6, 15);
  for (auto& s : root) s = static_cast<int16_t>(std::min(std::abs(int{s}), 32767));
  constexpr int kRow = 40;
  constexpr int16_t kRoots[] = {-1, 1, 1, 1234, 0, 32767};
  for (int64_t i = 0; i < size && idle; ++i) {
    const int64_t row = i / kRow % (2 * std::ssize(kRoots));
    if (row % 2 == 0) continue;
    gradient[i] = first[i] = 0;
    if (kRoots[row / 2] >= 0) root[i] = kRoots[row / 2];
  }
  std::vector<int32_t> gradient32(gradient.begin(), gradient.end());
  const int64_t decay = idle ? 0 : 77;
  const std::vector<int64_t> gradients = gradient;
  const std::vector<int16_t> firsts = first, roots = root;
  Update update;
  update.gradient = narrow ? GradientSums{gradient32.data(), 32} : GradientSums{gradient.data()};
  update.gradient_shift = narrow ? -c.direction_shift : 0;
  update.gradient_multiplier = narrow ? 1 : int64_t{1} << c.direction_shift;
  update.weights = weights.data();
  update.decay_multiplier = decay;
  update.direction_bits = 32;
  update.direction_shift = c.direction_shift;
  const auto expected_at = [&](const Adam& args, int64_t i) {
    const int64_t wide = (gradients[i] << c.direction_shift) + (decay << update.shift);
    return expected(args, wide, c.direction_shift, firsts[i], roots[i]);
  };
  Adam args{.first = first.data(), .root = root.data()};
  args.gradient_multiplier = (int64_t{1} << 28) - 5;
  args.first_multiplier = (int64_t{1} << 44) - 9;
  args.magnitude_shift = c.magnitude_shift;
  args.root_align = c.root_align;
  args.square_multiplier = c.square_multiplier;
  args.first_shift = 44;
  args.first_offset = (int64_t{1} << 44) * 2 / 3;
  args.root_shift = c.root_shift;
  args.root_offset = (int64_t{1} << c.root_shift) * 2 / 3;
  args.root_floor = c.root_floor;
  args.numerator_shift = c.numerator_shift;
  args.root_multiplier = c.root_multiplier;
  args.epsilon = c.epsilon;
  const AdamExtremes extremes = kernels.adam_extremes(update, args, begin, size);
  Expected all{};
  all.first_sum = INT64_MIN;
  int64_t least = INT64_MAX;
  for (int64_t i = begin; i < size; ++i) {
    const Expected e = expected_at(args, i);
    ASSERT_EQ(narrow ? gradient32[i] : gradient[i], e.g);
    least = std::min(least, e.first_sum);
    all.first_sum = std::max(all.first_sum, e.first_sum);
    all.square = std::max(all.square, e.square);
    all.saturated += e.saturated;
  }
  ASSERT_EQ(extremes.first.high, all.first_sum);
  ASSERT_EQ(extremes.first.low, least);
  ASSERT_EQ(extremes.largest_square, all.square);
  ASSERT_EQ((kernels.*direction)(update.gradient, args, begin, size), all.saturated);
  for (int64_t i = begin; i < size; ++i) {
    const Expected e = expected_at(args, i);
    ASSERT_EQ(first[i], e.first) << i;
    ASSERT_EQ(root[i], e.root) << i;
    ASSERT_EQ(narrow ? gradient32[i] : gradient[i], e.direction) << i;
  }
}

TEST_P(OptimizerTest, AdamIsItsDefinition) {
  const int64_t whole = int64_t{1} << 24;
  const AdamCase cases[] = {
      {0, 12, 4, 11, 30, 16777, 1 << 12, 300, 1},       // as usual
      {20, 12, -3, 6, 33, 16777, (1 << 13) - 1, 0, 1},  // the gradient is large
      {20, 40, 4, 11, 28, 16777, 1 << 13, 0, 1},        // it is small
      {1, 62, -62, 0, 46, 16777, 1, 1 << 28, 0},        // neither counts; epsilon does
      {0, 12, 4, 11, 0, whole, 1 << 13, 1 << 28, 1},    // no memory
      {0, 12, 4, 11, 20, 0, 0, 0, 0},                   // no new squares, no denominator
      {3, 13, 0, 8, -1, 167772, 5432, 12345, 1},        // a direction of zero
      {3, 12, 4, 0, 17, 1678, 3, 0, 1},                 // roots that are clipped
  };
  for (const AdamCase& c : cases) {
    for (const int64_t size : kAwkwardSizes) {
      for (const int sum_bits : {32, 64}) {
        for (const auto direction : kAdamDirections) {
          check_adam(*GetParam(), direction, c, sum_bits, size, size > 1 ? 1 : 0);
          if (HasFatalFailure()) return;
        }
      }
    }
    for (const int sum_bits : {32, 64}) {
      for (const auto direction : kAdamDirections) {
        check_adam(*GetParam(), direction, c, sum_bits, 1001, 1, true);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// Roots and quotients near the place where a double could round to the wrong side.
TEST_P(OptimizerTest, RootsOfSquaresAndTheirNeighbours) {
  for (int64_t s = 1; s <= 32767; s += 37) {
    for (const int align : {0, 4}) {
      int64_t gradient = 0;
      int8_t weight = 0;
      int16_t first = 1, root = static_cast<int16_t>(s);
      Update update;
      update.gradient = {&gradient};
      update.weights = &weight;
      update.gradient_multiplier = 1;
      update.direction_bits = 32;
      Adam args{.first = &first, .root = &root};
      args.root_align = align;
      args.square_multiplier = s % 3;
      args.first_multiplier = 32767;
      args.numerator_shift = 20;
      args.root_multiplier = 8192 - s % 5;
      const Expected e = expected(args, gradient, 0, first, root);
      GetParam()->adam_extremes(update, args, 0, 1);
      for (const auto direction : kAdamDirections) {
        int64_t g = gradient;
        int16_t m = first, r = root;
        Adam own = args;
        own.first = &m;
        own.root = &r;
        (GetParam()->*direction)({&g}, own, 0, 1);
        ASSERT_EQ(r, e.root) << s;
        ASSERT_EQ(m, e.first) << s;
        ASSERT_EQ(g, e.direction) << s;
      }
    }
  }
}

// Quotients that end in a half, and their neighbours a unit of the numerator away; roots of 2^52,
// whose approximations are worst.
TEST_P(OptimizerTest, AdamsLargestRootsAndHalfQuotients) {
  constexpr int64_t kSize = 4096;
  for (const int64_t divisor : {2, 6, 10, 8190, 8191}) {
    std::vector<int64_t> gradient(kSize);
    std::vector<int16_t> first(kSize), root(kSize);
    for (int64_t i = 0; i < kSize; ++i) {
      gradient[i] = (int64_t{1} << 30) + 7 * i;
      first[i] = static_cast<int16_t>(divisor * (2 * i - kSize + 1) / 2 % 32768 + i % 3 - 1);
      root[i] = static_cast<int16_t>(32767 - i % 2048);
    }
    const std::vector<int64_t> gradients = gradient;
    const std::vector<int16_t> firsts = first, roots = root;
    Adam args{.first = first.data(), .root = root.data()};
    args.first_multiplier = 1;
    args.magnitude_shift = 12;
    args.root_align = 4;
    args.square_multiplier = 9 << 20;
    args.root_shift = 11;
    args.epsilon = divisor;
    int64_t saturated = 0;
    std::vector<Expected> all;
    for (int64_t i = 0; i < kSize; ++i) {
      all.push_back(expected(args, gradients[i], 0, firsts[i], roots[i]));
      saturated += all.back().saturated;
    }
    for (const auto direction : kAdamDirections) {
      gradient = gradients, first = firsts, root = roots;
      ASSERT_EQ((GetParam()->*direction)({gradient.data()}, args, 0, kSize), saturated);
      for (int64_t i = 0; i < kSize; ++i) {
        ASSERT_EQ(first[i], all[i].first) << i;
        ASSERT_EQ(root[i], all[i].root) << i;
        ASSERT_EQ(gradient[i], all[i].direction) << i << " by " << divisor;
      }
    }
  }
}

#if defined(__x86_64__)
INSTANTIATE_TEST_SUITE_P(Rows, OptimizerTest,
                         testing::Values(&kUpdateReference, &kUpdateAvx2, &kUpdateAvx512Vnni),
                         row_name);
#else
INSTANTIATE_TEST_SUITE_P(Rows, OptimizerTest, testing::Values(&kUpdateReference), row_name);
#endif

}  // namespace
}  // namespace mantissa::kernels
