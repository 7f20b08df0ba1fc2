// Depthwise rows and convolution by groups against the reference: bit for bit, for awkward shapes,
// extreme values and any number of threads.
#include "kernels/depthwise/depthwise.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <functional>
#include <string_view>

#include "kernels/convolution/grouped.h"
#include "kernels/convolution_choice.h"
#include "kernels/depthwise/test_subject.h"

namespace mantissa::kernels {
namespace {

using test::disagreement;
using test::Operands;
using test::Subject;
using test::Values;

constexpr Values kAllValues[] = {Values::kRandom, Values::kExtreme, Values::kAllMaximum,
                                 Values::kMixedSigns};

using Rows = std::vector<const ConvolutionKernels*>;

void add_row(Rows& rows, const ConvolutionKernels& row) {
  if (is_supported(row.isa)) rows.push_back(&row);
}
template <typename Other>
void add_row(Rows&, const Other&) {}

// The rows that kernels.inc lists for a family of convolutions and this CPU runs.
Rows rows_of(std::string_view wanted) {
  Rows rows;
#define MANTISSA_KERNEL(family, symbol) \
  if (wanted == #family) add_row(rows, symbol);
#include "kernels/kernels.inc"
#undef MANTISSA_KERNEL
  return rows;
}

std::vector<Subject> depthwise_subjects() {
  std::vector<Subject> subjects;
  for (const ConvolutionKernels* row : rows_of("depthwise")) {
    if (row->isa != Isa::kScalar) subjects.push_back(test::subject_of(*row));
  }
  return subjects;
}

// The grouped wrapper over each dense row.
std::vector<Subject> grouped_subjects() {
  using std::placeholders::_1, std::placeholders::_2, std::placeholders::_3;
  std::vector<Subject> subjects;
  for (const ConvolutionKernels* row : rows_of("convolution")) {
    const auto dense = std::cref(*row);
    subjects.push_back({std::string("grouped ") + row->name,
                        std::bind(grouped_forward, dense, _1, _2),
                        std::bind(grouped_forward_scratch_bytes, dense, _1, _2),
                        std::bind(grouped_grad_input, dense, _1, _2),
                        std::bind(grouped_grad_input_scratch_bytes, dense, _1, _2, _3),
                        std::bind(grouped_grad_weights, dense, _1, _2),
                        std::bind(grouped_grad_weights_scratch_bytes, dense, _1, _2, _3)});
  }
  return subjects;
}

// What operators call, for each instruction set.
std::vector<Subject> chosen_subjects() {
  using std::placeholders::_1, std::placeholders::_2, std::placeholders::_3;
  std::vector<Subject> subjects;
  for (const Isa isa : kAllIsas) {
    if (!is_supported(isa)) continue;
    const KernelTable table = select_kernels(isa);
    subjects.push_back({"chosen for " + std::string(isa_name(isa)),
                        std::bind(convolution_forward, table, _1, _2),
                        std::bind(convolution_forward_scratch_bytes, table, _1, _2),
                        std::bind(convolution_grad_input, table, _1, _2),
                        std::bind(convolution_grad_input_scratch_bytes, table, _1, _2, _3),
                        std::bind(convolution_grad_weights, table, _1, _2),
                        std::bind(convolution_grad_weights_scratch_bytes, table, _1, _2, _3)});
  }
  return subjects;
}

ConvolutionShape shape_of(int64_t batch, int64_t height, int64_t width, int64_t channels,
                          int64_t out_channels, int64_t groups, int64_t kernel, int64_t stride,
                          int64_t padding) {
  return {.batch = batch,
          .in_height = height,
          .in_width = width,
          .in_channels = channels,
          .out_height = (height + 2 * padding - kernel) / stride + 1,
          .out_width = (width + 2 * padding - kernel) / stride + 1,
          .out_channels = out_channels,
          .kernel_height = kernel,
          .kernel_width = kernel,
          .stride = stride,
          .padding = padding,
          .groups = groups};
}

ConvolutionShape depthwise_of(int64_t batch, int64_t height, int64_t width, int64_t channels,
                              int64_t kernel, int64_t stride, int64_t padding) {
  return shape_of(batch, height, width, channels, channels, channels, kernel, stride, padding);
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
    shape_of(2, 8, 8, 16, 32, 4, 3, 1, 1),    // ResNeXt
    shape_of(2, 9, 8, 16, 32, 4, 3, 2, 1),    //
    shape_of(3, 7, 7, 6, 10, 2, 3, 1, 1),     //
    shape_of(3, 7, 5, 15, 9, 3, 1, 1, 0),     //
    shape_of(2, 6, 6, 8, 16, 8, 3, 1, 1),     // depthwise with two results a channel
    shape_of(2, 6, 6, 16, 8, 8, 3, 2, 1),     //
    shape_of(1, 8, 8, 130, 130, 2, 3, 1, 1),  //
    shape_of(17, 1, 1, 64, 48, 4, 1, 1, 0),   // linear
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
    operands.bits = 16;
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
    EXPECT_EQ(expected.narrow_found.saturated, 10);  // two pixels of five channels
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
    for (const uint32_t seed : {6u, 13u}) {
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
    for (; seed < 14; ++seed) {
      EXPECT_EQ(disagreement(subjects, {shape, Values::kRandom, seed}, {2}), "");
    }
  }
}

int64_t extent(int low, int high) { return *rc::gen::inRange<int64_t>(low, high + 1); }

ConvolutionShape random_window() {
  ConvolutionShape s;
  s.kernel_height = extent(1, 6);
  s.kernel_width = extent(1, 6);
  s.stride = extent(1, 4);
  s.padding = extent(0, 5);
  s.in_height = extent(1, 20);
  s.in_width = extent(1, 30);
  s.batch = extent(1, 7);
  RC_PRE(s.in_height + 2 * s.padding >= s.kernel_height);
  RC_PRE(s.in_width + 2 * s.padding >= s.kernel_width);
  s.out_height = (s.in_height + 2 * s.padding - s.kernel_height) / s.stride + 1;
  s.out_width = (s.in_width + 2 * s.padding - s.kernel_width) / s.stride + 1;
  return s;
}

void check_random(const std::vector<Subject>& subjects, const ConvolutionShape& s) {
  RC_PRE(s.multiply_adds() < 2'000'000);
  const auto values =
      *rc::gen::elementOf(std::vector<Values>(std::begin(kAllValues), std::end(kAllValues)));
  const auto seed = *rc::gen::arbitrary<uint32_t>();
  const auto threads = static_cast<int>(extent(1, 8));
  const std::string found = disagreement(subjects, {s, values, seed}, {threads});
  if (!found.empty()) RC_FAIL(found);
}

TEST(Depthwise, RandomShapesEqualTheReference) {
  const auto subjects = depthwise_subjects();
  EXPECT_TRUE(rc::check("fast depthwise convolutions equal the reference", [&] {
    ConvolutionShape s = random_window();
    s.in_channels = s.out_channels = s.groups = extent(1, 70);
    check_random(subjects, s);
  }));
}

TEST(Grouped, RandomShapesEqualTheReference) {
  const auto subjects = joined(grouped_subjects(), chosen_subjects());
  EXPECT_TRUE(rc::check("convolutions by groups equal the reference", [&] {
    ConvolutionShape s = random_window();
    s.groups = extent(1, 9);
    s.in_channels = s.groups * extent(1, 12);
    s.out_channels = s.groups * extent(1, 12);
    check_random(subjects, s);
  }));
}

}  // namespace
}  // namespace mantissa::kernels
