#include "runtime/stages/pipeline.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/system/thread_pool.h"
#include "runtime/slots.h"
#include "runtime/stages/stage_wiring.h"

namespace mantissa {
PipelineExecutor::PipelineExecutor(const Graph& graph, const Program& program,
                                   const PipelinePlan& plan, const pipeline::Options& options,
                                   State& state, const Processes& processes)
    : graph_(graph),
      program_(program),
      plan_(plan),
      options_(options),
      state_(state),
      processes_(processes) {
  const auto slots = static_cast<size_t>(updates_at_once(plan, options));
  inputs_.resize(slots);
  batches_.resize(slots * graph.inputs.size());
  parts_.resize(slots);
}

Result<std::unique_ptr<PipelineExecutor>> PipelineExecutor::create(
    const Graph& graph, const Program& program, const PipelinePlan& plan,
    const pipeline::Options& options, State& state, std::span<std::byte> arena, int threads,
    Isa isa, const Processes& processes) {
  std::unique_ptr<PipelineExecutor> made(
      new PipelineExecutor(graph, program, plan, options, state, processes));
  int64_t offset = 0;
  const size_t here = processes.transport == nullptr ? plan.stages.size() : 1;
  for (size_t s = 0; s < here; ++s) {
    const StagePlan& stage = plan.stages[s];
    made->stages_.emplace_back(graph, program, stage, state, arena.subspan(offset), threads, isa);
    offset += stage.arena_bytes();
  }
  made->channels_ = make_channels(plan, made->stages_, 0, processes).all;
  join_processes(program, plan.stages[0], options, processes, made->stages_[0]);
  made->find_remotes();
  MANTISSA_RETURN_IF_ERROR(made->start_threads());
  return made;
}

Status PipelineExecutor::start_threads() {
  for (size_t s = 0; s < stages_.size(); ++s) {
    std::thread thread = try_thread([this, s] { work(static_cast<int>(s)); });
    if (!thread.joinable()) {
      return failed("a pipeline of " + std::to_string(stages_.size()) +
                    " stages needs a thread for each, and the system gives " + std::to_string(s));
    }
    threads_.push_back(std::move(thread));
  }
  return {};
}

// The other processes get the state that they start from.
void PipelineExecutor::find_remotes() {
  if (processes_.transport == nullptr) return;
  const StateLayout& layout = state_.layout();
  for (int p = 1; p < processes_.transport->processes(); ++p) {
    Remote remote{.process = p,
                  .stage = p % processes_.stages,
                  .replica = p / processes_.stages,
                  .reads = {},
                  .state = {},
                  .missed = {}};
    const StagePlan& stage = plan_.stages[remote.stage];
    remote.reads = inputs_of(graph_, program_, stage);
    remote.state = changed_state(program_, layout, stage.instructions());
    Transport& transport = *processes_.transport;
    transport.expect({p, stage_messages::kResult, stage_messages::kMostResultBytes, 4});
    if (remote.replica == 0) {
      transport.expect({p, stage_messages::kState, stage_messages::bytes_of(remote.state), 1});
    }
    Message state = stage_messages::write_state(state_, started_state(program_, layout, stage));
    stage_messages::send_command(transport, p,
                                 {.kind = stage_messages::CommandKind::kSetState,
                                  .bytes = static_cast<int64_t>(state.size())});
    transport.send(p, stage_messages::kState, std::move(state));
    remotes_.push_back(std::move(remote));
  }
}

// Other processes continue to wait for commands, except those that are in the middle of something.
PipelineExecutor::~PipelineExecutor() {
  stop();
  if (processes_.transport != nullptr) {
    const std::lock_guard lock(mutex_);
    if (working_ > 0 || !failure_.ok()) processes_.transport->close();
  }
  for (std::thread& thread : threads_) thread.join();
}

int64_t PipelineExecutor::passed_bytes(const Graph& graph, const Program& program,
                                       const PipelinePlan& plan, const pipeline::Options& options) {
  int64_t bytes = mantissa::passed_bytes(program, plan);
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
  for (const auto& channel : channels_) channel->close();
}

// A stage's thread: once for each begin().
void PipelineExecutor::work(int s) {
  for (int run = 1;; ++run) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return run_ >= run || stopped_; });
      if (stopped_) return;
    }
    Status ran = stages_[s].run(
        schedule_.stages[s], [&](int update) { return input_of(update); },
        [&](int update, const Result<StepResult>& part) { return finish(update, part); });
    if (!ran.ok()) {
      {
        const std::lock_guard lock(mutex_);
        if (failure_.ok() && !stopped_) failure_ = std::move(ran);
      }
      stop();
    }
    const std::lock_guard lock(mutex_);
    --working_;
    changed_.notify_all();
  }
}

