// Which row takes which work, and why the others do not.
#include "kernels/convolution/choice.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "kernels/convolution/test_subject.h"

namespace mantissa::kernels {
namespace {

using Rows = std::vector<const ConvolutionKernels*>;

ConvolutionShape dense() { return test::shape_of(4, 16, 16, 32, 32, 3, 1, 1); }
ConvolutionShape in_groups(int64_t groups) {
  return test::shape_of(4, 16, 16, 32, 32, 3, 1, 1, groups);
}
ConvolutionShape dilated(ConvolutionShape s) {
  s.dilation = s.padding_height = s.padding_width = 2;
  return s;
}

const char* chosen(const Rows& rows, const ConvolutionWork& work) {
  return choose_convolution(rows, work).row->name;
}

// A row that declines work of more than kLimit images.
template <int64_t kLimit>
ConvolutionKernels small_row(const char* name) {
  ConvolutionKernels row = kConvolutionReference;
  row.name = name;
  row.declines = [](const ConvolutionWork& work) noexcept -> const char* {
    return work.shape.batch > kLimit ? "too many images" : nullptr;
  };
  return row;
}

TEST(ConvolutionChoice, WorkThatARowDeclinesGoesToTheNext) {
  const ConvolutionKernels ten = small_row<10>("ten"), four = small_row<4>("four");
  const Rows rows = {&kConvolutionReference, &ten, &four};
  const auto images = [](int64_t batch) {
    return ConvolutionWork{.shape = test::shape_of(batch, 1, 1, 8, 8, 1, 1, 0)};
  };
  EXPECT_STREQ(chosen(rows, images(4)), "four");
  EXPECT_STREQ(chosen(rows, images(5)), "ten");
  EXPECT_STREQ(chosen(rows, images(11)), "convolution_reference");
  EXPECT_TRUE(explain_choice(rows, images(4)).declined.empty());
  const ExplainedChoice explained = explain_choice(rows, images(11));
  EXPECT_EQ(explained.chosen, "convolution_reference");
  const std::vector<std::pair<std::string, std::string>> reasons = {{"four", "too many images"},
                                                                    {"ten", "too many images"}};
  EXPECT_EQ(explained.declined, reasons);
}

TEST(ConvolutionChoice, RowsBelowTakeTheParts) {
  const ConvolutionKernels four = small_row<4>("four");
  const Rows rows = {&kConvolutionReference, &four, &kConvolutionGrouped, &kConvolutionDilated};
  const ConvolutionWork work{.shape = dilated(in_groups(4))};
  const ConvolutionChoice choice = choose_convolution(rows, work);
  EXPECT_EQ(choice.row, &kConvolutionDilated);
  ASSERT_EQ(choice.parts.size(), 4u);  // phases
  for (const ConvolutionChoice& phase : choice.parts) {
    EXPECT_EQ(phase.row, &kConvolutionGrouped);
    ASSERT_EQ(phase.parts.size(), 1u);  // groups are alike
    EXPECT_EQ(phase.parts[0].row, &four);
    EXPECT_EQ(phase.parts[0].work.shape.in_channels, 8);
  }
  EXPECT_EQ(explain_choice(rows, work).chosen, "convolution_dilated, convolution_grouped, four");
  EXPECT_STREQ(convolution_kernel_name(rows, work.shape), "four");
}

// Cutting work into parts is no use if the reference would take the parts.
TEST(ConvolutionChoice, TheReferenceTakesTheWhole) {
  const Rows rows = select_kernels(kNeedsNothing).convolution;
  for (const ConvolutionWork& work :
       {ConvolutionWork{.shape = dense()}, ConvolutionWork{.shape = in_groups(4)},
        ConvolutionWork{.shape = in_groups(32)}, ConvolutionWork{.shape = dilated(in_groups(4))},
        ConvolutionWork{.shape = test::shape_of(8, 1, 1, 4096, 4096, 1, 1, 0)},
        ConvolutionWork{ConvolutionPass::kGradWeights, dense(), 32}}) {
    EXPECT_STREQ(chosen(rows, work), "convolution_reference");
    EXPECT_TRUE(is_left_to_reference(rows, work));
    for (const auto& [row, reason] : explain_choice(rows, work).declined) {
      EXPECT_FALSE(reason.empty()) << row;
    }
  }
  const auto declined = explain_choice(rows, {.shape = in_groups(4)}).declined;
  ASSERT_EQ(declined.back().first, "convolution_grouped");
  EXPECT_EQ(declined.back().second, "its parts would be the reference's, which takes the whole");
}

TEST(ConvolutionChoice, TheReferenceTakesEverything) {
  EXPECT_TRUE(rc::check("the reference declines nothing", [] {
    ConvolutionShape s = test::random_window(2);
    s.groups = test::extent(1, 5);
    s.dilation = test::extent(1, 3);
    s.in_channels = s.groups * test::extent(1, 9);
    s.out_channels = s.groups * test::extent(1, 9);
    for (const auto pass :
         {ConvolutionPass::kForward, ConvolutionPass::kGradInput, ConvolutionPass::kGradWeights}) {
      for (const int bits : {2, 8, 16, 32}) {
        RC_ASSERT(kConvolutionReference.declines({pass, s, bits}) == nullptr);
        const Rows rows = select_kernels(kNeedsNothing).convolution;
        RC_ASSERT(is_left_to_reference(rows, {pass, s, bits}));
      }
    }
  }));
}

#if defined(__x86_64__)
TEST(ConvolutionChoice, ByShapeWithAvx2) {
  const Rows rows = select_kernels(kNeedsAvx2).convolution;
  const auto explained = [&](const ConvolutionWork& work) { return explain_choice(rows, work); };
  EXPECT_EQ(explained({.shape = dense()}).chosen, "convolution_avx2");
  EXPECT_EQ(explained({.shape = in_groups(4)}).chosen, "convolution_grouped, convolution_avx2");
  EXPECT_EQ(explained({.shape = in_groups(32)}).chosen, "depthwise_avx2");
  EXPECT_EQ(explained({.shape = dilated(dense())}).chosen, "convolution_dilated, convolution_avx2");
  EXPECT_EQ(explained({.shape = dilated(in_groups(32))}).chosen,
            "convolution_dilated, depthwise_avx2");
  EXPECT_EQ(explained({.shape = test::shape_of(8, 1, 1, 4096, 4096, 1, 1, 0)}).chosen,
            "convolution_sliced, convolution_avx2");
  EXPECT_EQ(explained({ConvolutionPass::kGradWeights, dilated(in_groups(4)), 32}).chosen,
            "convolution_digits, convolution_dilated, convolution_grouped, convolution_avx2");
  const auto declined = explained({.shape = in_groups(4)}).declined;
  const auto depthwise = std::find_if(declined.begin(), declined.end(), [](const auto& row) {
    return row.first == "depthwise_avx2";
  });
  ASSERT_NE(depthwise, declined.end());
  EXPECT_EQ(depthwise->second, "takes only groups of one channel");
}

// Bits matter as well: sums over 289 taps of 16-bit gradients may not fit int32.
TEST(ConvolutionChoice, ByBits) {
  const Rows rows = select_kernels(kNeedsAvx512Vnni).convolution;
  const ConvolutionShape shape = test::shape_of(1, 40, 40, 8, 8, 17, 1, 8, 8);
  EXPECT_STREQ(chosen(rows, {ConvolutionPass::kGradInput, shape, 8}), "depthwise_avx512vnni");
  EXPECT_STREQ(chosen(rows, {ConvolutionPass::kGradInput, shape, 16}), "convolution_reference");
  EXPECT_EQ(explain_choice(rows, {ConvolutionPass::kGradInput, shape, 16}).declined[3].second,
            "sums of so many taps and 16 bits do not fit int32");
}

// Scratch for 16 bits is enough for fewer bits, though another row takes those.
TEST(ConvolutionChoice, ScratchIsForTheRowsOfFewerBitsToo) {
  const Rows rows = select_kernels(kNeedsAvx512Vnni).convolution;
  const ConvolutionShape shape = test::shape_of(1, 40, 40, 8, 8, 17, 1, 8, 8);
  for (const int threads : {1, 3}) {
    const size_t of_8 = kDepthwiseAvx512Vnni.grad_input_scratch_bytes(shape, 8, threads, {});
    const size_t of_16 = kConvolutionReference.grad_input_scratch_bytes(shape, 16, threads, {});
    ASSERT_NE(of_8, of_16);
    EXPECT_EQ(convolution_scratch_bytes(rows, {ConvolutionPass::kGradInput, shape, 16}, threads),
              std::max(of_8, of_16));
  }
}
#endif

}  // namespace
}  // namespace mantissa::kernels
