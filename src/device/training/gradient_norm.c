#include "device/training/gradient_norm.h"

#include "device/training/update_parts.h"

// To 53 bits: of the bits that do not fit the number that is rounded, one stands for all.
static RefReal real_of(RefSquareSum sum) {
  enum { kBits = 62 };
  const uint64_t high = sum.high + (sum.low >> 32), low = sum.low & UINT32_MAX;
  const int length = ref_bit_length(high), taken = length < 30 ? 32 : kBits - length;
  const uint64_t rest = low & ((UINT64_C(1) << (32 - taken)) - 1);
  const uint64_t size = high << taken | low >> (32 - taken) | (rest != 0 ? 1 : 0);
  return ref_real_scaled(ref_real((int64_t)size), 32 - taken);
}

void dev_add_squares(DevStep* step, const DevParameter* p, RefReal* squares) {
  RefUpdate update = dev_update_of(step, p);
  const DevGradient gradient = dev_measure(step, p, &update);
  if (!gradient.is_usable) return;
  const RefSquareSum sum = ref_sum_of_squares(&update.gradient, update.gradient_shift, 0, p->count);
  *squares = ref_real_sum(*squares, ref_real_scaled(real_of(sum), 2 * gradient.exponent));
}

void dev_clip_gradients(DevStep* step, RefReal squares, uint64_t most) {
  const RefReal smallest = ref_real_of_bits(UINT64_C(0x3eb0c6f7a0b5ed8d));  // 1e-6
  const RefReal scale = step->scalars.gradient_scale, one = ref_real(1);
  const RefReal norm = ref_real_product(ref_real_root(squares), scale);
  const RefReal factor = ref_real_quotient(ref_real_of_bits(most), ref_real_sum(norm, smallest));
  const bool clips = ref_real_difference(one, factor).mantissa > 0;
  if (clips) step->scalars.gradient_scale = ref_real_product(scale, factor);
}
