// Dynamic fixed point while a program runs: what a step counts of each tensor, and the exponents
// that are decided from it. Source: DynamicFixed, claims 1-2; METHODS section 2.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "numerics/bit_statistics.h"
#include "numerics/exponent.h"
#include "numerics/format.h"
#include "runtime/state.h"

namespace mantissa {

// Bits of the mantissas that a slot belongs to, and the largest exponent that they need.
struct DecidedWidth {
  int bits = 8;
  int exponent_limit = kExponentMax;
};

// By predictor slot (predictor_slots); all empty for other families of formats. Micro-batches add
// up: their order changes nothing.
struct DecidedExponents {
  DecisionRule rule;
  std::vector<NeededExponents> needed;  // of a step of the warm-up
  std::vector<BitStatistics> written;   // of another step
  std::vector<DecidedWidth> widths;

  DecidedExponents() = default;
  DecidedExponents(int64_t slots, const Format& format, int64_t micro_batches);
  static int64_t predict_bytes(int64_t slots, const Format& format);

  // `steps` being done before.
  void start_step(const Format& format, int64_t steps);
  // Adds the counts of another executor of the same step.
  DecidedExponents& operator+=(const DecidedExponents& other);
  // At the end of a step, `steps` being done with it: decides the exponents of the next, of these
  // slots.
  void commit(const Format& format, int64_t steps, std::span<const int> slots, State& state) const;
};

}  // namespace mantissa
