#include "device/runtime/half_up.h"

#include "reference/numerics/numerics.h"

// The sum and half a unit fit 32 bits.
static void add_small(DevAddHalfUp args) {
  const int32_t half = args.shift == 0 ? 0 : 1 << (args.shift - 1);
  for (int32_t i = 0; i < args.count; ++i) {
    const int32_t sum = args.a[i] * (1 << args.left_a) + args.b[i] * (1 << args.left_b);
    const int32_t rounded = (sum + half) >> args.shift;
    args.out[i] = (int8_t)(rounded < args.least  ? args.least
                           : rounded > args.most ? args.most
                                                 : rounded);
  }
}

// |a * 2^40 + b * 2^40| is below 2^48.
void dev_add_half_up(const DevAddHalfUp* args) {
  if (args->left_a <= 20 && args->left_b <= 20 && args->shift <= 30) {
    add_small(*args);
    return;
  }
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
