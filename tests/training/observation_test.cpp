// Observing a step changes nothing in it, and reports the true numbers.
#include "runtime/observation.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <map>
#include <string>

#include "numerics/exponent.h"
#include "tests/harness.h"

namespace mantissa::testing {
namespace {

const HarnessOptions kVariants[] = {
    {.model = "resnet8", .micro_batch_size = 8, .threads = 2},
    {.model = "lenet5", .format = "bfp:g=8,gr=stochastic", .threads = 2},
    {.model = "mlp", .format = "bfp:exponents=exact,acc=8", .micro_batch_size = 4},
    {.model = "resnet8", .format = "bfp8-text", .micro_batch_size = 8, .threads = 2},
    {.model = "lenet5", .format = "dfp:warmup=3", .micro_batch_size = 8, .threads = 2},
};

TEST(Observation, ChangesNoBit) {
  for (const HarnessOptions& options : kVariants) {
    Harness plain(options), observed(options);
    Observations observations(observed.program());
    for (int i = 0; i < 6; ++i) {
      observed.executor().set_observations(i % 2 == 1 ? &observations : nullptr);
      observed.step();
      plain.step();
    }
    EXPECT_EQ(plain.state_sha256(), observed.state_sha256()) << options.model;
  }
}

TEST(Observation, AddsUpToTheTotalsOfTheStep) {
  for (const HarnessOptions& options : kVariants) {
    Harness harness(options);
    Observations observations(harness.program());
    harness.executor().set_observations(&observations);
    int64_t any = 0;
    for (int i = 0; i < 4; ++i) {
      const StepResult result = harness.step();
      int64_t saturated = 0, re_executions = 0, mispredictions = 0;
      for (const TensorObservation& seen : observations.tensors()) {
        saturated += seen.saturated;
        re_executions += seen.re_executions;
        mispredictions += seen.mispredictions;
      }
      EXPECT_EQ(saturated, result.saturated) << options.model;
      EXPECT_EQ(re_executions, result.re_executions) << options.model;
      EXPECT_EQ(mispredictions, result.mispredictions) << options.model;
      any += saturated + re_executions;
    }
    EXPECT_GT(any, 0) << "or nothing was tested";
  }
}

// Bit lengths of parameters' gradients in a first step, by parameter.
std::map<std::string, BitLengths> gradient_lengths(const HarnessOptions& options) {
  Harness harness(options);
  Observations observations(harness.program());
  harness.executor().set_observations(&observations);
  harness.step();
  std::map<std::string, BitLengths> found;
  for (const TensorObservation& seen : observations.tensors()) {
    if (seen.kind != ObservedKind::kParameterGradient) continue;
    EXPECT_EQ(seen.exponent, kGradientAccumulatorStart);
    found[harness.program().instructions[seen.instruction].name] = seen.bits;
  }
  return found;
}

// Counts the sums, and not what each optimizer leaves in their place. They are counted at the fixed
// exponent: sums for weights, which have 32 bits here, have more bits there.
TEST(Observation, SumsOfGradientsAreCountedBeforeTheUpdate) {
  HarnessOptions options{.model = "mlp", .optimizer = OptimizerKind::kMomentum, .threads = 2};
  const auto expected = gradient_lengths(options);
  ASSERT_EQ(expected.size(), 8u);
  for (const auto& [name, bits] : expected) {
    if (!name.ends_with(".weights")) continue;
    EXPECT_GT(bits.largest(), 31) << name;
  }
  for (const OptimizerKind optimizer : {OptimizerKind::kSgd, OptimizerKind::kAdam}) {
    options.optimizer = optimizer;
    const auto found = gradient_lengths(options);
    ASSERT_EQ(found.size(), expected.size());
    for (const auto& [name, bits] : expected) {
      EXPECT_EQ(found.at(name).by_length, bits.by_length) << name;
    }
  }
}

TEST(Observation, FloatsAreMantissasOfAFixedUnit) {
  Harness harness({.model = "mlp", .format = "fp32", .reuses_memory = false});
  Observations observations(harness.program());
  harness.executor().set_observations(&observations);
  harness.train(3);
  const Tensor logits = harness.executor().output(0);
  BitLengths expected;
  for (int64_t i = 0; i < logits.count(); ++i) {
    const double mantissa = std::ldexp(std::abs(logits.as<float>()[i]), -kFloatExponent);
    ++expected.by_length[static_cast<size_t>(std::bit_width(static_cast<uint64_t>(mantissa)))];
  }
  bool found = false;
  for (const TensorObservation& seen : observations.tensors()) {
    EXPECT_EQ(seen.exponent, kFloatExponent);
    EXPECT_GT(seen.bits.elements(), 0);
    const Instruction& instruction = harness.program().instructions[seen.instruction];
    if (seen.kind != ObservedKind::kValue) continue;
    if (instruction.output().exponent != harness.program().outputs[0].exponent) continue;
    EXPECT_EQ(seen.bits.by_length, expected.by_length);
    found = true;
  }
  EXPECT_TRUE(found);
}

TEST(Observation, SeesParametersAsTheStateHasThem) {
  Harness harness({.model = "lenet5", .format = "bfp:block=channel", .micro_batch_size = 8});
  Observations observations(harness.program());
  harness.executor().set_observations(&observations);
  harness.train(3);
  int parameters = 0;
  for (const TensorObservation& seen : observations.tensors()) {
    if (seen.kind != ObservedKind::kParameter) continue;
    const int index = harness.program().instructions[seen.instruction].parameters()[0].index;
    if (harness.graph().parameters[index].storage != Storage::kWeights) continue;
    ++parameters;
    const ParameterState& tensors = harness.state().layout().parameters[index];
    const auto* mantissas = harness.state().data<int8_t>(tensors.mantissa);
    const int64_t count = harness.graph().parameters[index].shape.count();
    BitLengths counts;
    for (int64_t i = 0; i < count; ++i) {
      int bits = 0;
      for (int rest = std::abs(mantissas[i]); rest > 0; rest /= 2) ++bits;
      ++counts.by_length[bits];
    }
    EXPECT_EQ(seen.bits.by_length, counts.by_length);
    EXPECT_EQ(seen.bits.elements(), count);
    const auto* exponents = harness.state().data<int16_t>(tensors.exponent);
    const int64_t channels = harness.graph().parameters[index].shape[0];
    EXPECT_EQ(seen.exponent, *std::max_element(exponents, exponents + channels));
  }
  EXPECT_EQ(parameters, 5);
}

TEST(BitLengths, AddAndSumUp) {
  BitLengths none, some;
  EXPECT_EQ(none.elements(), 0);
  EXPECT_EQ(none.largest(), 0);
  some.by_length[0] = 3;
  some.by_length[2] = 5;
  some += some;
  EXPECT_EQ(some.elements(), 16);
  EXPECT_EQ(some.sum(), 20);
  EXPECT_EQ(some.largest(), 2);
}

TEST(Observation, CountsEveryMicroBatch) {
  Harness harness({.model = "lenet5", .batch_size = 16, .micro_batch_size = 4});
  Observations observations(harness.program());
  harness.executor().set_observations(&observations);
  harness.step();
  int values = 0, gradients = 0;
  for (const TensorObservation& seen : observations.tensors()) {
    const Instruction& instruction = harness.program().instructions[seen.instruction];
    if (seen.kind == ObservedKind::kValue) {
      ++values;
      EXPECT_EQ(seen.bits.elements(), 4 * instruction.output().shape.count());
      EXPECT_EQ(seen.exponent, harness.executor().exponent(instruction.output().exponent));
      // ReLU and pooling may leave fewer bits than a value has.
      EXPECT_LE(seen.bits.largest(), instruction.output().type == DataType::kInt8 ? 7 : 31);
      EXPECT_GT(seen.bits.largest(), 0);
    }
    if (seen.kind != ObservedKind::kGradient) continue;
    ++gradients;
    EXPECT_EQ(seen.bits.elements(), 4 * instruction.grad_inputs()[seen.operand].shape.count());
    EXPECT_LE(seen.bits.largest(), 15);
  }
  EXPECT_GT(values, 8);
  EXPECT_GT(gradients, 6);
}

}  // namespace
}  // namespace mantissa::testing
