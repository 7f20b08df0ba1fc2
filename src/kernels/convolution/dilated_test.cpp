// Convolution with dilation by every instruction set's kernels against the reference, and the
// reference against a kernel with zeros between its taps.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "kernels/convolution/test_subject.h"

namespace mantissa::kernels {
namespace {

using test::disagreement;
using test::Operands;
using test::Values;

// The shape with this dilation; its output size follows.
ConvolutionShape dilated(ConvolutionShape s, int64_t dilation) {
  s.dilation = dilation;
  const auto out = [&](int64_t in, int64_t kernel, int64_t stride, int64_t padding) {
    return (in + 2 * padding - (kernel - 1) * dilation - 1) / stride + 1;
  };
  s.out_height = out(s.in_height, s.kernel_height, s.stride_height, s.padding_height);
  s.out_width = out(s.in_width, s.kernel_width, s.stride_width, s.padding_width);
  return s;
}

const ConvolutionShape kDilatedShapes[] = {
    dilated(test::shape_of(2, 14, 14, 16, 24, 3, 1, 2), 2),      // "same"
    dilated(test::shape_of(2, 14, 14, 16, 24, 3, 1, 4), 4),      //
    dilated(test::shape_of(2, 13, 15, 5, 7, 3, 1, 1), 2),        // phases of several paddings
    dilated(test::shape_of(2, 13, 15, 5, 7, 3, 1, 0), 3),        // no padding
    dilated(test::shape_of(2, 13, 15, 5, 7, 3, 2, 2), 2),        // half of the pixels untouched
    dilated(test::shape_of(2, 13, 15, 5, 7, 3, 2, 1), 3),        // strides within phases
    dilated(test::shape_of(2, 13, 15, 5, 7, 3, 4, 3), 6),        //
    dilated(test::shape_of(2, 13, 15, 5, 7, 3, 6, 4), 4),        //
    dilated(test::shape_of(1, 2, 3, 3, 4, 3, 1, 5), 5),          // phases without pixels
    dilated(test::shape_of(1, 7, 7, 3, 4, 7, 1, 30), 11),        //
    dilated(test::shape_of(2, 10, 10, 24, 24, 3, 1, 2, 24), 2),  // depthwise
    dilated(test::shape_of(2, 11, 9, 24, 24, 3, 2, 3, 24), 3),   //
    dilated(test::shape_of(2, 10, 10, 12, 18, 3, 1, 2, 3), 2),   // groups
};

TEST(DilatedConvolution, EveryInstructionSetEqualsTheReference) {
  for (const ConvolutionShape& shape : kDilatedShapes) {
    uint32_t seed = 1;
    for (const Values values :
         {Values::kRandom, Values::kExtreme, Values::kAllMaximum, Values::kMixedSigns}) {
      const Operands operands(shape, values, seed++);
      EXPECT_EQ(disagreement(test::chosen_subjects(), operands, {1, 3}), "");
    }
    for (; seed < 11; ++seed) {  // more shifts, all widths
      const Operands operands(shape, Values::kRandom, seed);
      EXPECT_EQ(disagreement(test::chosen_subjects(), operands, {1}), "");
    }
  }
}

TEST(DilatedConvolution, RandomShapesEqualTheReference) {
  const auto subjects = test::chosen_subjects();
  EXPECT_TRUE(rc::check("dilated convolutions equal the reference", [&] {
    ConvolutionShape s = test::random_window(2);
    const int64_t dilation = test::extent(2, 6);
    RC_PRE(s.in_height + 2 * s.padding_height > (s.kernel_height - 1) * dilation);
    RC_PRE(s.in_width + 2 * s.padding_width > (s.kernel_width - 1) * dilation);
    s.groups = test::extent(1, 3);
    s.in_channels = s.groups * test::extent(1, 12);
    s.out_channels = s.groups * test::extent(1, 12);
    test::check_random(subjects, dilated(s, dilation), 2'000'000);
  }));
}

TEST(DilatedConvolution, IsTheKernelWithZerosBetweenItsTaps) {
  for (const ConvolutionShape& shape : kDilatedShapes) {
    const Operands operands(shape, Values::kRandom, 7);
    Operands stuffed = operands;
    ConvolutionShape& s = stuffed.shape;
    s.dilation = 1;
    s.kernel_height = (shape.kernel_height - 1) * shape.dilation + 1;
    s.kernel_width = (shape.kernel_width - 1) * shape.dilation + 1;
    stuffed.weights.assign(s.weights_count(), 0);
    stuffed.accumulator.assign(s.weights_count(), 0);
    std::vector<int64_t> places;  // of the taps in the stuffed kernel
    const int64_t channels = s.group_in_channels();
    for (int64_t i = 0; i < shape.weights_count(); ++i) {
      const int64_t c = i % channels, kx = i / channels % shape.kernel_width;
      const int64_t ky = i / channels / shape.kernel_width % shape.kernel_height;
      const int64_t o = i / channels / shape.kernel_width / shape.kernel_height;
      const int64_t place =
          ((o * s.kernel_height + ky * shape.dilation) * s.kernel_width + kx * shape.dilation) *
              channels +
          c;
      places.push_back(place);
      stuffed.weights[place] = operands.weights[i];
      stuffed.accumulator[place] = operands.accumulator[i];
    }
    const auto reference = test::subject_of(kConvolutionReference);
    const test::Results found = operands.run(reference, 1);
    test::Results wanted = stuffed.run(reference, 1);
    const auto take_taps = [&](auto& sums) {
      auto taps = sums;
      taps.clear();
      for (const int64_t place : places) taps.push_back(sums[place]);
      sums = taps;
    };
    take_taps(wanted.accumulator);
    take_taps(wanted.first_written);
    if (!wanted.int32_sums.empty()) take_taps(wanted.int32_sums);
    EXPECT_EQ(test::difference(wanted, found), "") << test::describe(shape);
  }
}

}  // namespace
}  // namespace mantissa::kernels
