#include "infer/programs.h"

#include <algorithm>
#include <string>

#include "data/batches/examples.h"
#include "infer/length_programs.h"
#include "networks/network.h"
#include "ops/loss.h"
#include "ops/losses/ctc.h"
#include "ops/losses/example_losses.h"
#include "ops/ops.h"

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

// The batch's tensor of an input of the graph.
const void* tensor_of(const Graph& graph, std::span<const void* const> inputs, int value) {
  const auto place = std::find(graph.inputs.begin(), graph.inputs.end(), value);
  return inputs[place - graph.inputs.begin()];
}

// Whether a loss has a label for each logit, in place of one for each row of them.
bool is_by_output(const Graph& graph, const Node& loss) {
  return graph.values[loss.inputs[1]].shape.rank == graph.values[loss.inputs[0]].shape.rank;
}

// The sequences of labels of a batch.
Status check_sequences(const Graph& graph, const Node& loss, std::span<const void* const> inputs,
                       int64_t examples) {
  const auto numbers = [&](size_t input) {
    return loss.inputs.size() > input
               ? static_cast<const int32_t*>(tensor_of(graph, inputs, loss.inputs[input]))
               : nullptr;
  };
  return ops::check_ctc_labels(graph, loss, numbers(1), numbers(2), examples);
}

// Losses read the logit that a label names, and take weights for numbers from 0 up. The labels of
// sigmoids are 0 and 1 if there is one for each logit.
Status check_labels(const Graph& graph, const Node& loss, std::span<const void* const> inputs,
                    int64_t examples) {
  if (graph.values[loss.inputs[1]].element != Element::kIndex) return {};
  if (ops::compares_examples(loss)) return {};  // any number is a label; below 0: none
  if (loss.op == &ops::kCtcLoss) return check_sequences(graph, loss, inputs, examples);
  const int64_t outputs = graph.values[loss.inputs[0]].shape.last();
  const bool by_output = is_by_output(graph, loss);
  const bool ordinal = ops::is_ordinal(loss);
  const bool two = loss.op == &ops::kSigmoidCrossEntropy && (by_output || outputs == 1) && !ordinal;
  const int64_t classes = two ? 2 : outputs + ordinal;
  const auto* labels = static_cast<const int32_t*>(tensor_of(graph, inputs, loss.inputs[1]));
  const int64_t count = examples * ops::rows_of_example(graph, loss) * (by_output ? outputs : 1);
  for (int64_t i = 0; labels != nullptr && i < count; ++i) {
    if (labels[i] >= kIgnoredLabel && labels[i] < classes) continue;
    const std::string possible =
        two ? "each output is 0 or 1"
            : "the network has " + std::to_string(classes) + " classes, from 0 on";
    return invalid_input("'" + graph.values[loss.inputs[1]].name + "' has the label " +
                         std::to_string(labels[i]) + ": " + possible + ", and " +
                         std::to_string(kIgnoredLabel) + " is for those to be ignored");
  }
  return {};
}

Status check_weights(const Graph& graph, const Node& loss, std::span<const void* const> inputs,
                     int64_t examples) {
  const size_t input = ops::weights_input(loss);
  if (loss.inputs.size() <= input) return {};
  const auto* weights = static_cast<const int16_t*>(tensor_of(graph, inputs, loss.inputs[input]));
  const int64_t rows = examples * ops::rows_of_example(graph, loss);
  for (int64_t i = 0; weights != nullptr && i < rows; ++i) {
    if (weights[i] < 0) {
      return invalid_input("'" + graph.values[loss.inputs[input]].name +
                           "': a weight of the loss is below 0");
    }
  }
  return {};
}

// The shares of a target that is a distribution are from 0 up, and their sum at most 2: sums of
// the loss rely on it.
Status check_shares(const Graph& graph, const Node& loss, std::span<const void* const> inputs,
                    int64_t examples) {
  const bool is_soft =
      loss.op == &ops::kSoftCrossEntropy || loss.op == &ops::kDistilledCrossEntropy;
  if (!is_soft) return {};
  const Value& value = graph.values[loss.inputs[ops::weights_input(loss) - 1]];
  const auto* shares = static_cast<const int16_t*>(
      tensor_of(graph, inputs, loss.inputs[ops::weights_input(loss) - 1]));
  const int64_t classes = value.shape.last(), rows = examples * ops::rows_of_example(graph, loss);
  const int64_t most = int64_t{2} << -value.exponent;
  for (int64_t row = 0; shares != nullptr && row < rows; ++row) {
    int64_t sum = 0, least = 0;
    for (const int16_t share : std::span(shares + row * classes, static_cast<size_t>(classes))) {
      sum += share;
      least = std::min<int64_t>(least, share);
    }
    if (least >= 0 && sum <= most) continue;
    return invalid_input("'" + value.name + "' has shares of classes that " +
                         (least < 0 ? "are below 0" : "add up to more than 2"));
  }
  return {};
}

