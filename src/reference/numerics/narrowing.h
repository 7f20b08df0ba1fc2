// Wide results become a block of mantissas: the exponent rules (exponents.h, decisions.h) around
// passes that compute, measure and write. METHODS sections 0.7, 1 and 2.
#pragma once

#include "reference/numerics/exponents.h"

// A block that is to be written. pass(work, shift) computes the wide values, writes them narrowed
// by a right shift (left if it is negative) and returns their statistics; it may run twice.
typedef struct RefNarrowing {
  RefStatistics (*pass)(void* work, int shift);
  void* work;
  int wide_exponent;
  int bits;   // of the mantissas
  int limit;  // the largest exponent that the block may have; REF_EXPONENT_MAX: any
  int most;   // the largest shift of a pass
} RefNarrowing;

typedef struct RefNarrowed {
  int exponent;              // of the block
  int measured;              // the exact exponent of its values
  bool ran_again;            // since the first shift did not fit
  RefStatistics statistics;  // of the pass that counts
} RefNarrowed;

REF_BEGIN

// The exponent of the block's own maximum, which is known.
RefNarrowed ref_narrow_exactly(const RefNarrowing*, uint64_t maximum) REF_NOEXCEPT;
// The same without the maximum: the first shift follows from a guess, such as the exponent of the
// block in the step before. A wrong guess costs a pass but changes no bit.
RefNarrowed ref_narrow_by_guess(const RefNarrowing*, int guess) REF_NOEXCEPT;
// Gradients: the exponent measured in the step before plus one bit of headroom, unless the block
// has outgrown that. `predicted` may be REF_UNMEASURED.
RefNarrowed ref_narrow_with_headroom(const RefNarrowing*, int predicted) REF_NOEXCEPT;
// The exponent that was decided, but nothing finer than the wide values.
RefNarrowed ref_narrow_as_decided(const RefNarrowing*, int decided) REF_NOEXCEPT;
// An exponent that is given, finer or not.
RefNarrowed ref_narrow_to(const RefNarrowing*, int exponent) REF_NOEXCEPT;

REF_END
