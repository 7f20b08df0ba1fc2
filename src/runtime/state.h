// The memory of tensors that live from step to step, shared by all programs of a network.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"
#include "plan/programs/state_layout.h"
#include "runtime/memory.h"

namespace mantissa {

// Bytes of a state's memory.
struct StateRange {
  int64_t offset = 0, bytes = 0;
};

class State {
 public:
  // Zero-filled, in memory of its own.
  static Result<State> create(StateLayout layout);
  // Zero-filled, in layout.bytes of the caller's memory, aligned to cache lines, which outlives it.
  State(StateLayout layout, std::span<std::byte> memory);

  const StateLayout& layout() const { return layout_; }

  // All tensors, with the gaps between them.
  std::span<const std::byte> all_bytes() const { return memory_; }
  std::span<std::byte> all_bytes() { return memory_; }
  // The bytes of a tensor of the layout.
  std::span<std::byte> bytes(int tensor);
  std::span<const std::byte> bytes(int tensor) const;

  template <typename T>
  T* data(int tensor) {
    return reinterpret_cast<T*>(bytes(tensor).data());
  }
  template <typename T>
  const T* data(int tensor) const {
    return reinterpret_cast<const T*>(bytes(tensor).data());
  }

  // SHA-256 over names and bytes of the tensors of groups up to `last`, in canonical order.
  std::string sha256(StateGroup last) const;

 private:
  StateLayout layout_;
  std::optional<AlignedMemory> own_;
  std::span<std::byte> memory_;
};

// Sets initial weights, scales and statistics, keyed by seed and parameter; predictors unmeasured.
// Numbers of parameters that are marked in `taken` stay zero: they come from a file
// (taken_parameters), and drawing numbers for a large network takes seconds.
void initialise(const Graph& graph, const Format& format, uint64_t seed, State& state,
                const std::vector<bool>& taken = {});

// Sets a parameter to numbers, as many as it has: rounded to its grid; exactly in fp32 and for
// statistics. The optimiser's tensors of the parameter start anew.
void set_parameter(const Graph& graph, int parameter, std::span<const double> numbers,
                   State& state);

// The numbers of a parameter: mantissas at their exponents, or as they are.
std::vector<double> parameter_numbers(const State& state, int parameter);

// Sets trained parameters and statistics to the ones of an fp32 state of the same graph; `format`
// is an integer format. All else stays.
void take_parameters(const Graph& graph, const Format& format, const State& floats, State& state);

}  // namespace mantissa
