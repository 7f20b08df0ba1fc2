#include "device/runtime/products.h"

#include "reference/numerics/numerics.h"

void dev_multiply(const DevMultiply* m) {
  for (int32_t i = 0; i < m->count; ++i) {
    const int32_t at = m->period == 0 ? i : i / m->image * m->period + i % m->period;
    m->out[i] = (int8_t)ref_saturate(ref_rescale_rne(m->a[i] * m->b[at], m->shift), m->limit);
  }
}

void dev_scale_offset(const DevScaleOffset* s) {
  for (int32_t i = 0; i < s->count; ++i) {
    const int32_t c = i % s->channels;
    const int64_t wide = (int64_t)s->in[i] * s->multipliers[c] + s->offsets[c];
    const int64_t narrow = ref_rescale_rne(s->relu && wide < 0 ? 0 : wide, s->shift);
    s->out[i] = (int8_t)ref_saturate(narrow, s->limit);
  }
}
