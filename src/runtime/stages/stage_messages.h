// The messages between the first process, which has the batches and the loop, and the processes
// that work on other stages or replicas.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "graph/op.h"
#include "pipeline/trace.h"
#include "plan/stages/stages.h"
#include "runtime/executor.h"
#include "runtime/stages/replica_exchange.h"
#include "runtime/state.h"
#include "transport/transport.h"

namespace mantissa {

// The processes of a run: replica after replica, each with one process a stage.
struct Processes {
  Transport* transport = nullptr;  // null: all stages are threads of this process
  int replicas = 1;
  int stages = 1;

  int of(int replica, int stage) const { return replica * stages + stage; }
  int stage() const { return transport == nullptr ? 0 : transport->process() % stages; }
  int replica() const { return transport == nullptr ? 0 : transport->process() / stages; }
};

namespace stage_messages {

// Tags. Each transfer of the plan has one from kTransfers on.
constexpr int kCommand = 2, kState = 3, kInput = 4, kResult = 5, kNetwork = 6;
constexpr int kReplicas = 16;
constexpr int kTransfers = kReplicas + ReplicaExchange::kTags;

enum class CommandKind : int32_t {
  kSetUp,     // a message on kNetwork follows: what to work on (train/worker.h)
  kBegin,     // updates: inputs follow, results go back
  kSetState,  // a message on kState follows
  kGetState,  // a message on kState goes back
  kEnd,
};
struct Command {
  CommandKind kind = CommandKind::kEnd;
  int32_t updates = 0;
  bool flushes = false;  // PipelineExecutor::begin()
  int64_t step = 0;
  int64_t bytes = 0;  // of the message on kState
};
void send_command(Transport& transport, int to, const Command& command);
Result<Command> receive_command(Transport& transport);

// The result of an update, with counters of the process.
struct Counters {
  int64_t busy_ns = 0, bytes_sent = 0;
  pipeline::MissedUpdates missed;
};
struct Part : Counters {
  StepResult result;
};
Message write_result(const Result<StepResult>& result, const Counters& counters);
Result<Part> read_result(std::span<const std::byte> message);
constexpr int64_t kMostResultBytes = int64_t{1} << 13;

// The batch of an update: for each input the bytes of the replica's micro-batches, or none.
Message write_input(const StepScalars& scalars, std::span<const std::span<const std::byte>> inputs);
struct Input {
  StepScalars scalars;
  std::vector<std::span<const std::byte>> inputs;  // into the message; empty: none
};
Result<Input> read_input(std::span<const std::byte> message, size_t inputs);

// Instead of a batch: there are no more.
Message write_end();
bool is_end(std::span<const std::byte> message);

// These parts of the state.
Message write_state(const State& state, std::span<const StateRange> ranges);
Status read_state(std::span<const std::byte> message, std::span<const StateRange> ranges,
                  State& state);
int64_t bytes_of(std::span<const StateRange> ranges);

}  // namespace stage_messages
}  // namespace mantissa
