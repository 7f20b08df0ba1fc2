// Convolution a slice of channels at a time, by every row, against the reference.
#include "kernels/convolution/sliced.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "kernels/convolution/test_subject.h"

namespace mantissa::kernels {
namespace {

using test::disagreement;
using test::Operands;
using test::Subject;
using test::Values;

// Each row, with slices of `channels` channels; gradients of weights are not cut.
std::vector<Subject> sliced_subjects(int64_t channels) {
  std::vector<Subject> subjects;
  for (const ConvolutionKernels* row : test::rows_for({})) {
    subjects.push_back(
        test::subject_of(std::string(row->name) + " in slices of " + std::to_string(channels),
                         [=](const ConvolutionWork& work) -> ConvolutionChoice {
                           if (work.pass == ConvolutionPass::kGradWeights) return {row, work, {}};
                           ConvolutionChoice sliced{&kConvolutionSliced, work, {}};
                           for (const ConvolutionWork& slice : slices(work, channels)) {
                             sliced.parts.push_back({row, slice, {}});
                           }
                           return sliced;
                         }));
  }
  return subjects;
}

TEST(SlicedConvolution, EveryRowEqualsTheReference) {
  for (const ConvolutionShape& shape :
       {test::shape_of(5, 1, 1, 300, 200, 1, 1, 0), test::shape_of(2, 9, 8, 70, 130, 3, 2, 1)}) {
    for (const int64_t channels : {64, 100, 128}) {
      for (uint32_t seed = 1; seed < 7; ++seed) {
        const Operands operands(shape, Values::kExtreme, seed);
        EXPECT_EQ(disagreement(sliced_subjects(channels), operands, {1, 3}), "");
      }
    }
  }
}

TEST(SlicedConvolution, RandomShapesEqualTheReference) {
  EXPECT_TRUE(rc::check("slices of convolutions equal the reference", [] {
    ConvolutionShape s = test::random_window();
    s.in_channels = test::extent(1, 40);
    s.out_channels = test::extent(1, 40);
    test::check_random(sliced_subjects(test::extent(1, 41)), s, 500'000);
  }));
}

TEST(SlicedConvolution, PaysForLargeWeightsAndFewPixels) {
  const auto linear = [](int64_t batch) {
    return test::shape_of(batch, 1, 1, 25088, 4096, 1, 1, 0);
  };
  EXPECT_EQ(forward_slice(linear(8)), 64);
  EXPECT_EQ(grad_input_slice(linear(8)), 256);
  EXPECT_EQ(forward_slice(linear(128)), 128);
  EXPECT_EQ(forward_slice(linear(256)), 0);
  EXPECT_EQ(forward_slice(test::shape_of(8, 1, 1, 3072, 768, 1, 1, 0)), 0);
}

// The choices of operators for a layer that is taken in slices, with scratch of the planned size.
TEST(SlicedConvolution, IsWhatLargeLayersTake) {
  const ConvolutionShape shape = test::shape_of(2, 1, 1, 4096, 4096, 1, 1, 0);
  ASSERT_GT(forward_slice(shape), 0);
  std::mt19937 random(1);
  const auto input = test::make_values<int8_t>(shape.input_count(), 127, Values::kRandom, random);
  const auto grads =
      test::make_values<int16_t>(shape.output_count(), 32767, Values::kRandom, random);
  const auto weights =
      test::make_values<int8_t>(shape.weights_count(), 127, Values::kRandom, random);
  std::vector<int8_t> wanted, found(static_cast<size_t>(shape.output_count()));
  std::vector<int16_t> wanted_gradient, gradient(static_cast<size_t>(shape.input_count()));
  for (const Subject& subject : test::chosen_subjects()) {  // the reference first
    for (const int threads : {1, 3}) {
      ThreadPool pool(threads);
      test::Scratch forward(subject.forward_scratch_bytes(shape, threads));
      subject.forward({.shape = shape,
                       .input = input.data(),
                       .weights = weights.data(),
                       .output = found.data(),
                       .shift = 13},
                      {&pool, forward.span()});
      test::Scratch backward(subject.grad_input_scratch_bytes(shape, 16, threads));
      subject.grad_input({shape, {grads.data(), 16}, weights.data(), 14, {gradient.data(), 16}},
                         {&pool, backward.span()});
      if (wanted.empty()) wanted = found, wanted_gradient = gradient;
      EXPECT_EQ(found, wanted) << subject.name << " " << threads;
      EXPECT_EQ(gradient, wanted_gradient) << subject.name << " " << threads;
    }
  }
}

}  // namespace
}  // namespace mantissa::kernels
