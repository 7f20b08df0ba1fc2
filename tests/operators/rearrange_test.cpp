// Padding, slices, reshape and channel shuffle: where elements go, both ways, in every width.
#include <gtest/gtest.h>

#include "tests/operators/single_op.h"

namespace mantissa::testing {
namespace {

constexpr int kRearrangedBits[] = {6, 8, 12, 16};

Mantissas counting(int64_t count, int exponent, int bits = 8) {
  Mantissas result{{}, exponent, bits};
  for (int64_t i = 1; i <= count; ++i) result.values.push_back(static_cast<int>(i % 31) + 1);
  return result;
}

TEST(Pad, PutsZerosAroundAndTakesThemAway) {
  const Attributes sides = {{"top", 1}, {"bottom", 2}, {"left", 2}, {"right", 0}};
  const Shape inner{2, 3, 2}, outer{5, 5, 2};
  for (const int threads : {1, 3}) {
    SingleOp op(ops::kPad, sides, {inner}, 3, threads);
    const Mantissas in = some_mantissas(3 * inner.count(), 8, -6, 1);
    const Mantissas out = op.forward({in});
    ASSERT_EQ(static_cast<int64_t>(out.values.size()), 3 * outer.count());
    EXPECT_EQ(out.exponent, -6);
    for (const int bits : kRearrangedBits) {
      const Mantissas grad = some_mantissas(3 * outer.count(), bits, -20, 2);
      const Mantissas back = op.backward({in}, grad, bits)[0];
      EXPECT_EQ(back.exponent, -20);
      for (int64_t i = 0; i < 3 * outer.count(); ++i) {
        const int64_t n = i / 50, y = i / 10 % 5 - 1, x = i / 2 % 5 - 2, c = i % 2;
        const bool inside = y >= 0 && y < 2 && x >= 0 && x < 3;
        const int64_t from = ((n * 2 + y) * 3 + x) * 2 + c;
        ASSERT_EQ(out.values[i], inside ? in.values[from] : 0) << i;
        if (inside) {
          ASSERT_EQ(back.values[from], grad.values[i]) << i;
        }
      }
    }
  }
}

TEST(Pad, RefusesNegativeSides) {
  for (const auto& sides : {Attributes{{"top", -1}}, Attributes{{"right", int64_t{1} << 40}}}) {
    const auto shape = output_shape(ops::kPad, sides, std::vector{Shape{2, 2, 1}});
    ASSERT_FALSE(shape.ok());
    EXPECT_NE(shape.error().message.find("wants 0 to 1048576"), std::string::npos)
        << shape.error().message;
  }
  EXPECT_FALSE(output_shape(ops::kPad, {}, std::vector{Shape{2}}).ok());
}

TEST(ChannelShuffle, DealsGroupsOutAndBack) {
  SingleOp op(ops::kChannelShuffle, {{"groups", 2}}, {Shape{1, 2, 6}});
  const Mantissas in = counting(12, -3);
  EXPECT_EQ(op.forward({in}), (Mantissas{{2, 5, 3, 6, 4, 7, 8, 11, 9, 12, 10, 13}, -3}));
  for (const int bits : kRearrangedBits) {
    const Mantissas grad{{2, 5, 3, 6, 4, 7, 8, 11, 9, 12, 10, 13}, -9, bits};
    EXPECT_EQ(op.backward({in}, grad, bits)[0], counting(12, -9, bits));
  }
}

TEST(ChannelShuffle, BackwardUndoesForwardWithAnyThreads) {
  for (const int64_t groups : {1, 3, 5, 15}) {
    for (const int threads : {1, 2, 3}) {
      SingleOp op(ops::kChannelShuffle, {{"groups", groups}}, {Shape{40, 50, 15}}, 2, threads);
      const Mantissas in = some_mantissas(2 * 40 * 50 * 15, 8, -3, 1);
      EXPECT_EQ(op.backward({in}, op.forward({in}), 8)[0], in) << groups;
    }
  }
}

TEST(ChannelShuffle, RefusesGroupsThatDoNotDivide) {
  const auto refusal = [](int64_t groups) {
    const auto shape =
        output_shape(ops::kChannelShuffle, {{"groups", groups}}, std::vector{Shape{2, 2, 6}});
    return shape.ok() ? "accepted" : shape.error().message;
  };
  EXPECT_EQ(refusal(0), "attribute 'groups' is 0; wants 1 or more");
  EXPECT_EQ(refusal(-1), "attribute 'groups' is -1; wants 1 or more");
  EXPECT_EQ(refusal(4), "wants groups that divide 6 channels");
}

TEST(Reverse, TurnsTheRowsOfEachSequence) {
  SingleOp op(ops::kReverse, {}, {Shape{2, 3, 2}});
  const Mantissas in = counting(12, -3);
  EXPECT_EQ(op.forward({in}), (Mantissas{{6, 7, 4, 5, 2, 3, 12, 13, 10, 11, 8, 9}, -3}));
  for (const int bits : kRearrangedBits) {
    const Mantissas grad{{6, 7, 4, 5, 2, 3, 12, 13, 10, 11, 8, 9}, -9, bits};
    EXPECT_EQ(op.backward({in}, grad, bits)[0], counting(12, -9, bits));
  }
}

TEST(Reverse, TwiceIsNothingWithAnyThreads) {
  for (const int threads : {1, 2, 3}) {
    SingleOp op(ops::kReverse, {}, {Shape{40, 51, 15}}, 2, threads);
    const Mantissas in = some_mantissas(2 * 40 * 51 * 15, 8, -3, 1);
    EXPECT_EQ(op.forward({op.forward({in})}), in);
    EXPECT_EQ(op.backward({in}, op.forward({in}), 8)[0], in);
  }
}

TEST(Reverse, RefusesVectors) {
  const auto shape = output_shape(ops::kReverse, {}, std::vector{Shape{6}});
  ASSERT_FALSE(shape.ok());
  EXPECT_EQ(shape.error().message, "wants one [..., positions, C] input");
}

TEST(Slice, TakesChannelsAndGivesTheOthersNoGradient) {
  const Shape whole{4, 5, 7};
  for (const int threads : {1, 3}) {
    for (const auto& [first, channels] : {std::pair{0, 3}, {2, 4}, {6, 1}, {0, 7}}) {
      SingleOp op(ops::kSlice, {{"first", first}, {"channels", channels}}, {whole}, 2, threads);
      const Mantissas in = some_mantissas(2 * whole.count(), 8, -6, 1);
      const Mantissas out = op.forward({in});
      const int64_t rows = 2 * whole.count() / 7;
      ASSERT_EQ(std::ssize(out.values), rows * channels);
      EXPECT_EQ(out.exponent, -6);
      for (const int bits : kRearrangedBits) {
        const Mantissas grad = some_mantissas(rows * channels, bits, -20, 2);
        const Mantissas back = op.backward({in}, grad, bits)[0];
        EXPECT_EQ(back.exponent, -20);
        for (int64_t i = 0; i < 2 * whole.count(); ++i) {
          const int64_t c = i % 7 - first, at = i / 7 * channels + c;
          const bool inside = c >= 0 && c < channels;
          if (inside) {
            ASSERT_EQ(out.values[at], in.values[i]) << i;
          }
          ASSERT_EQ(back.values[i], inside ? grad.values[at] : 0) << i;
        }
      }
    }
  }
}

TEST(Slice, RefusesChannelsThatAreNotThere) {
  for (const auto& [first, channels] :
       {std::pair{0, int64_t{8}}, {5, int64_t{3}}, {7, int64_t{1}}, {1, INT64_MAX}}) {
    const auto shape = output_shape(ops::kSlice, {{"first", first}, {"channels", channels}},
                                    std::vector{Shape{2, 2, 7}});
    ASSERT_FALSE(shape.ok());
    EXPECT_NE(shape.error().message.find("and its input has 7"), std::string::npos)
        << shape.error().message;
  }
}

// The last but one dimension of [4, 5, 7] goes: one position is taken of each of the four
// sequences.
TEST(Slice, TakesOnePositionAndGivesTheOthersNoGradient) {
  const Shape whole{4, 5, 7};
  for (const int threads : {1, 3}) {
    for (const int position : {0, 2, 4}) {
      for (const auto& [first, channels] : {std::pair{0, 7}, {2, 4}}) {
        SingleOp op(ops::kSlice, {{"first", first}, {"channels", channels}, {"position", position}},
                    {whole}, 2, threads);
        const Mantissas in = some_mantissas(2 * whole.count(), 8, -6, 1);
        const Mantissas out = op.forward({in});
        ASSERT_EQ(std::ssize(out.values), 2 * 4 * channels);
        EXPECT_EQ(out.exponent, -6);
        for (const int bits : kRearrangedBits) {
          const Mantissas grad = some_mantissas(2 * 4 * channels, bits, -20, 2);
          const Mantissas back = op.backward({in}, grad, bits)[0];
          EXPECT_EQ(back.exponent, -20);
          for (int64_t i = 0; i < 2 * whole.count(); ++i) {
            const int64_t c = i % 7 - first, at = i / 35 * channels + c;
            const bool inside = i / 7 % 5 == position && c >= 0 && c < channels;
            if (inside) {
              ASSERT_EQ(out.values[at], in.values[i]) << i;
            }
            ASSERT_EQ(back.values[i], inside ? grad.values[at] : 0) << i;
          }
        }
      }
    }
  }
}

TEST(Slice, RefusesPositionsThatAreNotThere) {
  const auto of = [](int64_t position, const Shape& shape) {
    const auto result =
        output_shape(ops::kSlice, {{"channels", 7}, {"position", position}}, std::vector{shape});
    return result.ok() ? to_string(*result) : result.error().message;
  };
  const Attributes last = {{"channels", 7}, {"position", 4}};
  EXPECT_EQ(*output_shape(ops::kSlice, last, std::vector{Shape{5, 7}}), (Shape{7}));
  EXPECT_EQ(*output_shape(ops::kSlice, last, std::vector{Shape{3, 5, 7}}), (Shape{3, 7}));
  EXPECT_EQ(of(2, Shape{2, 7}), "wants position 2 of a [..., positions, C] input, not of [2, 7]");
  EXPECT_EQ(of(INT64_MAX, Shape{2, 7}).find("wants position 9223372036854775807"), 0u);
  EXPECT_EQ(of(0, Shape{7}), "wants position 0 of a [..., positions, C] input, not of [7]");
  EXPECT_NE(of(-2, Shape{2, 7}).find("'position' is -2"), std::string::npos);
}

std::string reshaped(const Attributes& attributes, const Shape& shape) {
  const auto result = output_shape(ops::kReshape, attributes, std::vector{shape});
  return result.ok() ? to_string(*result) : result.error().message;
}

TEST(Reshape, KeepsTheElements) {
  EXPECT_EQ(reshaped({{"channels", 24}}, Shape{2, 3, 4}), "[24]");
  EXPECT_EQ(reshaped({{"height", 4}, {"width", 3}, {"channels", 2}}, Shape{24}), "[4, 3, 2]");
  EXPECT_EQ(reshaped({{"width", 6}, {"channels", 4}}, Shape{2, 3, 4}), "[6, 4]");
  EXPECT_EQ(reshaped({{"width", 5}, {"channels", 4}}, Shape{24}), "cannot make [5, 4] of [24]");
  EXPECT_EQ(reshaped({{"height", 4}, {"width", 3}, {"channels", 3}}, Shape{24}),
            "cannot make [4, 3, 3] of [24]");
  EXPECT_EQ(reshaped({{"channels", 12}}, Shape{24}), "cannot make [12] of [24]");
  const std::string wants =
      "wants channels, or width and channels, or height too, or depth, of 24 elements in all";
  EXPECT_EQ(reshaped({}, Shape{24}), "wants channels");
  EXPECT_EQ(reshaped({{"height", 4}, {"channels", 6}}, Shape{24}), wants);
  EXPECT_EQ(reshaped({{"height", 1}, {"width", int64_t{1} << 60}, {"channels", 16}}, Shape{24}),
            wants);
}

}  // namespace
}  // namespace mantissa::testing
