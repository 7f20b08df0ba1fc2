// The gradient of the input of a linear layer with more outputs than sums in int32 have products,
// against its definition in 128 bits.
#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <tuple>
#include <vector>

#include "kernels/elementwise/test_values.h"
#include "kernels/kernel_table.h"
#include "numerics/exponent.h"
#include "ops/ops.h"
#include "runtime/memory.h"

namespace mantissa::testing {
namespace {

using kernels::exact_magnitude;
using kernels::exact_rne;
using kernels::exact_saturate;
using kernels::test_values;
using kernels::Wide;

// The last piece of outputs is short, and the last 32 of it, too.
constexpr int64_t kDeepRows = 3, kDeepIn = 20, kDeepOut = 70'001;
constexpr int kDeepGradient = -20, kDeepWeights = -5;

class DeepClassifier : public ::testing::TestWithParam<std::tuple<Isa, int, int>> {
 protected:
  void SetUp() override {
    if (!is_supported(std::get<Isa>(GetParam()))) GTEST_SKIP() << "this CPU lacks it";
  }

  // Exponents of the channels: the largest, and others, one too small to show.
  static std::vector<int16_t> exponents() {
    std::vector<int16_t> all(kDeepOut);
    for (int64_t o = 0; o < kDeepOut; ++o) {
      all[o] = static_cast<int16_t>(o % 17 == 3 ? -60 : kDeepWeights - o % 5);
    }
    return all;
  }

  static Tensor tensor(void* data, int bits, const Shape& shape, int16_t* exponent) {
    Tensor t;
    t.data = data, t.type = bits == 8 ? DataType::kInt8 : DataType::kInt16;
    t.shape = shape, t.exponent = exponent, t.bits = bits;
    return t;
  }

  // The sums, in units of the largest exponent.
  std::vector<Wide> sums() const {
    std::vector<Wide> wide(kDeepRows * kDeepIn, 0);
    for (int64_t o = 0; o < kDeepOut; ++o) {
      const int below = std::min(kDeepWeights - exponents_[o], 30);
      for (int64_t row = 0; row < kDeepRows; ++row) {
        const Wide gradient = exact_rne(gradient_[row * kDeepOut + o], below);
        for (int64_t i = 0; i < kDeepIn; ++i)
          wide[row * kDeepIn + i] += gradient * weights_[o * kDeepIn + i];
      }
    }
    return wide;
  }

  // grad_input with memory as it is planned, filled with garbage.
  std::vector<int> run(int16_t& exponent) {
    const int bits = std::get<1>(GetParam());
    const Attributes attributes =
        *complete({{"channels", kDeepOut}, {"bias", 0}}, ops::kLinear.attributes);
    kernels::KernelTable table = kernels::select_kernels(std::get<Isa>(GetParam()));
    ThreadPool pool(std::get<2>(GetParam()));
    const Shape input{kDeepRows, kDeepIn}, parameter{kDeepOut, kDeepIn};
    const Grid grid{.blocks = Blocks::kChannel};
    const RowMemory memory = ops::kLinear.integer
                                 .memory({.attributes = &attributes,
                                          .inputs = {&input, 1},
                                          .output = Shape{kDeepRows, kDeepOut},
                                          .parameters = {&parameter, 1},
                                          .output_type = DataType::kInt32,
                                          .parameter_grids = {&grid, 1},
                                          .gradient = {.bits = bits},
                                          .wide_gradient = {.bits = bits}},
                                         {&table, pool.size()})
                                 .grad_input;
    AlignedMemory workspace = std::move(*AlignedMemory::create(memory.workspace_bytes));
    AlignedMemory scratch = std::move(*AlignedMemory::create(memory.scratch_bytes));
    std::memset(workspace.data(), 0xA5, static_cast<size_t>(memory.workspace_bytes));
    std::memset(scratch.data(), 0xA5, static_cast<size_t>(memory.scratch_bytes));

    std::vector<int8_t> bytes(gradient_.begin(), gradient_.end());
    std::vector<int16_t> out(kDeepRows * kDeepIn, 0x5A5A);
    int16_t grad_exponent = kDeepGradient, predicted = kUnmeasured, measured = kUnmeasured;
    int64_t saturated = 0;
    StepTotals totals;
    ParameterView weights;
    weights.mantissa = tensor(weights_.data(), 8, parameter, exponents_.data());
    weights.mantissa.blocks = kDeepOut;
    void* const mantissas = bits == 8 ? static_cast<void*>(bytes.data()) : gradient_.data();
    const Tensor grad = tensor(mantissas, bits, {kDeepRows, kDeepOut}, &grad_exponent);
    Tensor grad_input = tensor(out.data(), bits, input, &exponent);
    grad_input.saturated = &saturated;
    grad_input.predictor = {&predicted, &measured};

    OpContext c;
    c.node.attributes = &attributes;
    c.parameters = {&weights, 1};
    c.grad_outputs = {&grad, 1};
    c.grad_inputs = {&grad_input, 1};
    c.kernel.pool = &pool, c.kernel.table = &table, c.kernel.scratch = scratch.span();
    c.memory.workspace = workspace.data();
    c.step.totals = &totals;
    const OpRow& row = ops::kLinear.integer.grad_input;
    const Prepared prepared = row.prepare(c);
    c.kernel.prepared = prepared.get();
    row.run(c);

    std::vector<int> found;
    for (int64_t i = 0; i < kDeepRows * kDeepIn; ++i) {
      found.push_back(bits == 8 ? grad_input.as<int8_t>()[i] : out[i]);
    }
    return found;
  }

  std::vector<int8_t> weights_ = test_values<int8_t>(kDeepOut * kDeepIn, 2, 7);
  std::vector<int16_t> gradient_ =
      test_values<int16_t>(kDeepRows * kDeepOut, 9, std::get<1>(GetParam()) - 1);
  std::vector<int16_t> exponents_ = exponents();
};

TEST_P(DeepClassifier, GradInputIsTheDefinitions) {
  const int bits = std::get<1>(GetParam());
  for (int8_t& m : weights_) m = static_cast<int8_t>(saturate(m, 127));
  for (int16_t& m : gradient_) m = static_cast<int16_t>(saturate(m, mantissa_limit(bits)));
  // One sum that leaves int32 also with gradients of 8 bits.
  for (int64_t o = 0; o < kDeepOut; ++o) {
    if (o % 17 != 3) weights_[o * kDeepIn] = 127, gradient_[o] = 127, exponents_[o] = kDeepWeights;
  }
  const std::vector<Wide> wide = sums();
  uint64_t most = 0;
  for (const Wide sum : wide) most = std::max(most, exact_magnitude(sum));
  EXPECT_GT(most, uint64_t{1'000'000'000});
  const int shift = exact_shift(most, bits);

  int16_t exponent = 0;
  const std::vector<int> found = run(exponent);
  EXPECT_EQ(exponent, kDeepGradient + kDeepWeights + shift);
  for (size_t i = 0; i < wide.size(); ++i) {
    const Wide wanted = exact_saturate(exact_rne(wide[i], shift), mantissa_limit(bits));
    ASSERT_EQ(found[i], static_cast<int>(wanted)) << "element " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(All, DeepClassifier,
                         ::testing::Combine(::testing::Values(Isa::kScalar, Isa::kAvx2, best_isa()),
                                            ::testing::Values(16, 8), ::testing::Values(1, 3)));

}  // namespace
}  // namespace mantissa::testing
