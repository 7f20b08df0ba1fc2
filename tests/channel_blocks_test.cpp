// block=channel in whole runs: it learns, and the frozen network is what training made.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/harness.h"

namespace mantissa::testing {
namespace {

constexpr int64_t kBatch = 64;
const Format kFormat{.tensor_blocks = false};

Program calibration_program(const Graph& graph, bool with_loss) {
  const kernels::KernelTable table = kernels::select_kernels(best_isa());
  auto program = compile(graph,
                         {.kind = ProgramKind::kInference,
                          .micro_batch_size = kBatch,
                          .with_loss = with_loss,
                          .exponents = ExponentMode::kCalibrate,
                          .format = kFormat},
                         {&table, 2});
  EXPECT_TRUE(program.ok()) << (program.ok() ? "" : program.error().message);
  return std::move(*program);
}

Evaluation evaluate_with(FrozenNetwork& network, int64_t batch, int threads, Isa isa,
                         const ImageSet& images) {
  const kernels::KernelTable table = kernels::select_kernels(isa);
  auto programs = compile_evaluation(network.graph, network.description.inference(), batch,
                                     images.count, {&table, threads});
  EXPECT_TRUE(programs.ok());
  auto arena = AlignedMemory::create(programs->arena_bytes());
  ThreadPool pool(threads);
  auto evaluation = evaluate(network, *programs, arena->span(), pool, isa, images);
  EXPECT_TRUE(evaluation.ok()) << (evaluation.ok() ? "" : evaluation.error().message);
  return *evaluation;
}

// Correct answers with running statistics and each batch's own exponents.
int64_t correct_with_own_exponents(Harness& harness, const ImageSet& images) {
  const Program program = calibration_program(harness.graph(), true);
  auto arena = AlignedMemory::create(program.arena_bytes);
  Executor executor(harness.graph(), program, harness.state(), arena->span(), harness.pool(),
                    best_isa());
  int64_t correct = 0;
  for (int64_t at = 0; at + kBatch <= images.count; at += kBatch) {
    const auto step = executor.infer(&images.pixels[at * 784], &images.labels[at]);
    EXPECT_TRUE(step.ok());
    correct += step->correct;
  }
  return correct;
}

// Output channels with two and more exponents somewhere in the network.
bool exponents_differ(const State& state) {
  for (const ParameterState& parameter : state.layout().parameters) {
    if (parameter.exponent < 0) continue;
    const auto* exponents = state.data<int16_t>(parameter.exponent);
    const int64_t count = state.layout().tensors[parameter.exponent].shape.count();
    if (std::any_of(exponents, exponents + count, [&](int16_t e) { return e != exponents[0]; })) {
      return true;
    }
  }
  return false;
}

TEST(ChannelBlocks, LearnAndFreeze) {
  const auto path = std::filesystem::temp_directory_path() / "mantissa_channel_blocks.safetensors";
  const struct {
    const char* model;
    int steps;
    double accuracy;  // 0.1 is chance
  } kCases[] = {{"lenet5", 100, 0.6}, {"resnet8", 25, 0}};
  for (const auto& [model, steps, accuracy] : kCases) {
    SCOPED_TRACE(model);
    Harness harness({.model = model,
                     .format = to_string(kFormat),
                     .batch_size = kBatch,
                     .micro_batch_size = kBatch,
                     .threads = 2});
    harness.train_to_rest(steps);
    EXPECT_TRUE(exponents_differ(harness.state()));
    const Program program = calibration_program(harness.graph(), false);
    auto arena = AlignedMemory::create(program.arena_bytes);
    FrozenDescription description;
    description.model = model;
    description.format = kFormat;
    description.options.channel_means = {73};
    description.class_names = fashion_mnist().info.class_names;
    auto frozen =
        freeze(harness.graph(), harness.state(), program, arena->span(), harness.pool(), best_isa(),
               std::span(fashion_mnist().train.pixels).first(320 * 784), description);
    ASSERT_TRUE(frozen.ok());
    EXPECT_TRUE(exponents_differ(frozen->state));

    ImageSet test = fashion_mnist().test;
    test.count = 640;
    const Evaluation evaluation = evaluate_with(*frozen, kBatch, 2, best_isa(), test);
    EXPECT_GT(evaluation.accuracy(), accuracy);
    EXPECT_NEAR(evaluation.accuracy(),
                static_cast<double>(correct_with_own_exponents(harness, test)) / 640, 0.01);

    test.count = 50;
    const double loss = evaluate_with(*frozen, 50, 1, best_isa(), test).loss;
    EXPECT_EQ(evaluate_with(*frozen, 7, 3, Isa::kScalar, test).loss, loss);
    ASSERT_TRUE(save_frozen(path, *frozen).ok());
    auto loaded = load_frozen(path);
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    EXPECT_EQ(evaluate_with(*loaded, 50, 2, best_isa(), test).loss, loss);
  }
  std::filesystem::remove(path);
}

TEST(ChannelBlocks, UseTheirMemoryAsPlanned) {
  // The same bits without reuse of memory: no instruction overwrites what another needs.
  HarnessOptions options{.model = "mobilenet_v2", .format = to_string(kFormat), .width = 0.125};
  Harness packed(options);
  options.reuses_memory = false;
  Harness spread(options);
  packed.train(2), spread.train(2);
  EXPECT_EQ(packed.state_sha256(), spread.state_sha256());
}

}  // namespace
}  // namespace mantissa::testing