const UpdateInput* PipelineExecutor::input_of(int update) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return fed_ > update || updates_ <= update || stopped_; });
  return stopped_ || updates_ <= update ? nullptr : &inputs_[update % inputs_.size()];
}

bool PipelineExecutor::finish(int update, const Result<StepResult>& part) {
  {
    const std::lock_guard lock(mutex_);
    if (part.ok()) {
      Part& sum = parts_[update % parts_.size()];
      sum.result.add(*part);
      ++sum.stages;
    } else if (failure_.ok()) {
      failure_ = part.error();
    }
  }
  changed_.notify_all();
  if (!part.ok()) stop();
  return part.ok();
}

Status PipelineExecutor::begin(int updates, int64_t step, bool flushes) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return working_ == 0 || stopped_; });
  if (stopped_) return failed("the pipeline has been stopped");
  const pipeline::Options way = options_of(options_, updates, flushes);
  if (schedule_.stages.empty() || way != schedule_.options) {
    MANTISSA_ASSIGN(schedule_, pipeline::make_schedule(way));
  }
  for (const auto& channel : channels_) channel->reset();
  for (Stage& stage : stages_) stage.begin(step, options_);
  for (const Remote& remote : remotes_) {
    stage_messages::send_command(*processes_.transport, remote.process,
                                 {.kind = stage_messages::CommandKind::kBegin,
                                  .updates = updates,
                                  .flushes = flushes,
                                  .step = step});
  }
  updates_ = updates;
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
  return fed_ <= taken_ + ahead && fed_ < updates_ && !stopped_;
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
  if (!remotes_.empty()) send_inputs(input);
  {
    const std::lock_guard lock(mutex_);
    ++fed_;
  }
  changed_.notify_all();
  return {};
}

// To each process the examples of its replica, if its stage reads any.
void PipelineExecutor::send_inputs(const UpdateInput& input) const {
  for (const Remote& remote : remotes_) {
    std::vector<std::span<const std::byte>> inputs(input.batch.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!remote.reads[i] || input.batch[i] == nullptr) continue;
      const auto all = input_bytes(graph_, program_, static_cast<int>(i));
      const auto bytes = static_cast<size_t>(all / processes_.replicas);
      inputs[i] =
          std::span(static_cast<const std::byte*>(input.batch[i]) + remote.replica * bytes, bytes);
    }
    processes_.transport->send(remote.process, stage_messages::kInput,
                               stage_messages::write_input(input.scalars, inputs));
  }
}

// Every process sends a result of each update; the other replicas' results equal the first's.
Status PipelineExecutor::take_remote_results(StepResult& sum) {
  for (Remote& remote : remotes_) {
    MANTISSA_ASSIGN(const Message message,
                    processes_.transport->receive(remote.process, stage_messages::kResult));
    MANTISSA_ASSIGN(const stage_messages::Part part, stage_messages::read_result(message));
    remote.busy_ns = part.busy_ns;
    remote.bytes_sent = part.bytes_sent;
    remote.missed = part.missed;
    if (remote.replica == 0) sum.add(part.result);
  }
  return {};
}

// At rest: the state with the other stages' changes.
Status PipelineExecutor::collect_state() {
  using stage_messages::CommandKind;
  for (const Remote& remote : remotes_) {
    if (remote.replica > 0) continue;
    stage_messages::send_command(*processes_.transport, remote.process,
                                 {.kind = CommandKind::kGetState});
  }
  for (const Remote& remote : remotes_) {
    if (remote.replica > 0) continue;
    MANTISSA_ASSIGN(const Message message,
                    processes_.transport->receive(remote.process, stage_messages::kState));
    MANTISSA_RETURN_IF_ERROR(stage_messages::read_state(message, remote.state, state_));
  }
  return {};
}

