// The real number of a row that is brought to mean 0 and deviation 1
// (reference/layers/row_norms.h).
#pragma once

#include "reference/layers/row_norms.h"
#include "scalars/real.h"

REF_BEGIN

// The norm of a row of C mantissas with these sums: factor * 2^-shift is 1 / sqrt(V + epsilon), by
// the arithmetic of real numbers and to nearest even, with V = C squares - sum^2 < 2^55; RMS norm
// is not centred and has no sum. `epsilon` is in units of V: the norm's, times C^2 and, for
// mantissas of 2^e, times 2^(-2e).
RefRowNorm ref_row_norm(RefRowSums sums, int64_t channels, bool centred,
                        RefReal epsilon) REF_NOEXCEPT;

REF_END
