#include "runtime/pipeline.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/thread_pool.h"

namespace mantissa {
namespace {

// Updates that micro-batches in flight belong to, one that is fed and one that is taken.
int updates_at_once(const PipelinePlan& plan, const pipeline::Options& options) {
  int window = 1;
  for (const StagePlan& stage : plan.stages) window = std::max(window, stage.window);
  return (window - 1) / options.accumulate + 3;
}

// As many as the sender has in flight, and one on its way.
int capacity_of(const PipelinePlan& plan, const Transfer& transfer) {
  return std::max(plan.stages[transfer.from].window, plan.stages[transfer.to].window) + 1;
}

int64_t input_bytes(const Graph& graph, const Program& program, int input) {
  const Value& value = graph.values[graph.inputs[input]];
  return program.options.micro_batch_size * program.options.micro_batches * value.shape.count() *
         element_bytes(value.type);
}

void add(const StepResult& part, StepResult& sum) {
  sum.loss += part.loss;
  sum.accuracy += part.accuracy;
  sum.examples = part.examples;
  for (size_t i = 0; i < sum.losses.size(); ++i) {
    sum.losses[i].loss_q24 += part.losses[i].loss_q24;
    sum.losses[i].correct += part.losses[i].correct;
  }
  sum.correct += part.correct;
  sum.loss_q24 += part.loss_q24;
  sum.saturated += part.saturated;
  sum.requantised += part.requantised;
  sum.guard_violations += part.guard_violations;
  sum.norm_channels_left_out += part.norm_channels_left_out;
  sum.re_executions += part.re_executions;
  sum.mispredictions += part.mispredictions;
}

}  // namespace

PipelineExecutor::PipelineExecutor(const Graph& graph, const Program& program,
                                   const PipelinePlan& plan, const pipeline::Options& options)
    : graph_(graph), program_(program), plan_(plan), options_(options) {
  const auto slots = static_cast<size_t>(updates_at_once(plan, options));
  inputs_.resize(slots);
  batches_.resize(slots * graph.inputs.size());
  parts_.resize(slots);
}

Result<std::unique_ptr<PipelineExecutor>> PipelineExecutor::create(
    const Graph& graph, const Program& program, const PipelinePlan& plan,
    const pipeline::Options& options, State& state, std::span<std::byte> arena, int threads,
    Isa isa) {
  std::unique_ptr<PipelineExecutor> made(new PipelineExecutor(graph, program, plan, options));
  int64_t offset = 0;
  for (const StagePlan& stage : plan.stages) {
    made->stages_.emplace_back(graph, program, stage, state, arena.subspan(offset), threads, isa);
    offset += stage.arena_bytes();
  }
  std::vector<std::vector<Channel*>> receives(plan.stages.size()), sends(plan.stages.size());
  for (const Transfer& transfer : plan.transfers) {
    const int capacity = capacity_of(plan, transfer);
    Channel& channel =
        made->channels_.emplace_back(transfer, made->stages_[transfer.from].any(), capacity);
    receives[transfer.to].push_back(&channel);
    sends[transfer.from].push_back(&channel);
  }
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    made->stages_[s].set_channels(std::move(receives[s]), std::move(sends[s]));
    PipelineExecutor* const self = made.get();
    std::thread thread = try_thread([self, s] { self->work(static_cast<int>(s)); });
    if (!thread.joinable()) {
      return failed("a pipeline of " + std::to_string(plan.stages.size()) +
                    " stages needs a thread for each, and the system gives " + std::to_string(s));
    }
    made->threads_.push_back(std::move(thread));
  }
  return made;
}

PipelineExecutor::~PipelineExecutor() {
  stop();
  for (std::thread& thread : threads_) thread.join();
}

int64_t PipelineExecutor::passed_bytes(const Graph& graph, const Program& program,
                                       const PipelinePlan& plan, const pipeline::Options& options) {
  int64_t bytes = 0;
  for (const Transfer& transfer : plan.transfers) {
    bytes += capacity_of(plan, transfer) * program.buffers[transfer.buffer].bytes;
  }
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    bytes += updates_at_once(plan, options) * input_bytes(graph, program, static_cast<int>(i));
  }
  return bytes;
}

void PipelineExecutor::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  for (Channel& channel : channels_) channel.close();
}

// A stage's thread: once for each begin().
void PipelineExecutor::work(int s) {
  for (int run = 1;; ++run) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return run_ >= run || stopped_; });
      if (stopped_) return;
    }
    stages_[s].run(
        schedule_.stages[s], [&](int update) { return input_of(update); },
        [&](int update, const Result<StepResult>& part) { return finish(update, part); });
    const std::lock_guard lock(mutex_);
    --working_;
    changed_.notify_all();
  }
}

