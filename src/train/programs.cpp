#include "train/programs.h"

#include <algorithm>
#include <string>

#include "data/examples.h"

namespace mantissa {
namespace {

// The tensor of the batch that has the name, type and shape of an input.
Result<const void*> tensor_for(const TensorSpec& input, const Batch& batch) {
  for (size_t i = 0; i < batch.specs.size(); ++i) {
    if (batch.specs[i] == input) return batch.tensors[i];
  }
  std::string have;
  for (const TensorSpec& spec : batch.specs) have += (have.empty() ? "" : ", ") + to_string(spec);
  return invalid_input("the network wants " + to_string(input) + ", and the data have " +
                       (have.empty() ? "nothing" : have));
}

}  // namespace

Programs::Programs(const Graph& graph, State& state, const Machine& machine)
    : graph_(graph),
      state_(state),
      machine_(machine),
      pixels_{kPixelTensor, DataType::kUint8, graph.values[graph.input].shape} {}

Executor& Programs::add(const Program& program) {
  const int64_t examples = program.options.micro_batches * program.options.micro_batch_size;
  rows_.push_back({program.options.kind, examples,
                   std::make_unique<Executor>(graph_, program, state_, machine_.arena,
                                              machine_.pool, machine_.isa)});
  labels_.resize(std::max(labels_.size(), static_cast<size_t>(examples)));
  return *rows_.back().executor;
}

Result<Executor*> Programs::pick(ProgramKind kind, const Batch& batch) const {
  for (const Row& row : rows_) {
    if (row.kind == kind && row.examples == batch.count) return row.executor.get();
  }
  return invalid_input("no program was compiled for a batch of " + std::to_string(batch.count) +
                       " examples");
}

// The one place that knows what executors take: pixels, and labels that are bytes.
Result<Programs::Inputs> Programs::inputs_of(const Batch& batch) {
  MANTISSA_ASSIGN(const void* const pixels, tensor_for(pixels_, batch));
  Inputs inputs{static_cast<const uint8_t*>(pixels), nullptr};
  const auto* labels = static_cast<const int32_t*>(batch.find(kLabelTensor));
  if (labels == nullptr) return inputs;
  for (int64_t i = 0; i < batch.count; ++i) {
    if (labels[i] < 0 || labels[i] >= kMostNetworkClasses) {
      return invalid_input("label " + std::to_string(labels[i]) + ": networks have at most " +
                           std::to_string(kMostNetworkClasses) + " classes");
    }
    labels_[static_cast<size_t>(i)] = static_cast<uint8_t>(labels[i]);
  }
  inputs.labels = labels_.data();
  return inputs;
}

Result<StepResult> Programs::train_step(const Batch& batch, const StepScalars& scalars) {
  MANTISSA_ASSIGN(Executor* const executor, pick(ProgramKind::kTraining, batch));
  MANTISSA_ASSIGN(const Inputs inputs, inputs_of(batch));
  return executor->train_step(inputs.pixels, inputs.labels, scalars);
}

Result<StepResult> Programs::infer(const Batch& batch) {
  MANTISSA_ASSIGN(inferred_, pick(ProgramKind::kInference, batch));
  MANTISSA_ASSIGN(const Inputs inputs, inputs_of(batch));
  return inferred_->infer(inputs.pixels, inputs.labels);
}

void Programs::observe(Observations* observations) {
  for (const Row& row : rows_) {
    if (row.kind == ProgramKind::kTraining) row.executor->set_observations(observations);
  }
}

Status infer_all(Programs& programs, BatchSource& batches,
                 const std::function<Status(const Batch&, const StepResult&)>& found) {
  while (true) {
    const Batch batch = batches.next();
    if (batch.count == 0) return {};
    MANTISSA_ASSIGN(const StepResult result, programs.infer(batch));
    MANTISSA_RETURN_IF_ERROR(found(batch, result));
  }
}

}  // namespace mantissa
