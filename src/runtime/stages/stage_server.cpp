#include "runtime/stages/stage_server.h"

#include <deque>
#include <utility>
#include <vector>

#include "runtime/slots.h"
#include "runtime/stages/stage_wiring.h"

namespace mantissa {
namespace {

// A stage whose batches come from the first process, and whose results go there.
class Server {
 public:
  Server(const Graph& graph, const Program& program, const PipelinePlan& plan,
         const pipeline::Options& options, State& state, std::span<std::byte> arena, int threads,
         Isa isa, const Processes& processes)
      : graph_(graph),
        options_(options),
        state_(state),
        transport_(*processes.transport),
        stage_(processes.stage()) {
    const StagePlan& own = plan.stages[stage_];
    stages_.emplace_back(graph, program, own, state, arena, threads, isa);
    channels_ = make_channels(plan, stages_, stage_, processes);
    join_processes(program, own, options, processes, stages_[0]);
    const StateLayout& layout = state.layout();
    started_ = started_state(program, layout, own);
    changed_ = changed_state(program, layout, own.instructions());
    received_.resize(static_cast<size_t>(updates_at_once(plan, options)));
    int64_t bytes = sizeof(StepScalars);
    for (size_t i = 0; i < graph.inputs.size(); ++i) {
      bytes += 16 + input_bytes(graph, program, static_cast<int>(i));
    }
    transport_.expect({0, stage_messages::kInput, bytes, static_cast<int>(received_.size())});
    transport_.expect({0, stage_messages::kState, stage_messages::bytes_of(started_), 1});
  }

  Status serve() {
    using stage_messages::CommandKind;
    while (true) {
      MANTISSA_ASSIGN(const auto command, stage_messages::receive_command(transport_));
      if (command.kind == CommandKind::kEnd) return {};
      if (command.kind == CommandKind::kBegin) {
        MANTISSA_RETURN_IF_ERROR(run(command));
      } else if (command.kind == CommandKind::kSetState) {
        MANTISSA_ASSIGN(const Message message, transport_.receive(0, stage_messages::kState));
        MANTISSA_RETURN_IF_ERROR(stage_messages::read_state(message, started_, state_));
      } else {
        transport_.send(0, stage_messages::kState, stage_messages::write_state(state_, changed_));
      }
    }
  }

 private:
  struct Received {
    Message message;
    UpdateInput input;
  };

  Status run(const stage_messages::Command& command) {
    const pipeline::Options way = options_of(options_, command.updates, command.flushes);
    if (schedule_.stages.empty() || way != schedule_.options) {
      MANTISSA_ASSIGN(schedule_, pipeline::make_schedule(way));
    }
    stages_[0].begin(command.step, options_);
    taken_ = 0;
    ended_ = false;
    status_ = {};
    Status ran = stages_[0].run(
        schedule_.stages[stage_], [&](int update) { return input_of(update); },
        [&](int, const Result<StepResult>& part) { return finish(part); });
    return status_.ok() ? std::move(ran) : std::exchange(status_, {});
  }

  const UpdateInput* input_of(int update) {
    while (taken_ <= update) {
      Status taken = take_input();
      if (!taken.ok()) {
        status_ = std::move(taken);
        return nullptr;
      }
      if (ended_) return nullptr;
    }
    return &received_[static_cast<size_t>(update) % received_.size()].input;
  }

  Status take_input() {
    Received& received = received_[static_cast<size_t>(taken_) % received_.size()];
    MANTISSA_ASSIGN(received.message, transport_.receive(0, stage_messages::kInput));
    ended_ = stage_messages::is_end(received.message);
    if (ended_) return {};
    MANTISSA_ASSIGN(const auto input,
                    stage_messages::read_input(received.message, graph_.inputs.size()));
    received.input.scalars = input.scalars;
    received.input.batch.clear();
    for (const auto& bytes : input.inputs) {
      received.input.batch.push_back(bytes.empty() ? nullptr : bytes.data());
    }
    ++taken_;
    return {};
  }

  bool finish(const Result<StepResult>& part) {
    transport_.send(0, stage_messages::kResult,
                    stage_messages::write_result(part, {.busy_ns = stages_[0].busy_ns(),
                                                        .bytes_sent = transport_.bytes_sent(),
                                                        .missed = stages_[0].missed_updates()}));
    if (!part.ok()) status_ = part.error();
    return part.ok();
  }

  const Graph& graph_;
  pipeline::Options options_;
  State& state_;
  Transport& transport_;
  int stage_;
  std::deque<Stage> stages_;  // one
  Channels channels_;
  std::vector<StateRange> started_, changed_;
  pipeline::Schedule schedule_;
  std::vector<Received> received_;  // by update modulo their number
  int taken_ = 0;
  bool ended_ = false;  // no more inputs come
  Status status_;
};

}  // namespace

Status serve_stage(const Graph& graph, const Program& program, const PipelinePlan& plan,
                   const pipeline::Options& options, State& state, std::span<std::byte> arena,
                   int threads, Isa isa, const Processes& processes) {
  return Server(graph, program, plan, options, state, arena, threads, isa, processes).serve();
}

}  // namespace mantissa
