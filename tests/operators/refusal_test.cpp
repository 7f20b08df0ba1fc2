// Refusals before harm is done: of sums that would not be exact, and of numbers that kernels do not
// expect.
#include <gtest/gtest.h>

#include "base/test_folder.h"
#include "formats/arrays/safetensors.h"
#include "infer/state_file.h"
#include "ops/ops.h"
#include "tests/harness.h"

namespace mantissa::testing {
namespace {

Result<Program> compile_linear(int64_t inputs) {
  GraphBuilder builder("deep", Shape{inputs, 1, 1});
  int value = builder.add(ops::kNormaliseInput, "normalise", {builder.input()});
  value = builder.add(ops::kFlatten, "flatten", {value});
  value = builder.add(ops::kLinear, "linear", {value}, {{"channels", 10}});
  auto graph = builder.finish(value);
  EXPECT_TRUE(graph.ok());
  const kernels::KernelTable table = kernels::select_kernels(Isa::kScalar);
  return compile(with_loss(*graph), {.micro_batch_size = 2}, {&table, 1});
}

TEST(Refusal, SumsThatWouldNotBeExact) {
  EXPECT_TRUE(compile_linear(65'000).ok());
  const auto deep = compile_linear(65'001);
  ASSERT_FALSE(deep.ok());
  EXPECT_EQ(deep.error().code, ErrorCode::kInvalidInput);
  EXPECT_NE(deep.error().message.find("node 'linear'"), std::string::npos) << deep.error().message;
  EXPECT_NE(deep.error().message.find("65001"), std::string::npos) << deep.error().message;
}

Result<Program> compile_average(int64_t height, const char* format, ProgramKind kind) {
  GraphBuilder builder("average", Shape{height, 256, 1});
  int value = builder.add(ops::kNormaliseInput, "normalise", {builder.input()});
  value = builder.add(ops::kConvolution, "convolution", {value}, {{"kernel", 1}, {"channels", 2}});
  value = builder.add(ops::kGlobalAveragePool, "average", {value});
  value = builder.add(ops::kLinear, "linear", {value}, {{"channels", 10}});
  auto graph = builder.finish(value);
  EXPECT_TRUE(graph.ok());
  const kernels::KernelTable table = kernels::select_kernels(Isa::kScalar);
  const bool trains = kind == ProgramKind::kTraining;
  return compile(with_loss(*graph),
                 {.kind = kind,
                  .micro_batch_size = 64,
                  .with_loss = trains,
                  .exponents = trains ? ExponentMode::kExact : ExponentMode::kFixed,
                  .format = *parse_format(format)},
                 {&table, 1});
}

void expect_refusal(const Result<Program>& program, const std::string& why) {
  ASSERT_FALSE(program.ok()) << why;
  EXPECT_NE(program.error().message.find(why), std::string::npos) << program.error().message;
}

TEST(Refusal, AveragesAndWideGradientsOfTooManyPixels) {
  EXPECT_TRUE(compile_average(256, "bfp:a=16", ProgramKind::kTraining).ok());
  expect_refusal(compile_average(257, "bfp:a=16", ProgramKind::kTraining),
                 "2^16 pixels of 16 bits");
  EXPECT_TRUE(compile_average(257, "bfp8", ProgramKind::kTraining).ok());
  // 64 pictures: 2^22 pixels at most; a frozen network has no gradients.
  EXPECT_TRUE(compile_average(256, "bfp:gw=32", ProgramKind::kTraining).ok());
  expect_refusal(compile_average(257, "bfp:gw=32", ProgramKind::kTraining), "smaller micro-batch");
  EXPECT_TRUE(compile_average(257, "bfp:gw=32", ProgramKind::kInference).ok());
}

// One linear layer, whose result is the logits: there is no value to widen.
TEST(Refusal, LinearValuesWhereThereAreNone) {
  GraphBuilder builder("single", Shape{4, 4, 1});
  int value = builder.add(ops::kNormaliseInput, "normalise", {builder.input()});
  value = builder.add(ops::kFlatten, "flatten", {value});
  const auto graph =
      builder.finish(builder.add(ops::kLinear, "linear", {value}, {{"channels", 4}}));
  ASSERT_TRUE(graph.ok());
  const kernels::KernelTable table = kernels::select_kernels(Isa::kScalar);
  const auto program = [&](const char* format) {
    return compile(with_loss(*graph), {.micro_batch_size = 2, .format = *parse_format(format)},
                   {&table, 1});
  };
  EXPECT_TRUE(program("bfp:a=16").ok());
  expect_refusal(program("bfp:linear=16"), "single: linear=16 changes nothing");
}

std::string dilated(int64_t dilation, int64_t kernel = 3) {
  const auto shape =
      output_shape(ops::kConvolution,
                   {{"channels", 4}, {"kernel", kernel}, {"dilation", dilation}, {"padding", 1}},
                   std::vector{Shape{7, 9, 2}});
  return shape.ok() ? to_string(*shape) : shape.error().message;
}

TEST(Refusal, DilatedKernelsThatDoNotFit) {
  EXPECT_EQ(dilated(1), "[7, 9, 4]");
  EXPECT_EQ(dilated(2), "[5, 7, 4]");
  EXPECT_EQ(dilated(4), "[1, 3, 4]");
  EXPECT_EQ(dilated(5), "a kernel of 3 with dilation 5 does not fit an image of [7, 9, 2]");
  EXPECT_EQ(dilated(int64_t{1} << 62),
            "a kernel of 3 with dilation 4611686018427387904 does not fit an image of [7, 9, 2]");
  EXPECT_EQ(dilated(0), "attribute 'dilation' is 0; wants 1 or more");
  EXPECT_EQ(dilated(int64_t{1} << 62, 1), "[9, 11, 4]") << "one tap has no distance";
  EXPECT_EQ(dilated(1, 11), "a kernel of 11 does not fit an image of [7, 9, 2]");
}

std::string of_sequence(Attributes attributes, const Op& op = ops::kConvolution) {
  const auto shape = output_shape(op, attributes, std::vector{Shape{20, 6}});
  return shape.ok() ? to_string(*shape) : shape.error().message;
}

TEST(Refusal, SettingsThatSequencesLack) {
  EXPECT_EQ(of_sequence({{"channels", 4}, {"kernel", 5}}), "[16, 4]");
  EXPECT_EQ(of_sequence({{"channels", 4}, {"kernel", 5}, {"dilation", 9}, {"causal", 1}}),
            "[20, 4]");
  EXPECT_EQ(of_sequence({{"channels", 4}, {"kernel", 5}, {"stride", 3}, {"causal", 1}}), "[7, 4]");
  EXPECT_EQ(of_sequence({{"channels", 4}, {"kernel", 5}, {"dilation", 5}}),
            "a kernel of 5 with dilation 5 does not fit a sequence of [20, 6]");
  EXPECT_EQ(of_sequence({{"channels", 4}, {"kernel_width", 5}}),
            "a sequence [T, C] has no width: kernel, stride and padding are of T");
  EXPECT_EQ(of_sequence({{"channels", 4}, {"padding", 1}, {"causal", 1}}),
            "causal says the padding itself");
  EXPECT_EQ(of_sequence({{"channels", 4}, {"causal", 1}, {"dilation", int64_t{1} << 40}}),
            "a kernel of 3 with dilation 1099511627776 is too long");
  EXPECT_EQ(of_sequence({{"window", 2}}, ops::kMaxPool),
            "wants one [H, W, C] input; overlapping_max_pool takes [T, C], too");
  EXPECT_EQ(of_sequence({{"window_width", 2}}, ops::kAveragePool),
            "a sequence [T, C] has no width: window, stride and padding are of T");
  const auto image = output_shape(ops::kConvolution, {{"channels", 4}, {"causal", 1}},
                                  std::vector{Shape{20, 6, 3}});
  EXPECT_EQ(image.error().message, "causal is possible for a sequence, [T, C]");
}

TEST(Refusal, ImpossibleNetworksAndOptions) {
  EXPECT_FALSE(build_model("resnet21", {}).ok());
  EXPECT_FALSE(build_model("lenet5", {.height = 4, .width = 4}).ok());
  EXPECT_FALSE(build_model("mlp", {.classes = 1}).ok());
  EXPECT_FALSE(build_model("mlp", {.width_multiplier = 0}).ok());
  for (const char* format : {"bfp9", "bfp:w=1", "bfp:a=17", "bfp:acc=3", "bfp:acc", "bfp:round=up",
                             "fp16", "bfp:g=7", "bfp:gr=stochastic", "bfp:exponents=fixed"}) {
    EXPECT_FALSE(parse_format(format).ok()) << format;
  }
}

TEST(Refusal, BlocksThatTheSystemDoesNotGive) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers end the process where memory is refused";
#endif
  const auto arena = AlignedMemory::create(int64_t{1} << 60);
  ASSERT_FALSE(arena.ok());
  EXPECT_EQ(arena.error().code, ErrorCode::kFailed);
  EXPECT_EQ(arena.error().message,
            "no memory for the arena: the system did not give 1048576.0 TiB");
  StateLayout layout;
  layout.bytes = int64_t{1} << 60;
  const auto state = State::create(layout);
  ASSERT_FALSE(state.ok());
  EXPECT_EQ(state.error().message.find("no memory for weights and other state"), 0u);
}

class DamagedState : public ::testing::Test {
 protected:
  DamagedState()
      : harness_({.model = "mlp", .format = "bfp:acc=8", .optimizer = OptimizerKind::kAdam}) {}

  // Writes the state (with a valid checksum) and reads it back.
  Status write_and_read() {
    const auto path = folder_ / "state.safetensors";
    EXPECT_TRUE(write_state(path, {}, harness_.state()).ok());
    const auto file = read_safetensors(path);
    EXPECT_TRUE(file.ok());
    auto copy = State::create(harness_.state().layout());
    return read_state(path, *file, *copy);
  }

  const ParameterState& weights() { return harness_.state().layout().parameters[0]; }

  Harness harness_;
  const TestFolder folder_;
};

TEST_F(DamagedState, SoundOnesAreRead) { EXPECT_TRUE(write_and_read().ok()); }

TEST_F(DamagedState, TheMostNegativeMantissaIsRefused) {
  harness_.state().data<int8_t>(weights().mantissa)[7] = -128;
  EXPECT_FALSE(write_and_read().ok());
}

TEST_F(DamagedState, AccumulatorsBeyondHalfAUnitAreRefused) {
  harness_.state().data<int16_t>(weights().accumulator)[3] = 65;  // shift 7: at most 64
  EXPECT_FALSE(write_and_read().ok());
}

TEST_F(DamagedState, NegativeRootsAreRefused) {
  harness_.state().data<int16_t>(weights().moments[1].mantissa)[3] = -1;
  EXPECT_FALSE(write_and_read().ok());
  harness_.state().data<int16_t>(weights().moments[1].mantissa)[3] = 32767;
  harness_.state().data<int16_t>(weights().moments[0].mantissa)[3] = -32767;
  EXPECT_TRUE(write_and_read().ok());
}

TEST_F(DamagedState, ExponentsOutsideTheirRangeAreRefused) {
  *harness_.state().data<int16_t>(weights().exponent) = 128;
  EXPECT_FALSE(write_and_read().ok());
}

}  // namespace
}  // namespace mantissa::testing
