// Concat against its definition: the largest exponent, rounding to it, slices of gradients.
#include <gtest/gtest.h>

#include "kernels/elementwise/test_values.h"
#include "numerics/rounding.h"
#include "ops/ops.h"

namespace mantissa::ops {
namespace {

constexpr int64_t kRows = 2 * 5 * 7;  // images, height, width

Tensor view(void* data, DataType type, int64_t channels, int16_t* exponent) {
  Tensor tensor;
  tensor.data = data;
  tensor.type = type;
  tensor.shape = Shape{2, 5, 7, channels};
  tensor.bits = static_cast<int>(8 * element_bytes(type));
  tensor.exponent = exponent;
  return tensor;
}

// Values of several widths with these exponents.
void check_forward(const std::vector<int64_t>& channels, std::vector<int16_t> exponents,
                   int threads) {
  std::vector<std::vector<int8_t>> values;
  std::vector<Tensor> inputs;
  int64_t total = 0;
  for (size_t i = 0; i < channels.size(); ++i) {
    values.push_back(kernels::test_values<int8_t>(kRows * channels[i], i, 7));
    total += channels[i];
  }
  for (size_t i = 0; i < channels.size(); ++i) {
    inputs.push_back(view(values[i].data(), DataType::kInt8, channels[i], &exponents[i]));
  }
  std::vector<int8_t> out(kRows * total + 1, 99), wanted = out;
  int16_t out_exponent = 0;
  ThreadPool pool(threads);
  OpContext c;
  c.inputs = inputs;
  const Tensor output_view = view(out.data(), DataType::kInt8, total, &out_exponent);
  c.outputs = {&output_view, 1};
  c.kernel.pool = &pool;
  kConcat.integer.forward.run(c);
  const int16_t largest = *std::max_element(exponents.begin(), exponents.end());
  EXPECT_EQ(out_exponent, largest);
  int64_t first = 0;
  for (size_t i = 0; i < channels.size(); first += channels[i++]) {
    for (int64_t k = 0; k < kRows * channels[i]; ++k) {
      wanted[k / channels[i] * total + first + k % channels[i]] =
          static_cast<int8_t>(kernels::exact_rne(values[i][k], largest - exponents[i]));
    }
  }
  ASSERT_EQ(out, wanted);
}

TEST(Concat, BringsInputsToTheirLargestExponent) {
  for (const int threads : {1, 2, 3}) {
    check_forward({16}, {-3}, threads);
    check_forward({3, 16, 1}, {-3, -3, -3}, threads);
    check_forward({3, 17, 64, 5}, {-3, -4, -5, -9}, threads);
    check_forward({8, 8, 8, 8, 8}, {5, -2, -3, -4, -5}, threads);  // shifts 0, 7, 8, 9, 10
    check_forward({2, 2}, {-128, 127}, threads);
  }
}

template <typename T>
void check_backward(DataType type, bool second_wanted) {
  const std::vector<int64_t> channels = {3, 17, 4};
  const auto grad = kernels::test_values<T>(kRows * 24, 5, static_cast<int>(8 * sizeof(T)) - 1);
  std::vector<std::vector<T>> slices(3);
  int16_t exponents[3] = {0, 0, 0}, exponent = -21;
  std::vector<Tensor> grad_inputs;
  for (size_t i = 0; i < 3; ++i) {
    slices[i].assign(kRows * channels[i] + 1, 99);
    void* data = i == 1 && !second_wanted ? nullptr : slices[i].data();
    grad_inputs.push_back(view(data, type, channels[i], &exponents[i]));
  }
  ThreadPool pool(2);
  OpContext c;
  const Tensor grad_view = view(const_cast<T*>(grad.data()), type, 24, &exponent);
  c.grad_outputs = {&grad_view, 1};
  c.grad_inputs = grad_inputs;
  c.kernel.pool = &pool;
  kConcat.integer.grad_input.run(c);
  int64_t first = 0;
  for (size_t i = 0; i < 3; first += channels[i++]) {
    std::vector<T> wanted(kRows * channels[i] + 1, 99);
    const bool written = i != 1 || second_wanted;
    for (int64_t k = 0; written && k < kRows * channels[i]; ++k) {
      wanted[k] = grad[k / channels[i] * 24 + first + k % channels[i]];
    }
    EXPECT_EQ(slices[i], wanted);
    EXPECT_EQ(exponents[i], written ? -21 : 0);
  }
}

TEST(Concat, GradientsAreSlices) {
  for (const bool second_wanted : {true, false}) {
    check_backward<int16_t>(DataType::kInt16, second_wanted);
    check_backward<int8_t>(DataType::kInt8, second_wanted);
  }
}

TEST(Concat, ShapesAddUpOrAreRefused) {
  const Shape shapes[] = {{5, 7, 3}, {5, 7, 4}, {5, 6, 4}, {4}};
  const auto infer = [](std::initializer_list<Shape> list) {
    return output_shape(kConcat, {}, std::vector<Shape>(list));
  };
  EXPECT_EQ(*infer({shapes[0], shapes[1], shapes[0]}), (Shape{5, 7, 10}));
  EXPECT_EQ(*infer({shapes[3], shapes[3]}), Shape{8});
  EXPECT_FALSE(infer({}).ok());
  EXPECT_FALSE(infer({shapes[0], shapes[3]}).ok());
  const auto refused = infer({shapes[0], shapes[2]});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message,
            "wants inputs that differ in their channels only, not [5, 7, 3] and [5, 6, 4]");
}

}  // namespace
}  // namespace mantissa::ops
