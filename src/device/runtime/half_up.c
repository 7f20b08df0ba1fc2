#include "device/runtime/half_up.h"

#include "reference/numerics/numerics.h"

// |a * 2^40 + b * 2^40| is below 2^48.
void dev_add_half_up(const DevAddHalfUp* args) {
  for (int32_t i = 0; i < args->count; ++i) {
    const int64_t sum =
        args->a[i] * ((int64_t)1 << args->left_a) + args->b[i] * ((int64_t)1 << args->left_b);
    args->out[i] =
        (int8_t)ref_clamp(ref_shift_right_rhu(sum, args->shift), args->least, args->most);
  }
}

void dev_widen(const int8_t* in, int32_t* out, int32_t count) {
  for (int32_t i = 0; i < count; ++i) out[i] = in[i];
}
