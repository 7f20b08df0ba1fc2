#include "runtime/stages/stage.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "plan/programs/optimizer.h"

namespace mantissa {

using pipeline::Cell;
using pipeline::Mode;
using pipeline::Work;

namespace {

constexpr int kOwn = -1;  // version of the weights: the state's

// Of the arithmetic of this update.
ops::PredictWeights prediction_of(const ops::WeightPrediction& prediction,
                                  const OpContext& update) {
  const bool is_real = update.parameters[0].mantissa.type == DataType::kFloat;
  return is_real ? prediction.fp32 : prediction.integers;
}

}  // namespace

Stage::Stage(const Graph& graph, const Program& program, const StagePlan& plan, State& state,
             std::span<std::byte> arena, int threads, Isa isa)
    : plan_(plan),
      state_(state),
      arena_(arena),
      pool_(threads),
      instructions_(plan.instructions()),
      prediction_(optimizer(program.options.optimizer).prediction) {
  inputs_.resize(static_cast<size_t>(plan.window));
  updates_at_forward_.resize(static_cast<size_t>(plan.window));
  for (int i = 0; i < plan.window; ++i) {
    const ProgramPart part = {instructions_, instance_offsets(plan, i)};
    instances_.push_back(
        std::make_unique<Executor>(graph, program, state, arena, pool_, isa, part));
    if (i > 0) others_.push_back(instances_.back().get());
  }
}

void Stage::set_channels(std::vector<Channel*> receives, std::vector<Channel*> sends) {
  receives_ = std::move(receives);
  sends_ = std::move(sends);
}

void Stage::set_observations(Observations* observations) {
  for (const auto& instance : instances_) instance->set_observations(observations);
}

void Stage::set_processes(Transport& transport, std::unique_ptr<ReplicaExchange> exchange,
                          int first_micro_batch) {
  transport_ = &transport;
  exchange_ = std::move(exchange);
  first_micro_batch_ = first_micro_batch;
  for (const auto& instance : instances_) {
    instance->set_first_micro_batch(first_micro_batch);
    instance->set_position(&transport.instruction());
  }
}

void Stage::begin(int64_t step, const pipeline::Options& options) {
  options_ = options;
  first_step_ = step;
  updates_ = 0;
  written_.assign(static_cast<size_t>(plan_.versions), {-1, -1});
  for (const auto& instance : instances_) instance->begin_counts(step);
  if (exchange_ != nullptr) exchange_->clear(*instances_[0]);
}

Status Stage::run(std::span<const Cell> cells, const InputOf& input_of, const Finished& finished) {
  for (const Cell& cell : cells) {
    switch (cell.work) {
      case Work::kForward:
      case Work::kGradInput: {
        MANTISSA_ASSIGN(const bool goes_on, run_micro_batch(cell, input_of));
        if (!goes_on) return {};
        break;
      }
      case Work::kGradWeights: {
        const int instance = cell.index % plan_.window;
        const auto start = Clock::now();
        compute_gradients(*instances_[instance], plan_.grad_weights, cell.index);
        if (!plan_.grad_weights.empty()) note_work(cell, start);
        const int64_t missed = updates_ - updates_at_forward_[instance];
        missed_.missed += missed;
        missed_.most = std::max(missed_.most, missed);
        ++missed_.micro_batches;
        break;
      }
      case Work::kUpdate: {
        const UpdateInput* const input = input_of(cell.index);
        if (input == nullptr) return {};
        if (!finished(cell.index, run_update(cell, *input))) return {};
        break;
      }
    }
  }
  return {};
}

int64_t Stage::copy_shift(int update) const {
  return update % plan_.updates_in_flight * plan_.update_bytes;
}

void Stage::compute(Executor& executor, std::span<const int> instructions, int micro_batch) {
  if (transport_ != nullptr) transport_->set_micro_batch(first_micro_batch_ + micro_batch);
  executor.run(instructions, first_micro_batch_ + micro_batch);
}

void Stage::trace(Clock::time_point origin, int64_t last_step, int64_t cells) {
  trace_origin_ = origin;
  last_traced_ = last_step;
  traced_.reserve(static_cast<size_t>(cells));
}

std::vector<pipeline::TracedCell> Stage::take_trace() {
  last_traced_ = 0;
  return std::exchange(traced_, {});
}

// A cell that ends now.
void Stage::note_work(const Cell& cell, Clock::time_point start) {
  const auto end = Clock::now();
  busy_ns_ += std::chrono::nanoseconds(end - start).count();
  const bool is_update = cell.work == Work::kUpdate;
  const int update = is_update ? cell.index : cell.index / options_.accumulate;
  const int64_t step = first_step_ + update + 1;
  if (step > last_traced_) return;
  traced_.push_back({.work = cell.work,
                     .step = step,
                     .micro_batch = is_update ? 0 : cell.index % options_.accumulate + 1,
                     .start_ns = std::chrono::nanoseconds(start - trace_origin_).count(),
                     .end_ns = std::chrono::nanoseconds(end - trace_origin_).count()});
}

// Replicas get each gradient as soon as the last micro-batch has added to it.
void Stage::compute_gradients(Executor& executor, std::span<const int> instructions, int index) {
  const int micro_batch = index % options_.accumulate;
  if (exchange_ == nullptr || micro_batch + 1 < options_.accumulate) {
    return compute(executor, instructions, micro_batch);
  }
  for (const ReplicaExchange::Piece& piece : exchange_->pieces(instructions)) {
    compute(executor, piece.instructions, micro_batch);
    if (piece.group >= 0) exchange_->send_group(*instances_[0], piece.group);
  }
}

Result<bool> Stage::run_micro_batch(const Cell& cell, const InputOf& input_of) {
  const bool backward = cell.work == Work::kGradInput;
  const int instance = cell.index % plan_.window;
  Executor& executor = *instances_[instance];
  if (!backward) {
    const int update = cell.index / options_.accumulate;
    const UpdateInput* const input = input_of(update);
    if (input == nullptr) return false;
    executor.set_step(input->batch, own_scalars(*input));
    if (transport_ != nullptr) transport_->set_step(input->scalars.step);
    inputs_[instance] = input;
    updates_at_forward_[instance] = updates_;
    if (plan_.updates_in_flight > 1) executor.use_update_copy(plan_.forward, copy_shift(update));
    if (plan_.versions > 0) choose_weights(executor, instance, update);
  }
  for (Channel* channel : receives_) {
    if (channel->transfer().backward != backward) continue;
    MANTISSA_RETURN_IF_ERROR(channel->receive(executor, cell.index));
  }
  const auto start = Clock::now();
  if (backward) {
    const bool completes = (cell.index + 1) % options_.accumulate == 0;
    compute_gradients(executor,
                      completes && updates_by_layer() ? plan_.last_grad_input : plan_.grad_input,
                      cell.index);
  } else {
    compute(executor, plan_.forward, cell.index % options_.accumulate);
  }
  for (Channel* channel : sends_) {
    if (channel->transfer().backward == backward) channel->send(executor, cell.index);
  }
  note_work(cell, start);
  return true;
}

// The first instance may hold a micro-batch of a later update: it gets its own step back.
Result<StepResult> Stage::run_update(const Cell& cell, const UpdateInput& input) {
  Executor& executor = *instances_[0];
  executor.set_step(input.batch, own_scalars(input));
  const int64_t shift = plan_.updates_in_flight > 1 ? copy_shift(updates_) : 0;
  if (plan_.updates_in_flight > 1) executor.use_update_copy(plan_.update, shift);
  for (const Executor* other : others_) executor.add_counts(*other);
  if (exchange_ != nullptr) MANTISSA_RETURN_IF_ERROR(exchange_->combine(executor, shift));
  const auto start = Clock::now();  // replicas have been waited for
  executor.run(updates_by_layer() ? plan_.end_of_update : plan_.update, 0);  // of no micro-batch
  MANTISSA_ASSIGN(const StepResult part, executor.end_step(input.scalars));
  if (exchange_ != nullptr) exchange_->clear(executor);
  for (const auto& instance : instances_) instance->begin_counts(input.scalars.step + 1);
  executor.set_step(inputs_[0]->batch, own_scalars(*inputs_[0]));
  ++updates_;
  note_work(cell, start);
  return part;
}

// With replicas the gradients of a stage are complete only when the other replicas' have come.
bool Stage::updates_by_layer() const { return plan_.updates_by_layer() && exchange_ == nullptr; }

StepScalars Stage::own_scalars(const UpdateInput& input) const {
  StepScalars scalars = input.scalars;
  scalars.learning_rate =
      pipeline::stage_rate(options_, plan_.window, scalars.learning_rate, scalars.step);
  return scalars;
}

std::byte* Stage::version_place(int version) const {
  return arena_.data() + plan_.versions_offset() + version * plan_.version_bytes;
}

// The weights that a micro-batch uses in its forward pass and, except in kAsync, in its backward
// pass too. If no update comes between the two, the state's own. Else a version: one for each
// micro-batch in flight, with k2bw one for each of two updates, in kAsync without prediction one
// for each update that was made.
void Stage::choose_weights(Executor& executor, int instance, int update) {
  const int missed = update - updates_;
  if (missed == 0) return use_version(executor, kOwn);
  const bool is_own = options_.mode == Mode::kStash || options_.predicts_weights;
  const int version = (options_.mode == Mode::k2bw ? update
                       : is_own                    ? instance
                                                   : updates_) %
                      plan_.versions;
  if (std::pair now{update, updates_}; std::exchange(written_[version], now) != now) {
    write_version(version, options_.predicts_weights ? missed : 0, own_scalars(*inputs_[instance]));
  }
  use_version(executor, version);
}

void Stage::write_version(int version, int missed, const StepScalars& scalars) {
  std::byte* const base = version_place(version);
  const auto copy = [&](int tensor, int64_t offset) {
    if (tensor < 0) return;
    const std::span<std::byte> from = state_.bytes(tensor);
    std::memcpy(base + offset, from.data(), from.size());
  };
  for (const VersionedParameter& parameter : plan_.parameters) {
    const ParameterState& tensors = state_.layout().parameters[parameter.parameter];
    copy(tensors.exponent, parameter.exponents);
    if (missed == 0 || parameter.update < 0) {
      copy(tensors.mantissa, parameter.mantissas);
      continue;
    }
    OpContext context = any().context(parameter.update);
    context.step.scalars = &scalars;
    prediction_of(*prediction_, context)(context, missed, base + parameter.mantissas);
  }
}

void Stage::use_version(Executor& executor, int version) {
  for (const VersionedParameter& parameter : plan_.parameters) {
    const ParameterState& tensors = state_.layout().parameters[parameter.parameter];
    const auto place = [&](int tensor, int64_t offset) {
      if (version != kOwn) return version_place(version) + offset;
      return tensor < 0 ? nullptr : state_.bytes(tensor).data();
    };
    std::byte* const mantissas = place(tensors.mantissa, parameter.mantissas);
    auto* const exponents =
        reinterpret_cast<int16_t*>(place(tensors.exponent, parameter.exponents));
    executor.use_weights(plan_.versioned, parameter.parameter, mantissas, exponents);
  }
}

}  // namespace mantissa
