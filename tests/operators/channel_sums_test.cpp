// A linear layer whose output channels have exponents of their own, against the rules of
// docs/formats.md ("Exponents per output channel") in 128 bits.
#include <gtest/gtest.h>

#include <cstring>
#include <optional>
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

constexpr int64_t kRows = 37, kIn = 50, kOut = 7;
constexpr int kInputExponent = -4, kBiasExponent = -14;
// The largest exponent is the one of a channel of zeros; -40 is too small to show.
const std::vector<int16_t> kExponents = {-9, -8, -40, -12, -5, -10, -7};
constexpr int64_t kZeroChannel = 4;

class ChannelSums : public ::testing::TestWithParam<int> {
 protected:
  ChannelSums() {
    for (int8_t& m : input_) m = static_cast<int8_t>(saturate(m, 127));
    for (int8_t& m : weights_) m = static_cast<int8_t>(saturate(m, 127));
    for (int16_t& m : bias_) m = static_cast<int16_t>(saturate(m, 32767));
    std::fill_n(weights_.begin() + kZeroChannel * kIn, kIn, int8_t{0});
    bias_[kZeroChannel] = 0;
    parameters_.resize(2);
    parameters_[0].mantissa = tensor(weights_.data(), DataType::kInt8, {kOut, kIn}, &exponents_[0]);
    parameters_[0].mantissa.blocks = kOut;
    parameters_[1].mantissa = tensor(bias_.data(), DataType::kInt16, {kOut}, &bias_exponent_);
    parameters_[1].mantissa.bits = 16;
    inputs_ = {tensor(input_.data(), DataType::kInt8, {kRows, kIn}, &input_exponent_)};
  }

  Tensor tensor(void* data, DataType type, Shape shape, int16_t* exponent) {
    Tensor t;
    t.data = data, t.type = type, t.shape = shape, t.exponent = exponent;
    t.saturated = &saturated_;
    return t;
  }

  // Memory as it is planned, filled with garbage.
  OpContext context(ExponentMode mode, DataType output) {
    const Shape input{kRows, kIn}, parameters[] = {{kOut, kIn}, {kOut}};
    const Grid grids[] = {{.blocks = Blocks::kChannel}, {.bits = 16}};
    const OpMemory memory = ops::kLinear.integer.memory({.attributes = &attributes_,
                                                         .inputs = {&input, 1},
                                                         .output = Shape{kRows, kOut},
                                                         .parameters = parameters,
                                                         .output_type = output,
                                                         .exponent_mode = mode,
                                                         .parameter_grids = grids,
                                                         .gradient = {.bits = gradient_bits_},
                                                         .wide_gradient = {.bits = gradient_bits_}},
                                                        {&kernels_, pool_.size()});
    const auto take = [](std::optional<AlignedMemory>& to, int64_t bytes) {
      to.emplace(std::move(*AlignedMemory::create(bytes)));
      std::memset(to->data(), 0xA5, static_cast<size_t>(bytes));
      return to->span();
    };
    saturated_ = 0;
    totals_ = {};
    OpContext c;
    c.node.attributes = &attributes_;
    c.mode.exponents = mode;
    c.inputs = inputs_;
    c.parameters = parameters_;
    c.kernel.pool = &pool_;
    c.kernel.scratch =
        take(scratch_, std::max(memory.forward.scratch_bytes, memory.grad_input.scratch_bytes));
    c.memory.workspace = take(workspace_, std::max(memory.forward.workspace_bytes,
                                                   memory.grad_input.workspace_bytes))
                             .data();
    c.kernel.table = &kernels_;
    c.step.totals = &totals_;
    return c;
  }

  void run(const OpRow& row, OpContext& c) {
    const Prepared prepared = row.prepare(c);
    c.kernel.prepared = prepared.get();
    row.run(c);
  }

  static int exponent(int64_t o) { return kInputExponent + kExponents[static_cast<size_t>(o)]; }

