// Frozen networks in tests: made from a harness, evaluated.
#pragma once

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "data/batches/ordered_batches.h"
#include "infer/freeze.h"
#include "infer/tasks/classification.h"
#include "tests/harness.h"

namespace mantissa::testing {

// Inference with running statistics and each batch's own exponents.
inline Program calibration_program(const Graph& graph, const Format& format, int64_t batch,
                                   bool with_loss) {
  const kernels::KernelTable table = kernels::select_kernels(best_isa());
  auto program = compile(graph,
                         {.kind = ProgramKind::kInference,
                          .micro_batch_size = batch,
                          .with_loss = with_loss,
                          .exponents = ExponentMode::kCalibrate,
                          .format = format},
                         {&table, 2});
  EXPECT_TRUE(program.ok()) << (program.ok() ? "" : program.error().message);
  return std::move(*program);
}

// Freezes the harness' network by a calibration program on the first `count` training examples.
inline Status fill(Harness& harness, const Program& calibration, std::span<std::byte> arena,
                   int64_t count, FrozenNetwork& frozen) {
  std::vector<uint32_t> examples(static_cast<size_t>(count));
  std::iota(examples.begin(), examples.end(), 0);
  auto batches = OrderedBatches::create(examples_of(fashion_mnist().train),
                                        calibration.options.micro_batch_size, std::move(examples));
  EXPECT_TRUE(batches.ok());
  return freeze(harness.graph(), harness.state(), calibration, {harness.pool(), arena, best_isa()},
                *batches, frozen);
}

// The same into a network with memory of its own.
inline Result<FrozenNetwork> freeze_with(Harness& harness, const Program& calibration,
                                         std::span<std::byte> arena, FrozenDescription description,
                                         int64_t count) {
  description.form = frozen_form(harness.graph(), description.format);
  MANTISSA_RETURN_IF_ERROR(check_form(harness.graph(), description.form));
  Graph graph = freeze_graph(harness.graph(), description.form);
  auto state = State::create(frozen_layout(graph, description.format));
  EXPECT_TRUE(state.ok());
  FrozenNetwork frozen{std::move(description), std::move(graph), std::move(*state)};
  MANTISSA_RETURN_IF_ERROR(fill(harness, calibration, arena, count, frozen));
  return frozen;
}

// The harness' network, frozen on `examples` training examples, in batches of `batch`.
inline Result<FrozenNetwork> freeze_on(Harness& harness, const std::string& model,
                                       const Format& format, int64_t batch, int64_t examples,
                                       double width = 1) {
  const Program program = calibration_program(harness.graph(), format, batch, false);
  auto arena = AlignedMemory::create(freeze_bytes(program));
  FrozenDescription description;
  description.format = format;
  description.options.channel_means = {73};
  description.options.width_multiplier = width;
  description.network = *build_model(model, description.options);
  description.class_names = fashion_mnist().info.target.names;
  return freeze_with(harness, program, arena->span(), description, examples);
}

inline ClassificationEvaluation evaluate_with(FrozenNetwork& network, int64_t batch, int threads,
                                              Isa isa, const ExampleSet& images) {
  const kernels::KernelTable table = kernels::select_kernels(isa);
  auto programs = compile_evaluation(network.graph, network.description.format, batch, images.count,
                                     {&table, threads}, Reads::kResults);
  EXPECT_TRUE(programs.ok());
  auto arena = AlignedMemory::create(programs->arena_bytes());
  ThreadPool pool(threads);
  Programs executors = inference_programs(network, *programs, {pool, arena->span(), isa});
  auto batches = OrderedBatches::create(examples_of(images), programs->batch_size);
  EXPECT_TRUE(batches.ok());
  auto evaluation = evaluate(
      executors, *batches,
      {.classes = network.graph.classes(), .loss = network.description.options.loss, .isa = isa});
  EXPECT_TRUE(evaluation.ok()) << (evaluation.ok() ? "" : evaluation.error().message);
  return *evaluation;
}

// With running statistics and each batch's own exponents, over whole batches of `images`.
struct Unfrozen {
  double loss = 0, accuracy = 0;
};

inline Unfrozen evaluate_unfrozen(Harness& harness, const Format& format, int64_t batch,
                                  const ExampleSet& images) {
  const Program program = calibration_program(harness.graph(), format, batch, true);
  auto arena = AlignedMemory::create(program.arena_bytes);
  Programs programs(harness.graph(), harness.state(), {harness.pool(), arena->span(), best_isa()});
  programs.add(program);
  auto batches = OrderedBatches::create(examples_of(images), batch);
  EXPECT_TRUE(batches.ok());
  const int64_t count = images.count / batch;
  Unfrozen mean;
  for (int64_t i = 0; i < count; ++i) {
    const auto step = programs.infer(batches->next());
    EXPECT_TRUE(step.ok());
    mean.loss += step->loss / static_cast<double>(count);
    mean.accuracy += step->accuracy / static_cast<double>(count);
  }
  return mean;
}

}  // namespace mantissa::testing
