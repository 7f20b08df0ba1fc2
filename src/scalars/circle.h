// Points of the unit circle in Q30: for positions of sequences.
#pragma once

#include "reference/types.h"

typedef struct RefCirclePoint {
  int32_t cosine, sine;
} RefCirclePoint;

REF_BEGIN

// Cosine and sine of an angle in units of 2^-64 of a turn, in Q30. Errors below 2^-29. The integer
// wraps as angles do: multiples of an angle need no reduction.
RefCirclePoint ref_circle_q30(uint64_t angle) REF_NOEXCEPT;

REF_END