  // The exact sums, with the aligned bias.
  Wide sum(int64_t row, int64_t o) const {
    Wide total = exact_rne(bias_[static_cast<size_t>(o)], exponent(o) - kBiasExponent);
    total = exact_saturate(total, 1 << 30);
    for (int64_t i = 0; i < kIn; ++i) total += input_[row * kIn + i] * weights_[o * kIn + i];
    return total;
  }
  // The exponent that exact requantising to 8 bits chooses for channel o alone; INT_MIN for zeros.
  int wanted_exponent(int64_t o) const {
    uint64_t most = 0;
    for (int64_t row = 0; row < kRows; ++row) most = std::max(most, exact_magnitude(sum(row, o)));
    return most == 0 ? INT_MIN : exponent(o) + exact_shift(most, 8);
  }

  void expect_output(const OpContext& c, const std::vector<int8_t>& found) {
    int64_t clipped = 0;
    for (int64_t o = 0; o < kOut; ++o) {
      const Wide aligned = exact_rne(bias_[static_cast<size_t>(o)], exponent(o) - kBiasExponent);
      clipped += exact_magnitude(aligned) > 1 << 30;
    }
    EXPECT_GT(clipped, 0);
    for (int64_t row = 0; row < kRows; ++row) {
      for (int64_t o = 0; o < kOut; ++o) {
        const bool guarded = c.output().guarded != nullptr;
        const int to = *c.output().exponent + (guarded ? c.output().channel_exponent[o] : 0);
        const int shift = std::min(to - exponent(o), 31);
        ASSERT_GE(shift, 0) << o;
        const Wide rounded = exact_rne(sum(row, o), shift), wanted = exact_saturate(rounded, 127);
        ASSERT_EQ(found[row * kOut + o], static_cast<int>(wanted)) << row << " " << o;
        clipped += wanted != rounded;
      }
    }
    EXPECT_EQ(saturated_, clipped);
  }

  int gradient_bits_ = 16;
  Attributes attributes_ = *complete({{"channels", kOut}}, ops::kLinear.attributes);
  ThreadPool pool_{GetParam()};
  kernels::KernelTable kernels_ = kernels::select_kernels(best_isa());
  std::vector<int8_t> input_ = test_values<int8_t>(kRows * kIn, 1, 7);
  std::vector<int8_t> weights_ = test_values<int8_t>(kOut * kIn, 2, 7);
  std::vector<int16_t> bias_ = test_values<int16_t>(kOut, 3, 15);
  std::vector<int16_t> exponents_ = kExponents;
  int16_t input_exponent_ = kInputExponent, bias_exponent_ = kBiasExponent;
  std::vector<ParameterView> parameters_;
  std::vector<Tensor> inputs_;
  int64_t saturated_ = 0;
  StepTotals totals_;
  std::optional<AlignedMemory> scratch_, workspace_;
};

TEST_P(ChannelSums, AreNarrowedToOneExponent) {
  int largest = INT_MIN;
  for (int64_t o = 0; o < kOut; ++o) largest = std::max(largest, wanted_exponent(o));
  for (const ExponentMode mode : {ExponentMode::kExact, ExponentMode::kPredicted}) {
    // A prediction that is too small, right, far too large.
    for (const int predicted : {largest - 9, largest, largest + 60}) {
      OpContext c = context(mode, DataType::kInt8);
      std::vector<int8_t> out(kRows * kOut);
      auto exponent = static_cast<int16_t>(predicted);
      const Tensor output_view = tensor(out.data(), DataType::kInt8, {kRows, kOut}, &exponent);
      c.outputs = {&output_view, 1};
      run(ops::kLinear.integer.forward, c);
      EXPECT_EQ(exponent, largest);
      EXPECT_EQ(totals_.mispredictions,
                mode == ExponentMode::kPredicted && predicted != largest ? 1 : 0);
      expect_output(c, out);
    }
  }
  // A fixed exponent, as after freezing: larger, and smaller so that much is clipped.
  for (const int fixed : {largest + 3, largest - 4}) {
    OpContext c = context(ExponentMode::kFixed, DataType::kInt8);
    std::vector<int8_t> out(kRows * kOut);
    auto exponent = static_cast<int16_t>(fixed);
    const Tensor output_view = tensor(out.data(), DataType::kInt8, {kRows, kOut}, &exponent);
    c.outputs = {&output_view, 1};
    run(ops::kLinear.integer.forward, c);
    EXPECT_EQ(exponent, fixed);
    expect_output(c, out);
  }
}