const UpdateInput* PipelineExecutor::input_of(int update) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return fed_ > update || stopped_; });
  return stopped_ ? nullptr : &inputs_[update % inputs_.size()];
}

bool PipelineExecutor::finish(int update, const Result<StepResult>& part) {
  {
    const std::lock_guard lock(mutex_);
    if (part.ok()) {
      Part& sum = parts_[update % parts_.size()];
      add(*part, sum.result);
      ++sum.stages;
    } else if (failure_.ok()) {
      failure_ = part.error();
    }
  }
  changed_.notify_all();
  if (!part.ok()) stop();
  return part.ok();
}

Status PipelineExecutor::begin(int updates, int64_t step) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return working_ == 0 || stopped_; });
  if (stopped_) return failed("the pipeline has been stopped");
  if (updates != schedule_.options.updates || schedule_.stages.empty()) {
    options_.updates = updates;
    MANTISSA_ASSIGN(schedule_, pipeline::make_schedule(options_));
  }
  for (Channel& channel : channels_) channel.reset();
  for (Stage& stage : stages_) stage.begin(step, options_.mode, options_.accumulate);
  fed_ = taken_ = 0;
  std::ranges::fill(parts_, Part{});
  working_ = static_cast<int>(stages_.size());
  begun_ = std::chrono::steady_clock::now();
  ++run_;
  changed_.notify_all();
  return {};
}

bool PipelineExecutor::wants_batch() const {
  const std::lock_guard lock(mutex_);
  const int ahead = (plan_.stages[0].window - 1) / options_.accumulate + 1;
  return fed_ <= taken_ + ahead && fed_ < options_.updates && !stopped_;
}

Status PipelineExecutor::feed(std::span<const void* const> batch, const StepScalars& scalars) {
  MANTISSA_RETURN_IF_ERROR(stages_[0].any().check_batch(batch));
  const size_t slot = fed_ % inputs_.size();
  UpdateInput& input = inputs_[slot];
  input.scalars = scalars;
  input.batch.assign(graph_.inputs.size(), nullptr);
  for (size_t i = 0; i < input.batch.size() && i < batch.size(); ++i) {
    if (batch[i] == nullptr) continue;
    std::vector<std::byte>& copy = batches_[slot * graph_.inputs.size() + i];
    copy.resize(static_cast<size_t>(input_bytes(graph_, program_, static_cast<int>(i))));
    std::memcpy(copy.data(), batch[i], copy.size());
    input.batch[i] = copy.data();
  }
  {
    const std::lock_guard lock(mutex_);
    ++fed_;
  }
  changed_.notify_all();
  return {};
}

Result<StepResult> PipelineExecutor::next_result() {
  std::unique_lock lock(mutex_);
  Part& part = parts_[taken_ % parts_.size()];
  const int all = static_cast<int>(stages_.size());
  changed_.wait(lock, [&] { return part.stages == all || stopped_; });
  if (part.stages < all)
    return failure_.ok() ? failed("the pipeline has been stopped") : failure_.error();
  ++taken_;
  if (taken_ == options_.updates) {
    changed_.wait(lock, [&] { return working_ == 0 || stopped_; });
    running_ns_ += std::chrono::nanoseconds(std::chrono::steady_clock::now() - begun_).count();
  }
  if (observations_ != nullptr) {
    for (size_t s = 0; s < stages_.size(); ++s) {
      observations_->take(*observed_[s], stages_[s].instructions());
    }
  }
  return std::exchange(part, Part{}).result;
}

std::vector<double> PipelineExecutor::idle() const {
  std::vector<double> idle;
  for (const Stage& stage : stages_) {
    idle.push_back(running_ns_ == 0 ? 0
                                    : 1 - static_cast<double>(stage.busy_ns()) /
                                              static_cast<double>(running_ns_));
  }
  return idle;
}

void PipelineExecutor::set_observations(Observations* observations) {
  observations_ = observations;
  for (size_t s = 0; s < stages_.size(); ++s) {
    if (observations != nullptr && observed_.size() <= s) {
      observed_.push_back(std::make_unique<Observations>(program_));
    }
    stages_[s].set_observations(observations == nullptr ? nullptr : observed_[s].get());
  }
}

int64_t arena_bytes(const PipelinePlan& plan) {
  int64_t bytes = 0;
  for (const StagePlan& stage : plan.stages) bytes += stage.arena_bytes();
  return bytes;
}

}  // namespace mantissa