Status check_losses(const Graph& graph, std::span<const void* const> inputs, int64_t examples) {
  for (const int n : graph.losses) {
    MANTISSA_RETURN_IF_ERROR(check_labels(graph, graph.nodes[n], inputs, examples));
    MANTISSA_RETURN_IF_ERROR(check_weights(graph, graph.nodes[n], inputs, examples));
    MANTISSA_RETURN_IF_ERROR(check_shares(graph, graph.nodes[n], inputs, examples));
  }
  return {};
}

// Scalars for a mean of the gradients over the rows that the first loss counts, by weight. They
// come as a mean over all rows of the whole network. The graph may have fewer rows.
StepScalars with_counted_mean(const Graph& whole, const Graph& graph,
                              std::span<const void* const> inputs, int64_t examples,
                              const StepScalars& scalars) {
  if (graph.losses.empty()) return scalars;
  const Node& loss = graph.nodes[graph.losses[0]];
  kernels::RowWeights weights;
  const bool by_row = loss.op != &ops::kCtcLoss && !is_by_output(graph, loss);
  if (graph.values[loss.inputs[1]].element == Element::kIndex && by_row) {
    weights.labels = static_cast<const int32_t*>(tensor_of(graph, inputs, loss.inputs[1]));
  }
  const size_t input = ops::weights_input(loss);
  if (loss.inputs.size() > input) {
    weights.weights = static_cast<const int16_t*>(tensor_of(graph, inputs, loss.inputs[input]));
  }
  LossTotals totals;
  ops::count_rows(weights, examples * ops::rows_of_example(graph, loss), totals);
  const int64_t all = examples * ops::rows_of_example(whole, whole.nodes[whole.losses[0]])
                      << kernels::kRowWeightBits;
  // If none counts, the gradient is 0 at any scale.
  if (totals.weight_q10 == all || totals.weight_q10 == 0) return scalars;
  StepScalars counted = scalars;
  counted.gradient_scale *= static_cast<double>(all) / static_cast<double>(totals.weight_q10);
  return counted;
}

// Whether the tensors that the batch has for the inputs are as long.
bool fits(std::span<const TensorSpec> inputs, const Batch& batch) {
  return std::all_of(inputs.begin(), inputs.end(), [&](const TensorSpec& input) {
    return std::none_of(batch.specs.begin(), batch.specs.end(), [&](const TensorSpec& spec) {
      return spec.name == input.name && spec.shape != input.shape;
    });
  });
}

// Rows that a shorter sequence lacks are padding: they count as rows that no loss counts.
void count_whole_rows(const Graph& whole, StepResult& result) {
  for (size_t i = 0; i < whole.losses.size(); ++i) {
    const int64_t rows = ops::rows_of_example(whole, whole.nodes[whole.losses[i]]);
    result.losses[i].rows = result.examples * rows;
  }
  result.take_means();
}

}  // namespace

Programs::Programs(const Graph& graph, State& state, const Machine& machine)
    : graph_(graph),
      state_(state),
      machine_(machine),
      specs_(input_specs(graph)),
      inputs_(graph.inputs.size()) {}

Executor& Programs::add(const Graph& graph, const Program& program) {
  const int64_t examples = program.options.micro_batches * program.options.micro_batch_size;
  Row row{.kind = program.options.kind,
          .examples = examples,
          .graph = &graph,
          .specs = input_specs(graph),
          .executor = std::make_unique<Executor>(graph, program, state_, machine_.arena,
                                                 machine_.pool, machine_.isa),
          .program = &program,
          .observations = nullptr,
          .places = {}};
  if (row.kind == ProgramKind::kTraining && row.graph != &graph_) add_observations(row);
  rows_.push_back(std::move(row));
  return *rows_.back().executor;
}

void Programs::add_observations(Row& row) const {
  for (const Row& whole : rows_) {
    if (whole.kind != ProgramKind::kTraining || whole.graph != &graph_) continue;
    row.observations = std::make_unique<Observations>(*row.program);
    row.places = places_of_tensors(*whole.program, *row.program);
    return;
  }
}

void Programs::take_observed(const Row& row) {
  observed_.clear();
  for (const int place : row.places) observed_.push_back(row.observations->tensors()[place]);
}

std::span<const TensorObservation> Programs::observed() const {
  if (!observed_.empty()) return observed_;
  return observations_ == nullptr ? std::span<const TensorObservation>() : observations_->tensors();
}

