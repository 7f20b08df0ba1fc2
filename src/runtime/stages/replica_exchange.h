// Data parallelism: replicas of a stage add up their gradients and counts before each update. All
// sums are whole numbers, so they equal the sums of one process.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "plan/programs/program.h"
#include "plan/stages/stages.h"
#include "runtime/executor.h"
#include "transport/transport.h"

namespace mantissa {

// The position of a stage among its replicas.
struct ReplicaPlace {
  int replica = 0;
  std::vector<int> processes;  // of all replicas of the stage
  int replicas() const { return static_cast<int>(processes.size()); }
};

// Gradients go in groups, as soon as the backward pass has finished them. Each replica adds a part
// of every group and gives the sum to the others. Numbers travel with as many half-bytes as the
// largest number of a gradient needs.
class ReplicaExchange {
 public:
  // References outlive it. It uses tags() tags from `tag` on.
  ReplicaExchange(const Program& program, const StagePlan& plan, ReplicaPlace place,
                  Transport& transport, int tag);
  static constexpr int kMostGroups = 1024;
  static constexpr int kTags = 2 * kMostGroups + 1;

  // The instructions that complete groups, in this list of the plan: this many first ones may run
  // before send_group().
  struct Piece {
    std::span<const int> instructions;
    int group = -1;  // complete after it; -1: none
  };
  std::vector<Piece> pieces(std::span<const int> instructions) const;
  void send_group(const Executor& executor, int group);

  // Waits for the others. Afterwards the executor has the gradients, statistics and counts of all.
  // `shift` moves the place of statistics. All groups have been sent.
  Status combine(Executor& executor, int64_t shift);

  // All replicas but the first begin with gradients of zero and add to them.
  void clear(Executor& executor) const;

 private:
  struct Gradient {
    int buffer = -1;
    DataType type = DataType::kInt64;
    int64_t count = 0;
    int last = -1;  // the last instruction that adds to it
  };
  struct Part {  // of a gradient
    int64_t begin = 0, end = 0;
  };
  Part part_of(const Gradient& gradient, int replica) const;
  void find_gradients(const Program& program);
  void find_groups();
  Message pack(const Executor& executor, const std::vector<Gradient>& group, int replica) const;
  Status unpack(Executor& executor, const std::vector<Gradient>& group, int replica, bool adds,
                std::span<const std::byte> message) const;
  int64_t most_bytes(const std::vector<Gradient>& group) const;
  Message own_counts(const Executor& executor, int64_t shift) const;
  Status take_counts(Executor& executor, int64_t shift, int replica,
                     std::span<const std::byte> message) const;
  // The records in the statistics buffer for a replica's micro-batches.
  Part records_of(int buffer, int replica) const;

  const Program& program_;
  const StagePlan& plan_;
  ReplicaPlace place_;
  Transport& transport_;
  int tag_;
  std::vector<Gradient> gradients_;  // in the order in which they are finished
  std::vector<std::vector<Gradient>> groups_;
  std::vector<int> statistics_;  // buffers
  bool expects_counts_ = false;
};

}  // namespace mantissa