std::vector<int64_t> PipelineExecutor::bytes_sent() const {
  std::vector<int64_t> bytes;
  if (processes_.transport == nullptr) return bytes;
  bytes.push_back(processes_.transport->bytes_sent());
  for (const Remote& remote : remotes_) bytes.push_back(remote.bytes_sent);
  return bytes;
}

Result<StepResult> PipelineExecutor::next_result() {
  std::unique_lock lock(mutex_);
  Part& part = parts_[taken_ % parts_.size()];
  const int all = static_cast<int>(stages_.size());
  changed_.wait(lock, [&] { return part.stages == all || stopped_; });
  if (part.stages < all)
    return failure_.ok() ? failed("the pipeline has been stopped") : failure_.error();
  ++taken_;
  if (!remotes_.empty()) {
    lock.unlock();
    if (Status taken = take_remote_results(part.result); !taken.ok()) {
      stop();
      lock.lock();
      failure_ = std::move(taken);
      return failure_.error();
    }
    if (taken_ == updates_) MANTISSA_RETURN_IF_ERROR(collect_state());
    lock.lock();
  }
  if (taken_ == updates_) wait_for_rest(lock);
  if (observations_ != nullptr) {
    for (size_t s = 0; s < stages_.size(); ++s) {
      observations_->take(*observed_[s], stages_[s].instructions());
    }
  }
  return std::exchange(part, Part{}).result;
}

void PipelineExecutor::wait_for_rest(std::unique_lock<std::mutex>& lock) {
  changed_.wait(lock, [&] { return working_ == 0 || stopped_; });
  running_ns_ += std::chrono::nanoseconds(std::chrono::steady_clock::now() - begun_).count();
}

Result<int> PipelineExecutor::end_early() {
  std::unique_lock lock(mutex_);
  if (updates_ == fed_) return updates_;
  updates_ = fed_;
  changed_.notify_all();
  for (const Remote& remote : remotes_) {
    processes_.transport->send(remote.process, stage_messages::kInput, stage_messages::write_end());
  }
  if (taken_ < updates_) return updates_;
  lock.unlock();
  if (!remotes_.empty()) MANTISSA_RETURN_IF_ERROR(collect_state());
  lock.lock();
  wait_for_rest(lock);
  return updates_;
}

std::vector<pipeline::MissedUpdates> PipelineExecutor::missed_updates() const {
  std::vector<pipeline::MissedUpdates> missed;
  for (const Stage& stage : stages_) missed.push_back(stage.missed_updates());
  for (const Remote& remote : remotes_) {
    if (remote.replica == 0) missed.push_back(remote.missed);
  }
  return missed;
}

void PipelineExecutor::trace(int64_t first_step, int64_t last_step) {
  const int64_t cells = pipeline::traced_cells(options_, last_step - first_step);
  const auto origin = Stage::Clock::now();
  for (Stage& stage : stages_) {
    stage.trace(origin, last_step, cells / static_cast<int64_t>(stages_.size()));
  }
}

pipeline::Trace PipelineExecutor::take_trace() {
  pipeline::Trace trace = {.options = options_, .names = {}, .stages = {}};
  for (Stage& stage : stages_) trace.stages.push_back(stage.take_trace());
  return trace;
}

std::vector<double> PipelineExecutor::idle() const {
  std::vector<int64_t> busy;
  for (const Stage& stage : stages_) busy.push_back(stage.busy_ns());
  for (const Remote& remote : remotes_) busy.push_back(remote.busy_ns);
  std::vector<double> idle;
  for (const int64_t ns : busy) {
    const double all = static_cast<double>(running_ns_);
    idle.push_back(running_ns_ == 0 ? 0 : 1 - static_cast<double>(ns) / all);
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

int64_t arena_bytes(const PipelinePlan& plan, int first, int count) {
  int64_t bytes = 0;
  for (int s = first; s < first + count; ++s) bytes += plan.stages[s].arena_bytes();
  return bytes;
}

}  // namespace mantissa
