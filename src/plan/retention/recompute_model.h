// The effect on memory and time of keeping a value or computing it again. The program is reduced to
// these costs, so that a planner can try thousands of choices. The memory is exactly the memory of
// the program compiled with the choice; the time is an estimate. Source: Recompute; METHODS section
// 4.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/programs/program.h"
#include "plan/retention/machine_profile.h"

namespace mantissa {

// The time that an instruction takes, all threads together, in whole nanoseconds: estimated, with
// its operands in memory.
double estimated_ns(const Graph& graph, const Program& program, const Instruction& instruction,
                    const MachineProfile& profile, int threads);

// The micro-batches that the stage of a pipeline has in flight, if the program is its part
// (plan/stages/stages.h).
struct InFlight {
  int window = 1;
  std::vector<bool> stays = {};  // by value of the graph: another stage has it too
  std::vector<bool> apart = {};  // by instruction: runs after all others of the backward pass
};

class RecomputeModel {
 public:
  // A value that the forward pass writes to the arena, in the order in which it does; before
  // these, values that come from another stage.
  struct Value {
    int value = -1;  // of the graph
    std::string name;
    int64_t bytes = 0;
    std::vector<int> inputs;      // values of the model that it is computed from
    int64_t copies_bytes = 0;     // of the other micro-batches in flight, if these hold it
    int64_t transient_bytes = 0;  // workspace and scratch while it is computed
    bool may_go = true;           // false: it is always kept, since the loss reads it
    bool stays = false;           // or another stage has it too
    bool is_received = false;     // from another stage
    bool read_apart = false, read_before = false;  // by instructions that run apart, and others
    bool read_backward = false;                    // by the backward pass itself
    int tier = 0;                         // its memory tier when the backward pass comes back to it
    double keep_ns = 0;                   // writing it there and loading it
    double compute_ns = 0;                // computing it again
    double near_compute_ns = 0;           // the same from inputs that are near
    int forward = -1, last_forward = -1;  // instructions that write it, and read it last
  };

  // An instruction of the backward pass that reads values.
  struct Read {
    int instruction = -1;
    std::vector<int> values;
    bool ends_node = false;  // values that are computed each time are forgotten after it
    bool apart = false;      // runs after all others (InFlight)
  };

  struct Outcome {
    int64_t peak_bytes = 0;  // the largest live set
    // Adds the instructions that compute again, and the memory of other micro-batches in flight.
    int64_t total_bytes = 0;
    int64_t excess = 0;      // of the total: bytes above the limit, summed over all moments
    double nanoseconds = 0;  // of keeping and computing again, together
    int recomputations = 0;
  };

  // `program` is the graph's, trains and keeps all values. Its arena has at least
  // `least_arena_bytes`, whatever is computed again. An instruction takes `instruction_bytes`
  // outside the arena.
  RecomputeModel(const Graph& graph, const Program& program, const MachineProfile& profile,
                 int threads, int64_t instruction_bytes = 0, int64_t least_arena_bytes = 0,
                 const InFlight& in_flight = {});

  const std::vector<Value>& values() const { return values_; }
  int64_t tier_bytes(const Value& value) const { return tiers_[value.tier].bytes; }
  int64_t instruction_bytes() const { return instruction_bytes_; }
  const std::vector<Read>& reads() const { return reads_; }
  int first_backward() const { return first_backward_; }
  // By instruction: bytes of everything except values of the forward pass, while it runs, and just
  // before (when values are computed again for it).
  const std::vector<int64_t>& bytes_during() const { return during_; }
  const std::vector<int64_t>& bytes_before() const { return before_; }

  // No choice has a total below this: the bytes that one instruction of the backward pass needs at
  // once.
  int64_t bound_bytes() const;

  // The outcome of a choice, one entry per value of the model. Values that may not go are kept.
  Outcome evaluate(const std::vector<Retention>& choice, int64_t limit_bytes) const;

  // The choice by values of the graph, as ProgramOptions::retention has it.
  std::vector<Retention> by_graph_value(const std::vector<Retention>& choice, size_t values) const;

 private:
  void find_received(const Graph& graph, const Program& program);
  void find_values(const Graph& graph, const Program& program, const MachineProfile& profile,
                   int threads);
  void find_reads(const Program& program, const MachineProfile& profile);
  void add_in_flight(const InFlight& in_flight);
  void place_on_chip(const MachineProfile& profile);
  void add_up_the_rest(const Program& program, int64_t least_arena_bytes);

  std::vector<MemoryTier> tiers_;  // caches, memory, on-chip memory
  int64_t instruction_bytes_ = 0;
  std::vector<Value> values_;
  std::vector<Read> reads_;
  int first_backward_ = 0;
  std::vector<int64_t> during_, before_;
};

}  // namespace mantissa
