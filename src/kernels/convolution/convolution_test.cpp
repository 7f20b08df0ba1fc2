// Every fast convolution against the reference: bit for bit, for awkward shapes, extreme values and
// any number of threads.
#include "kernels/convolution/convolution.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <ostream>
#include <string>
#include <vector>

#include "kernels/convolution/geometry.h"
#include "kernels/convolution/test_subject.h"

namespace mantissa::kernels {

void PrintTo(const ConvolutionShape& s, std::ostream* os) { *os << test::describe(s); }

namespace {

using test::Operands;
using test::shape_of;
using test::Values;

std::vector<test::Subject> fast_kernels() { return test::fast_subjects({}); }

// Empty if all fast kernels agree with the reference.
std::string disagreement(const ConvolutionShape& shape, Values values, uint32_t seed,
                         const std::vector<int>& threads) {
  return test::disagreement(fast_kernels(), {shape, values, seed}, threads);
}

const ConvolutionShape kConvolutionShapes[] = {
    shape_of(1, 1, 1, 1, 1, 1, 1, 0),      // smallest
    shape_of(5, 1, 1, 784, 200, 1, 1, 0),  // linear
    shape_of(33, 1, 1, 120, 84, 1, 1, 0),  //
    shape_of(130, 1, 1, 30, 10, 1, 1, 0),  //
    shape_of(3, 28, 28, 1, 6, 5, 1, 2),    // LeNet
    shape_of(3, 14, 14, 6, 16, 5, 1, 0),   //
    shape_of(7, 5, 5, 16, 120, 5, 1, 0),   // kernel covers the image
    shape_of(2, 3, 3, 5, 7, 3, 1, 1),      //
    shape_of(2, 28, 28, 16, 16, 3, 1, 1),  // ResNet-20
    shape_of(2, 28, 28, 16, 32, 3, 2, 1),  //
    shape_of(3, 28, 28, 16, 32, 1, 2, 0),  // shortcut
    shape_of(3, 15, 13, 6, 33, 1, 2, 0),   //
    shape_of(5, 14, 14, 32, 32, 3, 1, 1),  //
    shape_of(2, 14, 14, 32, 64, 3, 2, 1),  //
    shape_of(6, 7, 7, 64, 64, 3, 1, 1),    //
    shape_of(1, 9, 40, 3, 48, 3, 1, 1),    //
    shape_of(1, 33, 33, 3, 16, 7, 2, 3),   //
    shape_of(2, 8, 8, 3, 20, 4, 4, 0),     // patches
    shape_of(2, 9, 9, 3, 20, 2, 3, 0),     // taps that miss pixels
    shape_of(2, 4, 4, 2, 3, 3, 1, 4),      // padding larger than needed
    shape_of(2, 4, 4, 2, 3, 1, 2, 3),      //
    shape_of(2, 1, 1, 4, 5, 1, 2, 1),      // no pixel reached
    shape_of(1, 6, 6, 200, 17, 3, 1, 1),   //
    shape_of(9, 3, 3, 120, 200, 3, 1, 0),  //
    shape_of(1, 64, 64, 16, 16, 3, 1, 1),  // several bands
    shape_of(2, 40, 60, 64, 5, 3, 1, 1),   //
    shape_of(4, 1, 1, 64, 16, 3, 1, 1),    // one pixel, with padding
    shape_of(300, 1, 1, 64, 16, 3, 1, 1),  //
    shape_of(4, 8, 1, 64, 16, 3, 1, 1),    // one column
    shape_of(64, 4, 4, 40, 8, 1, 1, 0),    // pointwise
    shape_of(4, 2, 2, 256, 300, 2, 1, 1),  // many weights
    shape_of(11, 5, 7, 40, 160, 3, 2, 1),  // many channels, a multiple of 16
    shape_of(11, 5, 7, 64, 160, 3, 2, 1),  // and many weights
    shape_of(1500, 1, 1, 460, 144, 1, 1, 0),
    shape_of(68, 7, 7, 52, 160, 3, 1, 1),     // many weights in several chunks, of several tap rows
    shape_of(1020, 1, 1, 144, 460, 1, 1, 0),  // many inputs, in several blocks, and one more chunk
    shape_of(12, 7, 7, 128, 64, 3, 1, 1),     //
    shape_of(13, 9, 7, 144, 56, 3, 2, 1),     //
};

class Shapes : public testing::TestWithParam<ConvolutionShape> {
 protected:
  void SetUp() override {
    if (fast_kernels().empty()) GTEST_SKIP() << "this CPU has no instruction set to test";
  }
};

TEST_P(Shapes, FastKernelsEqualTheReference) {
  uint32_t seed = 1;
  for (const Values values :
       {Values::kRandom, Values::kExtreme, Values::kAllMaximum, Values::kMixedSigns}) {
    EXPECT_EQ(disagreement(GetParam(), values, seed++, {1, 2, 3, 5, 8}), "");
  }
  // All shifts. The reference takes seconds for a large shape; such shapes get every gradient
  // width.
  const uint32_t seeds = GetParam().multiply_adds() < 40'000'000 ? 20 : 8;
  for (; seed < seeds; ++seed) {
    const Values values = seed % 2 == 0 ? Values::kRandom : Values::kExtreme;
    EXPECT_EQ(disagreement(GetParam(), values, seed, {2}), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Convolution, Shapes, testing::ValuesIn(kConvolutionShapes));

// Kernels of ordinary layers of one group count while they write.
TEST(Convolution, FastKernelsCountWhatTheyWrite) {
  for (const test::Subject& kernel : fast_kernels()) {
    for (const ConvolutionShape& shape :
         {shape_of(4, 28, 28, 16, 16, 3, 1, 1), shape_of(4, 28, 28, 16, 32, 3, 2, 1),
          shape_of(4, 28, 28, 16, 32, 1, 2, 0), shape_of(4, 14, 14, 24, 20, 1, 1, 0)}) {
      const test::Results found = test::Operands(shape, Values::kRandom, 1).run(kernel, 2);
      EXPECT_EQ(found.output_counted, shape.output_count()) << kernel.name;
      EXPECT_EQ(found.grad_input_counted, shape.input_count()) << kernel.name;
    }
  }
}

class Depth : public Shapes {};

TEST_P(Depth, DeepSumsOfExtremesAreExact) {
  for (const uint32_t seed : {3u, 4u, 5u}) {
    EXPECT_EQ(disagreement(GetParam(), Values::kAllMaximum, seed, {1, 2}), "");
    EXPECT_EQ(disagreement(GetParam(), Values::kMixedSigns, seed, {3}), "");
  }
}

// Deep in each direction: forward, grad_input (also beyond a sum of |weights| of 65535),
// grad_weights (also beyond the depth that int32 holds).
INSTANTIATE_TEST_SUITE_P(
    Convolution, Depth,
    testing::Values(shape_of(2, 1, 1, 65'000, 2, 1, 1, 0), shape_of(2, 1, 1, 2, 65'000, 1, 1, 0),
                    shape_of(1, 3, 3, 3, 57, 3, 1, 1), shape_of(1, 3, 3, 3, 58, 3, 1, 1),
                    shape_of(3, 8, 8, 40, 516, 1, 1, 0), shape_of(3, 8, 8, 40, 517, 1, 1, 0),
                    shape_of(2, 5, 5, 20, 600, 3, 2, 1), shape_of(70'001, 1, 1, 3, 2, 1, 1, 0),
                    shape_of(140'000, 1, 1, 1, 1, 1, 1, 0), shape_of(262'144, 1, 1, 1, 1, 1, 1, 0),
                    shape_of(129, 28, 28, 2, 2, 1, 1, 0), shape_of(4, 300, 300, 1, 1, 3, 1, 1)));

// The most rows that sums of 32 bits allow, with the largest products. Each thread has sums of its
// own; or all threads share two chunks, or one.
TEST(Convolution, NarrowSumsReachTheirLimit) {
  if (fast_kernels().empty()) GTEST_SKIP() << "this CPU has no instruction set to test";
  static_assert(sums_fit_int32(516, 8, 16) && !sums_fit_int32(517, 8, 16));
  static_assert(sums_fit_int32(133'144, 8, 8) && !sums_fit_int32(133'145, 8, 8));
  constexpr uint32_t kOf16Bits = 2;
  for (const ConvolutionShape& shape :
       {shape_of(516, 1, 1, 5, 3, 1, 1, 0), shape_of(516, 1, 1, 2000, 43, 1, 1, 0)}) {
    const Operands operands(shape, Values::kAllMaximum, kOf16Bits);
    ASSERT_EQ(operands.bits, 16);
    const test::Results expected = operands.run(test::subject_of(kConvolutionReference), 1);
    EXPECT_EQ(expected.int32_sums[0], 516 * 127 * 32767);
    EXPECT_EQ(test::disagreement(fast_kernels(), operands, {1, 2}), "");
    EXPECT_EQ(disagreement(shape, Values::kMixedSigns, kOf16Bits, {1, 2}), "");
  }
}

// More rows, of smaller gradients: to the last unit, of one chunk and of several.
TEST(Convolution, NarrowSumsOfManyRowsReachTheirLimit) {
  if (fast_kernels().empty()) GTEST_SKIP() << "this CPU has no instruction set to test";
  for (const ConvolutionShape& shape :
       {shape_of(1000, 1, 1, 5, 3, 1, 1, 0), shape_of(1000, 1, 1, 2000, 43, 1, 1, 0),
        shape_of(2500, 1, 1, 600, 120, 1, 1, 0)}) {
    Operands operands(shape, Values::kAllMaximum, 2);
    ASSERT_EQ(operands.bits, 16);
    const int64_t even = most_magnitudes_of_int32_sums(8) / shape.batch;
    std::vector<int16_t> gradient(static_cast<size_t>(shape.output_count()),
                                  static_cast<int16_t>(even));
    gradient[0] = static_cast<int16_t>(even + most_magnitudes_of_int32_sums(8) % shape.batch);
    operands.set_grad_output(gradient);
    const test::Results expected = operands.run(test::subject_of(kConvolutionReference), 1);
    ASSERT_FALSE(expected.int32_sums.empty());
    EXPECT_EQ(expected.int32_sums[0], 127 * most_magnitudes_of_int32_sums(8));
    EXPECT_EQ(test::disagreement(fast_kernels(), operands, {1, 2}), "");
    ++gradient[0];
    operands.set_grad_output(gradient);
    EXPECT_FALSE(operands.sums_fit_int32());
  }
}

// Many gradients meet many weights: more than are packed at once. The image's edge leaves some
// units partly empty, and the last slice has fewer channels than the others. Gradients of 8 bits
// come in several chunks.
TEST(Convolution, GradientsPackedInSlicesEqualTheReference) {
  if (fast_kernels().empty()) GTEST_SKIP() << "this CPU has no instruction set to test";
  constexpr uint32_t kOf16Bits = 2, kOf8Bits = 1;
  const Operands wide(shape_of(16, 7, 17, 384, 528, 1, 1, 0), Values::kMixedSigns, kOf16Bits);
  ASSERT_EQ(wide.bits, 16);
  EXPECT_EQ(test::disagreement(fast_kernels(), wide, {1, 2}), "");
  const Operands narrow(shape_of(2757, 1, 1, 128, 1168, 1, 1, 0), Values::kMixedSigns, kOf8Bits);
  ASSERT_EQ(narrow.bits, 8);
  EXPECT_EQ(test::disagreement(fast_kernels(), narrow, {1}), "");
}

// 32767.5 is a tie, which goes to the even 32768 and is clipped; one less is not.
TEST(Convolution, TiesAtTheLimitSaturate) {
  if (fast_kernels().empty()) GTEST_SKIP() << "this CPU has no instruction set to test";
  for (const int shift : {1, 2, 3, 5, 6}) {
    Operands operands(shape_of(4, 1, 1, 1, 3, 1, 1, 0), Values::kRandom, 1);
    const auto half = static_cast<int16_t>(1 << (shift - 1));
    const auto minus_half = static_cast<int16_t>(-half);
    operands.grad_input_shift = shift;
    operands.weights = {static_cast<int8_t>(1 << shift), 1, 1};
    operands.bits = operands.grad_input_bits = 16;
    operands.set_grad_output<int16_t>(
        {32767, half, 0, 32767, half, -1, -32767, 0, minus_half, -32767, 1, minus_half});
    EXPECT_EQ(test::disagreement(fast_kernels(), operands, {1}), "");
    const test::Results expected = operands.run(test::subject_of(kConvolutionReference), 1);
    EXPECT_EQ(expected.grad_input_found.saturated, 2);
  }
}

// Scratch is asked for once, for the widest gradient that may come.
TEST(Convolution, ScratchForWideGradientsIsEnoughForNarrowOnes) {
  for (const test::Subject& kernels : fast_kernels()) {
    for (const ConvolutionShape& shape : kConvolutionShapes) {
      for (const int64_t batch : {1, 5, 128}) {
        ConvolutionShape s = shape;
        s.batch = batch;
        for (const int threads : {1, 2, 3, 8}) {
          EXPECT_GE(kernels.grad_weights_scratch_bytes(s, 16, threads),
                    kernels.grad_weights_scratch_bytes(s, 8, threads));
          EXPECT_GE(kernels.grad_input_scratch_bytes(s, 16, threads),
                    kernels.grad_input_scratch_bytes(s, 8, threads));
        }
      }
    }
  }
}

int64_t rows_per_band(int64_t batch, int64_t rows, int64_t fitting, int threads) {
  convolution_geometry::Dot dot;
  dot.batch = batch;
  dot.target_height = rows;
  return convolution_geometry::rows_per_band(dot, fitting, threads);
}

TEST(Convolution, BandsAreSharedEvenly) {
  EXPECT_EQ(rows_per_band(128, 14, 1000, 2), 14) << "images are enough";
  EXPECT_EQ(rows_per_band(128, 14, 5, 2), 5) << "what fits";
  EXPECT_EQ(rows_per_band(1, 6, 5, 2), 1) << "two bands of two for one thread, one for the other";
  EXPECT_EQ(rows_per_band(5, 56, 1000, 2), 28) << "not 55 and 1";
  EXPECT_EQ(rows_per_band(3, 112, 1000, 4), 28);
  EXPECT_EQ(rows_per_band(3, 7, 1000, 2), 4);
  EXPECT_EQ(rows_per_band(1, 3, 1000, 4), 1) << "no number of bands is even";
  for (const int64_t batch : {1, 3, 8, 100}) {
    for (const int64_t rows : {1, 7, 56, 113}) {
      for (const int64_t fitting : {1, 9, 1000}) {
        const int64_t band = rows_per_band(batch, rows, fitting, 3);
        EXPECT_LE(band, fitting);
        EXPECT_EQ(band,
                  convolution_geometry::ceil_div(rows, convolution_geometry::ceil_div(rows, band)))
            << "as short as so many bands can be";
      }
    }
  }
}

TEST(Convolution, LongRowsEqualTheReference) {
  if (fast_kernels().empty()) GTEST_SKIP() << "this CPU has no instruction set to test";
  ConvolutionShape shape = {.batch = 5,
                            .in_width = 20'000,
                            .in_channels = 2,
                            .out_width = 19'997,
                            .out_channels = 3,
                            .kernel_width = 4};
  EXPECT_EQ(disagreement(shape, Values::kMixedSigns, 1, {1, 3}), "");
}

TEST(Convolution, RandomShapesEqualTheReference) {
  if (fast_kernels().empty()) GTEST_SKIP() << "this CPU has no instruction set to test";
  const auto subjects = fast_kernels();
  EXPECT_TRUE(rc::check("fast convolutions equal the reference", [&] {
    ConvolutionShape s = test::random_window();
    s.in_channels = test::extent(1, 70);
    s.out_channels = test::extent(1, 70);
    test::check_random(subjects, s, 8'000'000);
  }));
}

}  // namespace
}  // namespace mantissa::kernels
