#include "runtime/pipeline.h"

#include <algorithm>
#include <string>

namespace mantissa {

using pipeline::Cell;
using pipeline::Work;

Channel::Channel(const Transfer& transfer, const Executor& sender, int capacity)
    : transfer_(transfer), passed_(capacity, sender.make_room(transfer)) {}

void Channel::send(const Executor& sender, int micro_batch) {
  sender.pass_on(transfer_, passed_[micro_batch % passed_.size()]);
  const std::lock_guard lock(mutex_);
  sent_ = micro_batch + 1;
  arrived_.notify_all();
}

void Channel::receive(Executor& receiver, int micro_batch) {
  {
    std::unique_lock lock(mutex_);
    arrived_.wait(lock, [&] { return sent_ > micro_batch; });
  }
  receiver.receive(transfer_, passed_[micro_batch % passed_.size()]);
}

void Channel::clear() { sent_ = 0; }

PipelineExecutor::PipelineExecutor(const Program& program, const PipelinePlan& plan,
                                   const pipeline::Schedule& schedule)
    : plan_(plan),
      schedule_(schedule),
      program_(program),
      stage_threads_(static_cast<int>(plan.stages.size())) {}

Result<std::unique_ptr<PipelineExecutor>> PipelineExecutor::create(
    const Graph& graph, const Program& program, const PipelinePlan& plan,
    const pipeline::Schedule& schedule, State& state, std::span<std::byte> arena, int threads,
    Isa isa) {
  std::unique_ptr<PipelineExecutor> made(new PipelineExecutor(program, plan, schedule));
  const int count = static_cast<int>(plan.stages.size());
  if (made->stage_threads_.threads() < count) {
    return failed("a pipeline of " + std::to_string(count) +
                  " stages needs a thread for each, and the system gives " +
                  std::to_string(made->stage_threads_.threads()));
  }
  int64_t offset = 0;
  for (const StagePlan& planned : plan.stages) {
    Stage& stage = made->stages_.emplace_back();
    stage.pool = std::make_unique<ThreadPool>(threads);
    std::vector<int>& instructions = stage.instructions;
    for (const auto* list : {&planned.forward, &planned.backward, &planned.update}) {
      instructions.insert(instructions.end(), list->begin(), list->end());
    }
    stage.programs.reserve(planned.window);
    for (int i = 0; i < planned.window; ++i) {
      stage.programs.push_back(stage_program(program, planned, i));
      stage.instances.push_back(std::make_unique<Executor>(graph, stage.programs.back(), state,
                                                           arena.subspan(offset), *stage.pool, isa,
                                                           instructions));
      made->others_.push_back(stage.instances.back().get());
    }
    offset += planned.arena_bytes();
  }
  made->others_.erase(made->others_.begin());
  for (const Transfer& transfer : plan.transfers) {
    const int capacity =
        std::max(plan.stages[transfer.from].window, plan.stages[transfer.to].window);
    made->channels_.emplace_back(transfer, *made->stages_[transfer.from].instances[0], capacity);
  }
  return made;
}

void PipelineExecutor::run_stage(int s) {
  const StagePlan& plan = plan_.stages[s];
  for (const Cell& cell : schedule_.stages[s]) {
    const int instance = cell.work == Work::kUpdate ? 0 : cell.index % plan.window;
    Executor& executor = *stages_[s].instances[instance];
    if (cell.work == Work::kUpdate) executor.run(plan.update, 0);
    if (cell.work != Work::kForward && cell.work != Work::kGradInput) continue;
    const bool backward = cell.work == Work::kGradInput;
    for (Channel& channel : channels_) {
      const Transfer& transfer = channel.transfer();
      if (transfer.to == s && transfer.backward == backward) channel.receive(executor, cell.index);
    }
    executor.run(backward ? plan.backward : plan.forward, cell.index);
    for (Channel& channel : channels_) {
      const Transfer& transfer = channel.transfer();
      if (transfer.from == s && transfer.backward == backward) channel.send(executor, cell.index);
    }
  }
}

Result<StepResult> PipelineExecutor::train_step(std::span<const void* const> batch,
                                                const StepScalars& scalars) {
  for (Channel& channel : channels_) channel.clear();
  for (Stage& stage : stages_) {
    for (const auto& instance : stage.instances) {
      MANTISSA_RETURN_IF_ERROR(instance->begin_step(batch, scalars));
    }
  }
  stage_threads_.parallel_for(static_cast<int64_t>(stages_.size()),
                              [&](int64_t s, int) { run_stage(static_cast<int>(s)); });
  if (observations_ != nullptr) {
    for (const Stage& stage : stages_) observations_->take(*stage.observations, stage.instructions);
  }
  return stages_[0].instances[0]->end_step(others_);
}

void PipelineExecutor::set_observations(Observations* observations) {
  observations_ = observations;
  for (Stage& stage : stages_) {
    if (observations != nullptr && stage.observations == nullptr) {
      stage.observations = std::make_unique<Observations>(program_);
    }
    Observations* const own = observations == nullptr ? nullptr : stage.observations.get();
    for (const auto& instance : stage.instances) instance->set_observations(own);
  }
}

int64_t arena_bytes(const PipelinePlan& plan) {
  int64_t bytes = 0;
  for (const StagePlan& stage : plan.stages) bytes += stage.arena_bytes();
  return bytes;
}

}  // namespace mantissa