TEST_P(ChannelSums, UnderTheGuardKeepTheirOwn) {
  const uint8_t guarded = 1;
  OpContext c = context(ExponentMode::kPredicted, DataType::kInt8);
  std::vector<int8_t> out(kRows * kOut), offsets(kOut, 55);
  int16_t exponent = 0;
  Tensor output_view = tensor(out.data(), DataType::kInt8, {kRows, kOut}, &exponent);
  c.outputs = {&output_view, 1};
  output_view.channel_exponent = offsets.data();
  output_view.guarded = &guarded;
  run(ops::kLinear.integer.forward, c);
  for (int64_t o = 0; o < kOut; ++o) {
    const int wanted = o == kZeroChannel ? this->exponent(o) : wanted_exponent(o);
    EXPECT_EQ(exponent + offsets[o], std::max(wanted, exponent - 31)) << o;
  }
  expect_output(c, out);
}

TEST_P(ChannelSums, LeftWideHaveTheLargestExponent) {
  OpContext c = context(ExponentMode::kExact, DataType::kInt32);
  std::vector<int32_t> out(kRows * kOut);
  int16_t exponent = 0;
  const Tensor output_view = tensor(out.data(), DataType::kInt32, {kRows, kOut}, &exponent);
  c.outputs = {&output_view, 1};
  run(ops::kLinear.integer.forward, c);
  EXPECT_EQ(exponent, kInputExponent - 5);
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t o = 0; o < kOut; ++o) {
      EXPECT_EQ(out[row * kOut + o],
                static_cast<int32_t>(exact_rne(sum(row, o), exponent - this->exponent(o))));
    }
  }
}

// The wide gradient of the input from the aligned gradient of the output, then 16 or 8 bits.
TEST_P(ChannelSums, GradientsAreAlignedToTheLargestExponent) {
  for (const int bits : {16, 8}) {
    gradient_bits_ = bits;
    std::vector<int16_t> grad = test_values<int16_t>(kRows * kOut, 9, bits - 1);
    for (int16_t& m : grad) m = static_cast<int16_t>(saturate(m, mantissa_limit(bits)));
    std::vector<int8_t> bytes(grad.begin(), grad.end());
    OpContext c = context(ExponentMode::kExact, DataType::kInt8);
    int16_t grad_exponent = -20, exponent = 0, predicted = kUnmeasured, measured = kUnmeasured;
    const DataType type = bits == 8 ? DataType::kInt8 : DataType::kInt16;
    Tensor grad_view = tensor(bits == 8 ? static_cast<void*>(bytes.data()) : grad.data(), type,
                              {kRows, kOut}, &grad_exponent);
    c.grad_outputs = {&grad_view, 1};
    grad_view.bits = bits;
    std::vector<int16_t> out(kRows * kIn);
    Tensor grad_input = tensor(out.data(), type, {kRows, kIn}, &exponent);
    grad_input.bits = bits;
    grad_input.predictor = {&predicted, &measured};
    c.grad_inputs = {&grad_input, 1};
    run(ops::kLinear.integer.grad_input, c);

    std::vector<Wide> wide(kRows * kIn, 0);
    uint64_t most = 0;
    for (int64_t i = 0; i < kRows * kIn; ++i) {
      for (int64_t o = 0; o < kOut; ++o) {
        const int below = -5 - kExponents[static_cast<size_t>(o)];
        wide[i] += exact_rne(grad[i / kIn * kOut + o], below) * weights_[o * kIn + i % kIn];
      }
      most = std::max(most, exact_magnitude(wide[i]));
    }
    const int shift = exact_shift(most, bits);
    EXPECT_EQ(exponent, grad_exponent - 5 + shift);
    EXPECT_EQ(measured, exponent);
    for (int64_t i = 0; i < kRows * kIn; ++i) {
      const Wide wanted = exact_saturate(exact_rne(wide[i], shift), mantissa_limit(bits));
      const int found = bits == 8 ? grad_input.as<int8_t>()[i] : out[i];
      ASSERT_EQ(found, static_cast<int>(wanted)) << bits << " bits, element " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, ChannelSums, ::testing::Values(1, 3));

}  // namespace
}  // namespace mantissa::testing
