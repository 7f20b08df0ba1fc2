// Rows by constant places and by indices of an example; refusals.
#include <gtest/gtest.h>

#include "tests/operators/single_op.h"

namespace mantissa::testing {
namespace {

using Numbers = std::vector<int>;

// Two sequences of three positions of two channels.
const Mantissas kSequences{{1, -2, 3, 4, -5, 127, 11, 12, 13, 14, 15, -127}, -3, 8};

TEST(GatherRows, TakesConstantPlacesAndAddsTheirGradients) {
  SingleOp op(ops::kGatherRows, {{"rows", WholeList{2, 0, 2, 2}}}, {{3, 2}}, 2, 2);
  const Mantissas taken = op.forward({kSequences});
  EXPECT_EQ(taken.values, (Numbers{-5, 127, 1, -2, -5, 127, -5, 127,  //
                                   15, -127, 11, 12, 15, -127, 15, -127}));
  EXPECT_EQ(taken.exponent, -3);
  const Mantissas grad{{1, 2, 3, 4, 5, 6, 7, 8, 100, 0, 0, 0, 100, 0, 55, 1}, -9, 16};
  const Mantissas back = op.backward({kSequences}, grad, 16)[0];
  std::vector<__int128> sums = {3, 4, 0, 0, 13, 16, 0, 0, 0, 0, 255, 1};
  EXPECT_EQ(back, narrowed(sums, -9, 16));
}

// Indices of each example; those beyond the sequence give zeros, and nothing comes back.
TEST(GatherRows, TakesIndices) {
  SingleOp op(ops::kGatherRows, {}, {{3, 2}, {2}}, 2);
  const Mantissas indices{{1, 3, -7, 0}, 0, 32};
  const Mantissas taken = op.forward({kSequences, indices});
  EXPECT_EQ(taken.values, (Numbers{3, 4, 0, 0, 0, 0, 11, 12}));
  const Mantissas grad{{1, 2, 3, 4, 5, 6, 7, 8}, -9, 16};
  EXPECT_EQ(op.backward({kSequences, indices}, grad, 16)[0],
            narrowed({0, 0, 1, 2, 0, 0, 7, 8, 0, 0, 0, 0}, -9, 16));
}

TEST(ScatterRows, PutsRowsAtConstantPlaces) {
  SingleOp op(ops::kScatterRows, {{"rows", WholeList{3, 0, 1}}, {"positions", 5}}, {{3, 2}}, 2, 2);
  const Mantissas put = op.forward({kSequences});
  EXPECT_EQ(put.values, (Numbers{3, 4, -5, 127, 0, 0, 1, -2, 0, 0,  //
                                 13, 14, 15, -127, 0, 0, 11, 12, 0, 0}));
  EXPECT_EQ(put.exponent, -3);
  Numbers numbers;
  for (int i = 0; i < 20; ++i) numbers.push_back(i + 1);
  const Mantissas back = op.backward({kSequences}, {numbers, -9, 16}, 16)[0];
  EXPECT_EQ(back.values, (Numbers{7, 8, 1, 2, 3, 4, 17, 18, 11, 12, 13, 14}));
  EXPECT_EQ(back.exponent, -9);
}

// Of two rows at one place the last stays, and it alone has a gradient.
TEST(ScatterRows, PutsRowsAtIndices) {
  SingleOp op(ops::kScatterRows, {{"positions", 2}}, {{3, 2}, {3}}, 2);
  const Mantissas indices{{1, 1, 0, 2, -1, 1}, 0, 32};
  EXPECT_EQ(op.forward({kSequences, indices}).values, (Numbers{-5, 127, 3, 4, 0, 0, 15, -127}));
  const Mantissas grad{{1, 2, 3, 4, 5, 6, 7, 8}, -9, 16};
  EXPECT_EQ(op.backward({kSequences, indices}, grad, 16)[0].values,
            (Numbers{0, 0, 3, 4, 1, 2, 0, 0, 0, 0, 7, 8}));
}

std::string refusal(const Op& op, const Attributes& attributes, std::vector<Shape> shapes) {
  const auto shape = output_shape(op, attributes, shapes);
  return shape.ok() ? "" : shape.error().message;
}

TEST(GatherRows, Refuses) {
  const auto expect = [](const std::string& message, const char* part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  expect(refusal(ops::kGatherRows, {{"rows", WholeList{0, 3}}}, {{3, 2}}),
         "names row 3 of 3 positions");
  expect(refusal(ops::kGatherRows, {}, {{3, 2}}), "wants rows");
  expect(refusal(ops::kGatherRows, {{"rows", WholeList{0}}}, {{3, 2}, {1}}), "not both");
  expect(refusal(ops::kGatherRows, {}, {{4, 3, 2}, {1}}), "indices [rows]");
  expect(refusal(ops::kGatherRows, {{"rows", WholeList{0}}}, {{3}}), "[..., positions, C]");
  expect(refusal(ops::kScatterRows, {{"rows", WholeList{0, 1, 0}}, {"positions", 5}}, {{3, 2}}),
         "two rows at position 0");
  expect(refusal(ops::kScatterRows, {{"rows", WholeList{0, 1}}, {"positions", 5}}, {{3, 2}}),
         "places of 2 rows, and its input has 3");
  expect(refusal(ops::kScatterRows, {{"rows", WholeList{0, 1, 5}}, {"positions", 5}}, {{3, 2}}),
         "names row 5 of 5 positions");
}

}  // namespace
}  // namespace mantissa::testing
