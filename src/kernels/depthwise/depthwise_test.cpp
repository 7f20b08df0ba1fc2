// Depthwise rows and convolution by groups against the reference: bit for bit, for awkward shapes,
// extreme values and any number of threads.
#include "kernels/depthwise/depthwise.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <string>
#include <vector>

#include "kernels/convolution/test_subject.h"

namespace mantissa::kernels {
namespace {

using test::chosen_subjects;
using test::disagreement;
using test::Operands;
using test::Subject;
using test::Values;

constexpr Values kAllValues[] = {Values::kRandom, Values::kExtreme, Values::kAllMaximum,
                                 Values::kMixedSigns};

ConvolutionShape depthwise_of(int64_t batch, int64_t height, int64_t width, int64_t channels,
                              int64_t kernel, int64_t stride, int64_t padding) {
  return test::shape_of(batch, height, width, channels, channels, kernel, stride, padding,
                        channels);
}

std::vector<Subject> depthwise_subjects() {
  return test::fast_subjects({.shape = depthwise_of(1, 3, 3, 2, 3, 1, 1)});
}

// Groups by each dense row.
std::vector<Subject> grouped_subjects() {
  std::vector<Subject> subjects;
  for (const ConvolutionKernels* row : test::rows_for({})) {
    subjects.push_back(test::subject_of(kConvolutionGrouped, row));
    subjects.back().name += std::string(", ") + row->name;
  }
  return subjects;
}

const ConvolutionShape kDepthwiseShapes[] = {
    depthwise_of(1, 1, 1, 1, 1, 1, 0),     // smallest
    depthwise_of(2, 14, 14, 40, 3, 1, 1),  // MobileNet
    depthwise_of(2, 14, 14, 24, 3, 2, 1),  //
    depthwise_of(3, 7, 7, 33, 3, 1, 1),    // channels that fill no vector
    depthwise_of(3, 7, 7, 7, 3, 2, 1),     //
    depthwise_of(2, 15, 12, 20, 5, 1, 2),  //
    depthwise_of(2, 15, 12, 20, 5, 2, 2),  //
    depthwise_of(1, 20, 21, 17, 7, 1, 3),  //
    depthwise_of(1, 20, 21, 17, 7, 3, 2),  //
    depthwise_of(2, 9, 9, 16, 1, 1, 0),    // scale
    depthwise_of(2, 9, 9, 16, 1, 2, 0),    // pixels that no result reads
    depthwise_of(2, 9, 10, 16, 2, 2, 0),   //
    depthwise_of(2, 9, 10, 9, 2, 5, 1),    //
    depthwise_of(2, 4, 4, 10, 3, 1, 4),    // padding larger than needed
    depthwise_of(2, 4, 4, 10, 3, 2, 5),    //
    depthwise_of(2, 1, 1, 4, 1, 2, 1),     // no pixel reached
    depthwise_of(1, 5, 300, 8, 3, 1, 1),   // rows longer than the sums' depth
    depthwise_of(40, 4, 4, 8, 3, 1, 1),    //
    depthwise_of(1, 9, 14, 3, 16, 1, 8),   // 256 taps
    depthwise_of(1, 9, 14, 3, 17, 1, 8),   // more: int64 sums with wide gradients
    depthwise_of(1, 9, 14, 3, 33, 2, 16),  //
};

const ConvolutionShape kGroupedShapes[] = {
    test::shape_of(2, 8, 8, 16, 32, 3, 1, 1, 4),    // ResNeXt
    test::shape_of(2, 9, 8, 16, 32, 3, 2, 1, 4),    //
    test::shape_of(3, 7, 7, 6, 10, 3, 1, 1, 2),     //
    test::shape_of(3, 7, 5, 15, 9, 1, 1, 0, 3),     //
    test::shape_of(2, 6, 6, 8, 16, 3, 1, 1, 8),     // depthwise with two results a channel
    test::shape_of(2, 6, 6, 16, 8, 3, 2, 1, 8),     //
    test::shape_of(1, 8, 8, 130, 130, 3, 1, 1, 2),  //
    test::shape_of(17, 1, 1, 64, 48, 1, 1, 0, 4),   // linear
};

std::vector<Subject> joined(std::vector<Subject> first, const std::vector<Subject>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

TEST(Depthwise, FastRowsEqualTheReference) {
  const auto subjects = depthwise_subjects();
  for (const ConvolutionShape& shape : kDepthwiseShapes) {
    uint32_t seed = 1;
    for (const Values values : kAllValues) {
      EXPECT_EQ(disagreement(subjects, {shape, values, seed++}, {1, 2, 3, 5, 8}), "");
    }
    for (; seed < 27; ++seed) {  // all shifts
      const Values values = seed % 2 == 0 ? Values::kRandom : Values::kExtreme;
      EXPECT_EQ(disagreement(subjects, {shape, values, seed}, {2}), "");
    }
  }
}

// 32767.5 and 127.5 are ties, which go to the even number above and are clipped; one less is not.
TEST(Depthwise, TiesAtTheLimitSaturate) {
  ConvolutionShape shape = depthwise_of(1, 1, 3, 9, 1, 1, 0);
  shape.kernel_width = 2;
  shape.out_width = 2;
  for (const int shift : {1, 2, 3, 5, 6}) {
    Operands operands(shape, Values::kRandom, 1);
    operands.bits = operands.grad_input_bits = 16;
    operands.grad_input_shift = shift;
    operands.forward_shift = 1;
    operands.input.assign(operands.input.size(), 0);
    operands.bias.resize(9);
    std::vector<int16_t> grads(18);
    for (size_t c = 0; c < 9; ++c) {
      const int sign = c % 2 == 0 ? 1 : -1, less = c / 2 % 2 == 0 ? 0 : 1;
      operands.bias[c] = sign * (255 - less);
      operands.weights[2 * c] = static_cast<int8_t>(1 << shift);
      operands.weights[2 * c + 1] = 1;
      grads[c] = static_cast<int16_t>(sign * ((1 << (shift - 1)) - less));
      grads[9 + c] = static_cast<int16_t>(sign * 32767);
    }
    operands.set_grad_output(grads);
    EXPECT_EQ(disagreement(depthwise_subjects(), operands, {1}), "");
    const test::Results expected = operands.run(test::subject_of(kConvolutionReference), 1);
    EXPECT_EQ(expected.output_found.saturated, 10);  // two pixels of five channels
    EXPECT_EQ(expected.grad_input_found.saturated, 5);
  }
}

TEST(Depthwise, TheChosenRowEqualsTheReference) {
  for (const ConvolutionShape& shape : kDepthwiseShapes) {
    EXPECT_EQ(disagreement(chosen_subjects(), {shape, Values::kRandom, 2}, {2}), "");
  }
}

TEST(Depthwise, LongRowsEqualTheReference) {
  ConvolutionShape shape = depthwise_of(2, 1, 20'000, 5, 1, 1, 0);
  shape.kernel_width = 4;
  shape.out_width = 19'997;
  for (const uint32_t seed : {2u, 7u}) {
    EXPECT_EQ(disagreement(depthwise_subjects(), {shape, Values::kMixedSigns, seed}, {1, 3}), "");
  }
}

// More products than int32 holds, of 16 and of 8 bits.
TEST(Depthwise, DeepSumsOfGradientsAreExact) {
  for (const ConvolutionShape& shape :
       {depthwise_of(600, 1, 1, 2, 1, 1, 0), depthwise_of(2, 370, 370, 1, 1, 1, 0),
        depthwise_of(4, 1, 70'000, 1, 1, 1, 0), depthwise_of(140'000, 1, 1, 1, 1, 1, 0)}) {
    ASSERT_GT(shape.output_count(), 0);
    for (const uint32_t seed : {6u, 28u}) {
      EXPECT_EQ(disagreement(depthwise_subjects(), {shape, Values::kAllMaximum, seed}, {1, 2}), "");
    }
  }
}

TEST(Grouped, EveryDenseRowEqualsTheReference) {
  const auto subjects = joined(grouped_subjects(), chosen_subjects());
  for (const ConvolutionShape& shape : kGroupedShapes) {
    uint32_t seed = 1;
    for (const Values values : kAllValues) {
      EXPECT_EQ(disagreement(subjects, {shape, values, seed++}, {1, 2, 3, 8}), "");
    }
    for (; seed < 15; ++seed) {
      EXPECT_EQ(disagreement(subjects, {shape, Values::kRandom, seed}, {2}), "");
    }
  }
}

TEST(Depthwise, RandomShapesEqualTheReference) {
  const auto subjects = depthwise_subjects();
  EXPECT_TRUE(rc::check("fast depthwise convolutions equal the reference", [&] {
    ConvolutionShape s = test::random_window(2);
    s.in_channels = s.out_channels = s.groups = test::extent(1, 70);
    test::check_random(subjects, s, 2'000'000);
  }));
}

TEST(Grouped, RandomShapesEqualTheReference) {
  const auto subjects = joined(grouped_subjects(), chosen_subjects());
  EXPECT_TRUE(rc::check("convolutions by groups equal the reference", [&] {
    ConvolutionShape s = test::random_window();
    s.groups = test::extent(1, 9);
    s.in_channels = s.groups * test::extent(1, 12);
    s.out_channels = s.groups * test::extent(1, 12);
    test::check_random(subjects, s, 2'000'000);
  }));
}

}  // namespace
}  // namespace mantissa::kernels
