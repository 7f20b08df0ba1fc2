// Pools with overlapping windows as operators: shapes, refusals, divisors, and agreement with the
// pools that have kernels of their own.
#include <gtest/gtest.h>

#include "kernels/elementwise/test_values.h"
#include "kernels/kernel_table.h"
#include "numerics/exponent.h"
#include "ops/ops.h"

namespace mantissa::ops {
namespace {

Result<Shape> shape_of(const Op& op, const Attributes& attributes, const Shape& input) {
  return output_shape(op, attributes, std::span(&input, 1));
}

TEST(WindowPooling, Shapes) {
  for (const Op* op : {&kOverlappingMaxPool, &kAveragePool}) {
    const auto side = [&](int64_t size, const Attributes& attributes) {
      return (*shape_of(*op, attributes, Shape{size, size, 5}))[0];
    };
    EXPECT_EQ(side(112, {{"window", 3}, {"stride", 2}, {"padding", 1}}), 56);  // ResNet
    EXPECT_EQ(side(111, {{"window", 3}, {"stride", 2}, {"ceil", 1}}), 55);     // SqueezeNet
    EXPECT_EQ(side(112, {{"window", 3}, {"stride", 2}}), 55);
    EXPECT_EQ(side(112, {{"window", 3}, {"stride", 2}, {"ceil", 1}}), 56);
    EXPECT_EQ(side(35, {{"window", 3}, {"stride", 1}, {"padding", 1}}), 35);  // Inception
    EXPECT_EQ(side(5, {{"window", 2}}), 2);
    EXPECT_EQ(side(5, {{"window", 2}, {"ceil", 1}}), 3);
    EXPECT_EQ(side(2, {{"window", 2}, {"stride", 3}, {"padding", 1}, {"ceil", 1}}), 1)
        << "a window may not begin beyond the image";
    const Attributes wide = {{"window", 1},       {"window_width", 4},  {"stride", 2},
                             {"stride_width", 3}, {"padding_width", 2}, {"ceil", 1}};
    EXPECT_EQ(*shape_of(*op, wide, Shape{9, 8, 5}), (Shape{5, 4, 5}));
  }
}

TEST(WindowPooling, WhatIsImpossibleIsRefused) {
  const auto message = [](const Attributes& attributes, const Shape& input) {
    const auto shape = shape_of(kAveragePool, attributes, input);
    return shape.ok() ? std::string("accepted") : shape.error().message;
  };
  const Shape image{8, 8, 3};
  EXPECT_EQ(message({{"window", 12}}, image), "attribute 'window' is 12; wants 1 to 11");
  EXPECT_EQ(message({{"window", 3}, {"stride", -1}}, image),
            "attribute 'stride' is -1; wants 0 to 11");
  EXPECT_EQ(message({{"window", 3}, {"padding", 2}}, image),
            "wants padding of at most half the window, not 2 for a window of 3");
  EXPECT_EQ(message({{"window", 9}}, image),
            "a window of 9 with padding 0 does not fit an image of [8, 8, 3]");
  EXPECT_EQ(message({{"window", 3}, {"window_width", 1}, {"padding", 1}}, image),
            "wants padding of at most half the window, not 1 for a window of 1");
  EXPECT_EQ(message({{"window", 2}}, Shape{8}), "wants one [H, W, C], [T, C] or [D, H, W, C] input");
  const auto plain = shape_of(kMaxPool, {{"window", 3}, {"stride", 2}}, image);
  ASSERT_FALSE(plain.ok());
  EXPECT_NE(plain.error().message.find("overlapping_max_pool takes others"), std::string::npos);
  EXPECT_FALSE(shape_of(kMaxPool, {{"window", 2}, {"window_width", 1}}, image).ok());
}

// One operator on 8-bit values and 16-bit gradients, exponents exact.
struct Computed {
  Shape in, out;
  std::vector<int8_t> output;
  std::vector<int16_t> grad_input;
  int16_t output_exponent = 0, grad_exponent = 0;
};

Computed compute(const Op& op, const Attributes& attributes, const Shape& image,
                 const std::vector<int8_t>& values, ExponentMode mode, int threads) {
  const int64_t images = static_cast<int64_t>(values.size()) / image.count();
  Computed r;
  r.in = image.with_front(images);
  r.out = shape_of(op, attributes, image)->with_front(images);
  r.output.assign(static_cast<size_t>(r.out.count()), 99);
  r.grad_input.assign(values.size(), 99);
  auto grad_output = kernels::test_values<int16_t>(r.out.count(), 9, 15);
  for (int16_t& gradient : grad_output) gradient = std::max<int16_t>(gradient, -32767);

  int16_t in_exponent = -3, grad_out_exponent = -20, predicted = kUnmeasured;
  int16_t measured = kUnmeasured;
  int64_t saturated = 0;
  const auto tensor = [&](const void* data, DataType type, const Shape& shape, int16_t* exponent) {
    Tensor t;
    t.data = const_cast<void*>(data);
    t.type = type;
    t.shape = shape;
    t.exponent = exponent;
    t.bits = static_cast<int>(8 * element_bytes(type));
    t.saturated = &saturated;
    t.predictor = {&predicted, &measured};
    return t;
  };
  const kernels::KernelTable table = kernels::select_kernels(best_isa());
  ThreadPool pool(threads);
  StepTotals totals;
  std::vector<int64_t> histogram(kHistogramBins), workspace(1 << 14);
  const Tensor input = tensor(values.data(), DataType::kInt8, r.in, &in_exponent);
  const Tensor grad_input = tensor(r.grad_input.data(), DataType::kInt16, r.in, &r.grad_exponent);
  OpContext c;
  const Attributes completed = *complete(attributes, op.attributes);
  c.node.attributes = &completed;
  c.mode.exponents = mode;
  c.inputs = std::span(&input, 1);
  Tensor output_view = tensor(r.output.data(), DataType::kInt8, r.out, &r.output_exponent);
  output_view.histogram = histogram.data();
  c.outputs = {&output_view, 1};
  const Tensor grad_view = tensor(grad_output.data(), DataType::kInt16, r.out, &grad_out_exponent);
  c.grad_outputs = {&grad_view, 1};
  c.grad_inputs = std::span(&grad_input, 1);
  c.memory.workspace = reinterpret_cast<std::byte*>(workspace.data());
  c.kernel.pool = &pool;
  c.kernel.table = &table;
  c.step.totals = &totals;
  op.integer.forward.run(c);
  op.integer.grad_input.run(c);
  return r;
}

std::vector<int8_t> image_values(int64_t count) {
  auto values = kernels::test_values<int8_t>(count, 3, 7);
  for (int8_t& value : values) value = std::max<int8_t>(value, -127);
  return values;
}

TEST(WindowPooling, AWindowOfTheWholeImageIsTheGlobalAverage) {
  for (const int64_t side : {1, 4, 7, 11}) {
    const Shape image{side, side, 19};
    const auto values = image_values(5 * image.count());
    for (const auto mode : {ExponentMode::kExact, ExponentMode::kPredicted}) {
      const Computed whole = compute(kGlobalAveragePool, {}, image, values, mode, 1);
      const Computed window = compute(kAveragePool, {{"window", side}}, image, values, mode, 3);
      EXPECT_EQ(window.output, whole.output);
      EXPECT_EQ(window.output_exponent, whole.output_exponent);
      EXPECT_EQ(window.grad_input, whole.grad_input);
      EXPECT_EQ(window.grad_exponent, whole.grad_exponent);
    }
  }
}

TEST(WindowPooling, WindowsThatDoNotOverlapAreThoseOfMaxPool) {
  const Shape image{9, 7, 21};
  const auto values = image_values(4 * image.count());
  for (const int64_t window : {1, 2, 3}) {
    const Attributes attributes = {{"window", window}};
    const Computed plain = compute(kMaxPool, attributes, image, values, ExponentMode::kExact, 1);
    const Computed general =
        compute(kOverlappingMaxPool, attributes, image, values, ExponentMode::kExact, 2);
    EXPECT_EQ(general.output, plain.output);
    EXPECT_EQ(general.output_exponent, plain.output_exponent);
    EXPECT_EQ(general.grad_input, plain.grad_input);
    EXPECT_EQ(general.grad_exponent, plain.grad_exponent);
  }
}

// All cells alike: padded cells that do not count change nothing, those that count are zeros.
TEST(WindowPooling, PaddedCellsCountOrDoNot) {
  const Shape image{4, 5, 3};
  const std::vector<int8_t> values(static_cast<size_t>(2 * image.count()), 108);
  const Attributes counted = {{"window", 3}, {"stride", 1}, {"padding", 1}};
  const Attributes inside = {{"window", 3}, {"stride", 1}, {"padding", 1}, {"count_padding", 0}};
  for (const auto mode : {ExponentMode::kExact, ExponentMode::kPredicted}) {
    const Computed a = compute(kAveragePool, counted, image, values, mode, 1);
    const Computed b = compute(kAveragePool, inside, image, values, mode, 2);
    EXPECT_EQ(a.output_exponent, -3);
    EXPECT_EQ(b.output_exponent, -3);
    EXPECT_EQ(b.output, std::vector<int8_t>(b.output.size(), 108));
    for (int64_t i = 0; i < a.out.count(); ++i) {
      const int64_t x = i / 3 % 5, y = i / 15 % 4;
      const int64_t rows = y == 0 || y == 3 ? 2 : 3, columns = x == 0 || x == 4 ? 2 : 3;
      EXPECT_EQ(a.output[i], 108 * rows * columns / 9) << i;
    }
  }
}

// A window that only `ceil` adds counts the cells in the image and its padding.
TEST(WindowPooling, AWindowBeyondTheImageCountsLess) {
  const Shape image{3, 3, 1};
  const std::vector<int8_t> values(9, 96);
  const Computed r =
      compute(kAveragePool, {{"window", 2}, {"ceil", 1}}, image, values, ExponentMode::kExact, 1);
  EXPECT_EQ(r.out, (Shape{1, 2, 2, 1}));
  EXPECT_EQ(r.output, std::vector<int8_t>(4, 96));
}

}  // namespace
}  // namespace mantissa::ops
