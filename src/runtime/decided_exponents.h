// Dynamic fixed point while a program runs: the counts of each tensor in a step, and the exponents
// that are decided from them. Source: DynamicFixed, claims 1-2; METHODS section 2.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "numerics/bit_statistics.h"
#include "numerics/exponent.h"
#include "numerics/format.h"
#include "plan/programs/exponent_table.h"
#include "runtime/state.h"

namespace mantissa {

// r_max, in millionths. In a row of a loss's gradient one element is large: the label's. As many of
// these may be clipped as of another tensor's elements
// (docs/decisions/0104-labels-are-not-clipped.md).
int clipped_ppm(const Exponent& exponent, const Graph& graph, const Format& format);

// How a slot's exponent is decided: the rule, the bits of its mantissas, and the largest exponent
// that they need.
struct Decision {
  DecisionRule rule;
  int bits = 8;
  int exponent_limit = kExponentMax;
};

// By predictor slot (predictor_slots); all empty for other families of formats. Micro-batches add
// up: their order changes nothing.
struct DecidedExponents {
  std::vector<NeededExponents> needed;  // of a step of the warm-up
  std::vector<BitStatistics> written;   // of another step
  std::vector<Decision> decisions;

  DecidedExponents() = default;
  DecidedExponents(int64_t slots, const Format& format, int64_t micro_batches);
  static int64_t predict_bytes(int64_t slots, const Format& format);

  // `steps`: how many steps were done before.
  void start_step(const Format& format, int64_t steps);
  // Adds the counts of another executor of the same step.
  DecidedExponents& operator+=(const DecidedExponents& other);
  // At the end of a step, after `steps` steps: decides the exponents of the next step, for these
  // slots.
  void commit(const Format& format, int64_t steps, std::span<const int> slots, State& state) const;
};

}  // namespace mantissa
