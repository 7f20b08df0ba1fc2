// An imported network in fp32: its logits in evaluation mode, and the gradients of a training step.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/system/thread_pool.h"
#include "kernels/kernel_table.h"
#include "networks/imported_network.h"
#include "onnx/import/import.h"
#include "plan/programs/program.h"
#include "plan/programs/state_layout.h"
#include "runtime/executor.h"
#include "runtime/memory.h"
#include "runtime/named_parameters.h"
#include "runtime/state.h"

namespace mantissa::testing {

class ImportedRun {
 public:
  // The network with its weights, for batches of so many examples. It outlives the run.
  static Result<std::unique_ptr<ImportedRun>> create(const onnx::ImportedNetwork& network,
                                                     int64_t batch, bool trains) {
    std::unique_ptr<ImportedRun> run(new ImportedRun(network));
    const Graph& graph = network.graph;
    MANTISSA_ASSIGN(const Format format, parse_format("fp32"));
    MANTISSA_ASSIGN(State state,
                    State::create(training_layout(graph, format, OptimizerKind::kSgd)));
    run->state_ = std::make_unique<State>(std::move(state));
    initialise(graph, format, 1, *run->state_);
    MANTISSA_ASSIGN(const TakenParameters taken,
                    take_named_parameters(graph, format, named_parameters(network), *run->state_));
    if (!taken.initial.empty()) return failed("not all parameters were taken");
    const kernels::KernelTable table = kernels::select_kernels(best_isa());
    ProgramOptions options{.kind = trains ? ProgramKind::kTraining : ProgramKind::kInference,
                           .micro_batch_size = batch,
                           .optimizer = OptimizerKind::kSgd,
                           .with_loss = trains,
                           .exponents = trains ? ExponentMode::kExact : ExponentMode::kCalibrate,
                           .format = format};
    MANTISSA_ASSIGN(run->program_, compile(graph, options, {&table, 2}));
    MANTISSA_ASSIGN(AlignedMemory arena, AlignedMemory::create(run->program_.arena_bytes));
    run->arena_ = std::make_unique<AlignedMemory>(std::move(arena));
    run->executor_ = std::make_unique<Executor>(graph, run->program_, *run->state_,
                                                run->arena_->span(), run->pool_, best_isa());
    return run;
  }

  // The output for pixels, tokens or mantissas of numbers, example after example; then the next
  // inputs, as segments and lengths.
  template <typename T>
  Result<std::vector<float>> logits(const std::vector<T>& examples,
                                    const std::vector<const std::vector<int32_t>*>& next = {}) {
    std::vector<const void*> batch = {examples.data()};
    for (const std::vector<int32_t>* one : next) batch.push_back(one->data());
    return logits(std::move(batch));
  }

  // The same for the first inputs of the network, of any kind.
  Result<std::vector<float>> logits(std::vector<const void*> batch) {
    batch.resize(network_.graph.inputs.size(), nullptr);
    MANTISSA_ASSIGN(const StepResult result, executor_->infer(batch));
    static_cast<void>(result);
    const Tensor output = executor_->output(0);
    const auto* numbers = output.as<float>();
    return std::vector<float>(numbers, numbers + output.count());
  }

  // Of the mean loss, for each parameter of the graph; of statistics none. A step of SGD at a rate
  // of 1 subtracts them.
  template <typename T>
  Result<std::vector<std::vector<float>>> gradients(const std::vector<T>& examples,
                                                    const std::vector<int32_t>& labels) {
    std::vector<std::vector<float>> gradients = weights();
    const std::array<const void*, 2> batch = {examples.data(), labels.data()};
    const StepScalars scalars{
        .learning_rate = 1, .gradient_scale = 1 / static_cast<double>(labels.size()), .step = 1};
    MANTISSA_ASSIGN(const StepResult result, executor_->train_step(batch, scalars));
    static_cast<void>(result);
    const std::vector<std::vector<float>> after = weights();
    for (size_t p = 0; p < gradients.size(); ++p) {
      for (size_t i = 0; i < gradients[p].size(); ++i) gradients[p][i] -= after[p][i];
    }
    return gradients;
  }

 private:
  explicit ImportedRun(const onnx::ImportedNetwork& network) : network_(network), pool_(2) {}

  std::vector<std::vector<float>> weights() const {
    std::vector<std::vector<float>> all;
    for (size_t p = 0; p < network_.graph.parameters.size(); ++p) {
      all.emplace_back();
      if (!network_.graph.parameters[p].trained) continue;
      const int tensor = state_->layout().parameters[p].mantissa;
      const auto* numbers = state_->data<float>(tensor);
      all.back().assign(numbers, numbers + state_->layout().tensors[tensor].shape.count());
    }
    return all;
  }

  const onnx::ImportedNetwork& network_;
  ThreadPool pool_;
  std::unique_ptr<State> state_;
  Program program_;
  std::unique_ptr<AlignedMemory> arena_;
  std::unique_ptr<Executor> executor_;
};

}  // namespace mantissa::testing
