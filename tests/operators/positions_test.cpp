// Positions without parameters: values and exponents by their definition in 128 bits on extremes,
// any threads, pieces of sequences, and refusals.
#include <gtest/gtest.h>

#include "ops/sequences/angles.h"
#include "scalars/circle.h"
#include "tests/operators/single_op.h"

namespace mantissa::testing {
namespace {

using Wide = __int128;

const Shape kShape{5, 3, 16};  // [5 sequences, 3 positions, C] for each example
constexpr int64_t kExamples = 2, kElements = kExamples * 5 * 3 * 16;

// Each row turned by its position's angles, in units of 2^-30 of the value's.
std::vector<Wide> turned(const Mantissas& x, int64_t heads, int64_t channels, bool interleaved,
                         int64_t first_position, int direction) {
  const int64_t head = 16 / heads, pairs = (channels == 0 ? head : channels) / 2;
  const ops::Angles angles = ops::angles_of_pairs(pairs, 10000);
  std::vector<Wide> wide;
  for (const int value : x.values) wide.push_back(Wide{value} << 30);
  for (int64_t at = 0; at < kElements; at += head) {
    const auto position = static_cast<uint64_t>(first_position + at / 16 % 3);
    for (int64_t i = 0; i < pairs; ++i) {
      const RefCirclePoint point = ref_circle_q30(angles[i] * position);
      const int64_t k = at + (interleaved ? 2 * i : i);
      const int64_t l = at + (interleaved ? 2 * i + 1 : pairs + i);
      const Wide a = x.values[k], b = x.values[l], sine = direction * point.sine;
      wide[k] = a * point.cosine - b * sine;
      wide[l] = a * sine + b * point.cosine;
    }
  }
  return wide;
}

TEST(Rotary, TurnsPairsOfChannelsByTheirPosition) {
  for (const int64_t heads : {1, 2, 4}) {
    for (const int64_t channels : {0, 2}) {
      for (const int64_t interleaved : {0, 1}) {
        for (const int64_t position : {0, 1, 8000}) {
          SingleOp op(ops::kRotary,
                      {{"heads", heads}, {"channels", channels}, {"interleaved", interleaved}},
                      {kShape}, kExamples, 2);
          op.scalars().position = position;
          for (const int bits : {8, 16}) {
            const Mantissas x = some_mantissas(kElements, bits, -5, 1);
            EXPECT_EQ(op.forward({x}, ExponentMode::kExact, 0, bits),
                      narrowed(turned(x, heads, channels, interleaved != 0, position, 1), -35, bits));
          }
          for (const int bits : {8, 16, 32}) {
            const Mantissas grad = some_mantissas(kElements, bits, -9, 2);
            EXPECT_EQ(op.backward({grad}, grad, bits)[0],
                      narrowed(turned(grad, heads, channels, interleaved != 0, position, -1), -39,
                               bits));
          }
        }
      }
    }
  }
}

// The first position turns nothing, and no position changes the length of a pair by more than the
// rounding.
TEST(Rotary, AddsToHalfATurnAndBack) {
  SingleOp op(ops::kRotary, {{"channels", 2}}, {Shape{1, 2}});
  EXPECT_EQ(op.forward({Mantissas{{100, -50}, -3}}), (Mantissas{{100, -50}, -3}));
  op.scalars().position = 710;  // 226 half turns, and 6e-5
  EXPECT_EQ(op.forward({Mantissas{{100, -50}, -3}}), (Mantissas{{100, -50}, -3}));
  op.scalars().position = 355;  // 113 half turns
  EXPECT_EQ(op.forward({Mantissas{{100, -50}, -3}}), (Mantissas{{-100, 50}, -3}));
}

TEST(Rotary, ThePiecesOfASequenceHaveTheBitsOfTheWhole) {
  constexpr int64_t kPositions = 40, kChannels = 24;
  const Attributes attributes = {{"heads", 3}, {"base", 300}};
  SingleOp whole(ops::kRotary, attributes, {Shape{kPositions, kChannels}}, 1, 3);
  const Mantissas x = some_mantissas(kPositions * kChannels, 8, -4, 3);
  const Mantissas wanted = whole.forward({x}, ExponentMode::kFixed, -3);
  for (int64_t first = 0; first < kPositions; first += 8) {
    SingleOp piece(ops::kRotary, attributes, {Shape{8, kChannels}});
    piece.scalars().position = first;
    const auto part = [&](const Mantissas& of) {
      return std::vector<int>(of.values.begin() + first * kChannels,
                              of.values.begin() + (first + 8) * kChannels);
    };
    EXPECT_EQ(piece.forward({Mantissas{part(x), -4}}, ExponentMode::kFixed, -3).values,
              part(wanted));
  }
}

std::string refusal(const Op& op, const Attributes& attributes, const Shape& shape) {
  const auto complete_attributes = complete(attributes, op.attributes);
  if (!complete_attributes.ok()) return complete_attributes.error().message;
  const auto found = output_shape(op, *complete_attributes, std::vector{shape});
  return found.ok() ? "" : found.error().message;
}

TEST(Rotary, RefusesOddPairsByNumber) {
  const auto of = [](const Attributes& attributes) {
    return refusal(ops::kRotary, attributes, Shape{4, 12});
  };
  EXPECT_EQ(of({{"heads", 2}, {"channels", 4}}), "");
  EXPECT_EQ(of({{"heads", 5}}),
            "wants heads that divide the channels, at most 16384, not 5 heads and 12 channels");
  EXPECT_EQ(of({{"heads", 4}}), "turns pairs of a head's 3 channels, so not 3 of them");
  EXPECT_EQ(of({{"heads", 2}, {"channels", 8}}),
            "turns pairs of a head's 6 channels, so not 8 of them");
  EXPECT_EQ(of({{"base", 0.5}}), "attribute 'base' is 0.5; wants 1 to 1e+09");
  EXPECT_EQ(refusal(ops::kRotary, {}, Shape{12}), "wants one [..., positions, C] input, and perhaps the starts of its segments");
}

TEST(SinusoidalPositions, AddSinesAndCosines) {
  const ops::Angles angles = ops::angles_of_pairs(8, 10000);
  for (const int64_t interleaved : {0, 1}) {
    for (const int exponent : {-40, -20, -5, 3}) {
      SingleOp op(ops::kSinusoidalPositions, {{"interleaved", interleaved}}, {kShape}, kExamples,
                  3);
      op.scalars().position = 70;
      const Mantissas x = some_mantissas(kElements, 16, exponent, 4);
      const int unit = std::min(exponent, -30);  // at most 40 bits below the larger
      std::vector<Wide> wide;
      for (int64_t i = 0; i < kElements; ++i) {
        const int64_t channel = i % 16, pair = interleaved != 0 ? channel / 2 : channel % 8;
        const bool is_sine = interleaved != 0 ? channel % 2 == 0 : channel < 8;
        const RefCirclePoint point =
            ref_circle_q30(angles[pair] * static_cast<uint64_t>(70 + i / 16 % 3));
        wide.push_back((Wide{x.values[i]} << (exponent - unit)) +
                       (Wide{is_sine ? point.sine : point.cosine} << (-30 - unit)));
      }
      for (const int bits : {8, 16}) {
        EXPECT_EQ(op.forward({x}, ExponentMode::kExact, 0, bits), narrowed(wide, unit, bits));
      }
      const Mantissas grad = some_mantissas(kElements, 16, -9, 5);
      EXPECT_EQ(op.backward({x}, grad, 16)[0], grad);
    }
  }
}

TEST(SinusoidalPositions, RefuseAnOddNumberOfChannels) {
  EXPECT_EQ(refusal(ops::kSinusoidalPositions, {}, Shape{4, 7}),
            "wants an even number of channels, at most 16384, not 7");
  EXPECT_EQ(refusal(ops::kSinusoidalPositions, {}, Shape{70000, 8}),
            "wants at most 65536 positions");
}

}  // namespace
}  // namespace mantissa::testing