// If the tensors fit no program for this many examples, taking them from the batch gives the
// reason.
Result<const Programs::Row*> Programs::pick(ProgramKind kind, const Batch& batch) const {
  const Row* found = nullptr;
  for (const Row& row : rows_) {
    if (row.kind != kind || row.examples != batch.count) continue;
    if (fits(row.specs, batch)) return &row;
    if (found == nullptr) found = &row;
  }
  if (found != nullptr) return found;
  return invalid_input("no program was compiled for a batch of " + std::to_string(batch.count) +
                       " examples");
}

// Inputs may be missing: executors know whether their program reads them, such as labels.
Status Programs::take_inputs(const Graph& graph, std::span<const TensorSpec> specs,
                             const Batch& batch) {
  for (size_t i = 0; i < specs.size(); ++i) {
    inputs_[i] = nullptr;
    const bool may_lack = graph.values[graph.inputs[i]].element != Element::kMantissa;
    if (may_lack && batch.find(specs[i].name) == nullptr) continue;
    MANTISSA_ASSIGN(inputs_[i], tensor_for(specs[i], batch));
  }
  return check_losses(graph, inputs_, batch.count);
}

Result<StepResult> Programs::train_step(const Batch& batch, const StepScalars& scalars) {
  MANTISSA_ASSIGN(const Row* const row, pick(ProgramKind::kTraining, batch));
  MANTISSA_RETURN_IF_ERROR(take_inputs(*row->graph, row->specs, batch));
  observed_.clear();
  const StepScalars counted = with_counted_mean(graph_, *row->graph, inputs_, batch.count, scalars);
  MANTISSA_ASSIGN(StepResult result, row->executor->train_step(inputs_, counted));
  if (row->graph == &graph_) return result;
  count_whole_rows(graph_, result);
  if (observations_ != nullptr) take_observed(*row);
  return result;
}

Status Programs::add_stages(const Program& program, const PipelinePlan& plan,
                            const pipeline::Options& options, int threads,
                            const Processes& processes) {
  MANTISSA_ASSIGN(stages_,
                  PipelineExecutor::create(graph_, program, plan, options, state_, machine_.arena,
                                           threads, machine_.isa, processes));
  return {};
}

Status Programs::begin(int64_t updates, int64_t step, bool flushes) {
  result_.reset();
  return stages_ == nullptr ? Status() : stages_->begin(static_cast<int>(updates), step, flushes);
}

Result<int> Programs::end_early() { return stages_ == nullptr ? 1 : stages_->end_early(); }

bool Programs::wants_batch() const {
  return stages_ == nullptr ? !result_.has_value() : stages_->wants_batch();
}

Status Programs::feed(const Batch& batch, const StepScalars& scalars) {
  if (stages_ == nullptr) {
    result_ = train_step(batch, scalars);
    return {};
  }
  MANTISSA_RETURN_IF_ERROR(take_inputs(graph_, specs_, batch));
  return stages_->feed(inputs_, with_counted_mean(graph_, graph_, inputs_, batch.count, scalars));
}

Result<StepResult> Programs::next_result() {
  if (stages_ != nullptr) return stages_->next_result();
  Result<StepResult> result = std::move(*result_);
  result_.reset();
  return result;
}

std::vector<double> Programs::idle() const {
  return stages_ == nullptr ? std::vector<double>{} : stages_->idle();
}

std::vector<int64_t> Programs::bytes_sent() const {
  return stages_ == nullptr ? std::vector<int64_t>{} : stages_->bytes_sent();
}

std::vector<pipeline::MissedUpdates> Programs::missed_updates() const {
  return stages_ == nullptr ? std::vector<pipeline::MissedUpdates>{} : stages_->missed_updates();
}

void Programs::trace(int64_t first_step, int64_t last_step) {
  if (stages_ != nullptr) stages_->trace(first_step, last_step);
}

pipeline::Trace Programs::take_trace() {
  return stages_ == nullptr ? pipeline::Trace() : stages_->take_trace();
}

Result<StepResult> Programs::infer(const Batch& batch) {
  MANTISSA_ASSIGN(const Row* const row, pick(ProgramKind::kInference, batch));
  MANTISSA_RETURN_IF_ERROR(take_inputs(*row->graph, row->specs, batch));
  inferred_ = row->executor.get();
  return inferred_->infer(inputs_);
}

void Programs::observe(Observations* observations) {
  observations_ = observations;
  if (stages_ != nullptr) stages_->set_observations(observations);
  for (const Row& row : rows_) {
    if (row.kind != ProgramKind::kTraining) continue;
    Observations* const own = observations == nullptr ? nullptr : row.observations.get();
    row.executor->set_observations(row.graph == &graph_ ? observations : own);
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
