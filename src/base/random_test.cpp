#include "base/random.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <limits>
#include <set>

namespace mantissa {
namespace {

using Block = std::array<uint32_t, 4>;

// The known answers that Random123 publishes for philox4x32-10.
TEST(Philox, GivesTheKnownAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomBits, DifferInEveryPartOfTheKey) {
  std::set<uint64_t> seen;
  for (const uint64_t seed : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 32}) {
    for (const auto stream : {RandomStream::kInitialise, RandomStream::kShuffle,
                              RandomStream::kAugment, RandomStream::kRound}) {
      for (uint32_t a = 0; a < 5; ++a) {
        for (const uint64_t b : {uint64_t{0}, uint64_t{7}, uint64_t{1} << 32}) {
          EXPECT_TRUE(seen.insert(random_bits(seed, stream, a, b)).second);
        }
      }
    }
  }
}

RC_GTEST_PROP(UniformBelow, StaysBelowAndGrowsWithTheBits, ()) {
  const auto bound = *rc::gen::inRange<uint64_t>(1, std::numeric_limits<uint64_t>::max());
  const auto low = *rc::gen::arbitrary<uint64_t>();
  const auto high = *rc::gen::arbitrary<uint64_t>();
  RC_ASSERT(uniform_below(low, bound) < bound);
  RC_ASSERT((low <= high) == (uniform_below(low, bound) <= uniform_below(high, bound)) ||
            uniform_below(low, bound) == uniform_below(high, bound));
}

TEST(UniformBelow, ReachesBothEnds) {
  EXPECT_EQ(uniform_below(0, 10), 0u);
  EXPECT_EQ(uniform_below(std::numeric_limits<uint64_t>::max(), 10), 9u);
}

}  // namespace
}  // namespace mantissa
