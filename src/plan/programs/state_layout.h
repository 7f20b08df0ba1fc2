// The tensors that live from step to step: parameters, statistics, optimiser and predictors, in
// canonical order.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "numerics/format.h"
#include "plan/programs/optimizer.h"
#include "tensor/tensor.h"

namespace mantissa {

// Which hash a tensor enters: weights_sha256 covers the first two, state_sha256 all.
enum class StateGroup { kParameter, kStatistics, kOptimizer, kPredictor };

struct StateTensor {
  std::string name;  // "conv1.weights", "conv1.weights.accumulator" ...
  DataType type;
  Shape shape;
  StateGroup group;
  int64_t offset = 0;  // in the state's memory, aligned to 64 bytes
  int bits = 0;        // of mantissas that may be narrower than their type; 0: none
  int64_t bytes() const { return shape.count() * element_bytes(type); }
};

// Indices of the tensors that an optimiser keeps for a parameter; -1: none.
struct MomentState {
  int mantissa = -1;
  int exponent = -1;
  int first_exponent = 0;  // before the first step
};

// Indices of a parameter's tensors in the layout; -1: none.
struct ParameterState {
  int mantissa = -1;
  int exponent = -1;
  int accumulator = -1;
  std::array<MomentState, kMostMoments> moments;  // of the optimiser, in its order
  int gradient_exponent = -1;        // sums are rounded to it; fixed at the start of a step
  std::optional<int> grid_exponent;  // of a parameter whose exponent is fixed
  WeightGrid grid;                   // of the same
};

// The exponents in the order of the state. First of gradients, by node and input of mantissas, two
// each: its own, and the exponent of the sum up to it (except for the last loss, which no sum ends
// with). Then of values of mantissas.
struct ExponentSlots {
  std::vector<int> of_value;  // -1: it has none
  std::vector<int> of_node;   // of the gradient of its first input
  int64_t values = 0, gradients = 0;

  // The slot of the gradient that a node gives its input. The sum up to it has the next slot.
  int gradient(int node, int input) const;
  // Exponents that are decided or predicted: those of gradients. In dynamic fixed point, one per
  // value and one per parameter (of its velocity) follow.
  int64_t value_predictor(int value) const;
  int64_t velocity_predictor(int parameter) const;
};
ExponentSlots exponent_slots(const Graph& graph);

struct StateLayout {
  std::vector<StateTensor> tensors;
  std::vector<ParameterState> parameters;  // as in the graph
  // int16 per gradient slot: the exponent measured in the last step. In dynamic fixed point the
  // decided exponent, per gradient slot, per value and per parameter (of its velocity). fp32, and
  // ge=exact: none.
  int predictors = -1;
  int bits = -1;       // dynamic fixed point: BitStatistics of each, since exponents were decided
  int guards = -1;     // uint8 per value with an exponent: exponents per channel wanted; fp32: none
  int exponents = -1;  // frozen: int16 per value with an exponent, fixed
  std::vector<int> channel_exponents;  // frozen: int8 tensor per guardable value, else -1
  ExponentSlots slots;                 // of integer formats
  int64_t bytes = 0;
  int lazy_shift = 15;

  // Whether values have exponents; else they are real numbers.
  bool has_exponents() const { return guards >= 0; }
  // Bytes of weights, accumulators and optimiser state, with their exponents.
  int64_t weight_state_bytes() const;
};

// How many exponents of gradients there are.
int64_t gradient_slots(const Graph& graph);

// Whether the value may get per-channel exponents: the wide result of its producer goes to a batch
// norm and nowhere else.
bool is_guardable(const Graph& graph, const std::vector<std::vector<int>>& readers, int value);

// How many exponents are decided or predicted: with ge=exact none.
int64_t predictor_slots(const Graph& graph, const Format& format);

// State of a network in training.
StateLayout training_layout(const Graph& graph, const Format& format, OptimizerKind kind);

// State of a frozen network: mantissas and fixed exponents only.
StateLayout frozen_layout(const Graph& graph, const Format& format);

}  // namespace mantissa
