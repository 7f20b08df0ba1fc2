#include "scalars/row_norm.h"

#include "reference/numerics/numerics.h"

RefRowNorm ref_row_norm(RefRowSums sums, int64_t channels, bool centred, RefReal epsilon) {
  const int64_t sum = centred ? sums.sum : 0;
  const RefReal spread = ref_real_sum(ref_real(channels * sums.squares - sum * sum), epsilon);
  const RefReal factor = ref_real_quotient(ref_real(1), ref_real_root(spread));
  const int shift = ref_fixed_point_shift(factor, REF_NORM_FACTOR_BITS);
  const int64_t limit = ref_mantissa_limit(REF_NORM_FACTOR_BITS + 1);
  const RefRowNorm norm = {sum, (int32_t)ref_fixed_point(factor, shift, limit), shift};
  return norm;
}
