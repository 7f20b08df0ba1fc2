// Dynamic fixed point while a program runs: which exponents are in use, what was counted with them,
// and what is decided from it. Source: DynamicFixed, claims 1-2; METHODS section 2.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "numerics/bit_statistics.h"
#include "numerics/exponent.h"
#include "numerics/format.h"
#include "runtime/state.h"
#include "tensor/tensor.h"

namespace mantissa {

// Of what a slot is of: bits of mantissas, and the largest exponent that it needs.
struct DecidedWidth {
  int bits = 8;
  int exponent_limit = kExponentMax;
};

// By predictor slot (predictor_slots); all empty for other families of formats.
struct DecidedExponents {
  std::vector<int16_t> in_use;         // in this micro-batch
  std::vector<int16_t> measured;       // warm-up: the largest that followed so far in this step
  std::vector<BitStatistics> written;  // of each tensor as it was written last
  std::vector<BitStatistics> step;     // of all micro-batches before this one

  explicit DecidedExponents(size_t slots = 0)
      : in_use(slots), measured(slots), written(slots), step(slots) {}

  void start_step();
  // Takes the state's exponents: what the warm-up changes holds for one micro-batch.
  void start_micro_batch(const State& state);
  void end_micro_batch();

  // The warm-up's repetition of the instructions that have written `tensors`: if measure() says so
  // of any they are run again, and then if decide() says so. The first puts exponents in use that
  // clip nothing, so that what is measured does not depend on those that were. The second decides:
  // a tensor whose exponent differs from the state's by more than the threshold gets it at once.
  bool measure(std::span<const Tensor> tensors);
  bool decide(std::span<const Tensor> tensors, const Format& format, const State& state);

  // At the end of a step, `steps` being done with it: decides the exponents of the next.
  void commit(const Format& format, int64_t steps, std::span<const DecidedWidth> widths,
              State& state) const;
};

}  // namespace mantissa
