#include "runtime/stages/stage_wiring.h"

#include <algorithm>

#include "runtime/slots.h"
#include "runtime/stages/replica_exchange.h"

namespace mantissa {
namespace {

// As many as the earlier stage has in flight: it begins another micro-batch when one has come back.
// By then the messages in both directions for that one have been received.
int capacity_of(const PipelinePlan& plan, const Transfer& transfer) {
  return plan.stages[std::min(transfer.from, transfer.to)].window;
}

}  // namespace

int updates_at_once(const PipelinePlan& plan, const pipeline::Options& options) {
  int window = 1;
  for (const StagePlan& stage : plan.stages) window = std::max(window, stage.window);
  return (window - 1) / options.accumulate + 3;
}

pipeline::Options options_of(const pipeline::Options& options, int updates, bool flushes) {
  pipeline::Options way = options;
  way.updates = updates;
  if (flushes && way.mode != pipeline::Mode::kFlush) {
    way.mode = pipeline::Mode::kFlush;
    way.form = pipeline::FlushForm::k1F1B;
  }
  return way;
}

int64_t input_bytes(const Graph& graph, const Program& program, int input) {
  const Value& value = graph.values[graph.inputs[input]];
  return program.options.micro_batch_size * program.options.micro_batches * value.shape.count() *
         element_bytes(value.type);
}

int64_t passed_bytes(const Program& program, const PipelinePlan& plan) {
  int64_t bytes = 0;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    bytes += received_bytes(program, plan, static_cast<int>(s));
  }
  return bytes;
}

int64_t received_bytes(const Program& program, const PipelinePlan& plan, int stage) {
  int64_t bytes = 0;
  for (const Transfer& transfer : plan.transfers) {
    if (transfer.to != stage) continue;
    bytes += capacity_of(plan, transfer) * program.buffers[transfer.buffer].bytes;
  }
  return bytes;
}

Channels make_channels(const PipelinePlan& plan, std::deque<Stage>& stages, int first_stage,
                       const Processes& processes) {
  Channels channels;
  channels.receives.resize(stages.size());
  channels.sends.resize(stages.size());
  const auto here = [&](int stage) { return stage - first_stage; };
  const auto is_here = [&](int stage) {
    return here(stage) >= 0 && here(stage) < static_cast<int>(stages.size());
  };
  for (size_t t = 0; t < plan.transfers.size(); ++t) {
    const Transfer& transfer = plan.transfers[t];
    const bool sends = is_here(transfer.from), receives = is_here(transfer.to);
    if (!sends && !receives) continue;
    const int capacity = capacity_of(plan, transfer);
    const Executor& own = stages[here(sends ? transfer.from : transfer.to)].any();
    if (sends && receives) {
      channels.all.push_back(std::make_unique<ThreadChannel>(transfer, own, capacity));
    } else {
      const int other = processes.of(processes.replica(), sends ? transfer.to : transfer.from);
      channels.all.push_back(std::make_unique<ProcessChannel>(
          transfer, own, *processes.transport, other,
          stage_messages::kTransfers + static_cast<int>(t), receives, capacity));
    }
    Channel* const channel = channels.all.back().get();
    if (receives) channels.receives[here(transfer.to)].push_back(channel);
    if (sends) channels.sends[here(transfer.from)].push_back(channel);
  }
  for (size_t s = 0; s < stages.size(); ++s) {
    stages[s].set_channels(channels.receives[s], channels.sends[s]);
  }
  return channels;
}

void join_processes(const Program& program, const StagePlan& plan, const pipeline::Options& options,
                    const Processes& processes, Stage& stage) {
  if (processes.transport == nullptr) return;
  ReplicaPlace place{processes.replica(), {}};
  for (int r = 0; r < processes.replicas; ++r) {
    place.processes.push_back(processes.of(r, processes.stage()));
  }
  std::unique_ptr<ReplicaExchange> exchange;
  if (processes.replicas > 1) {
    exchange = std::make_unique<ReplicaExchange>(program, plan, std::move(place),
                                                 *processes.transport, stage_messages::kReplicas);
  }
  stage.set_processes(*processes.transport, std::move(exchange),
                      processes.replica() * options.accumulate);
}

std::vector<char> inputs_of(const Graph& graph, const Program& program, const StagePlan& stage) {
  std::vector<char> reads(graph.inputs.size());
  for (const int i : stage.instructions()) {
    for (const Operand& operand : program.instructions[i].inputs()) {
      if (operand.space == Operand::Space::kInput) reads[operand.index] = 1;
    }
  }
  return reads;
}

std::vector<StateRange> started_state(const Program& program, const StateLayout& layout,
                                      const StagePlan& stage) {
  std::vector<StateRange> ranges = changed_state(program, layout, stage.instructions());
  for (const int tensor : {layout.predictors, layout.bits, layout.guards}) {
    if (tensor < 0) continue;
    ranges.push_back({layout.tensors[tensor].offset, layout.tensors[tensor].bytes()});
  }
  return ranges;
}

}  // namespace mantissa
