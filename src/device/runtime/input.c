#include "device/runtime/input.h"

#include "reference/numerics/numerics.h"

static int8_t narrowed(int32_t wide, int shift, int limit) {
  return (int8_t)ref_saturate(ref_rescale_rne(wide, shift), limit);
}

void dev_pixels(const DevPixels* p) {
  for (int32_t i = 0; i < p->count; ++i) {
    for (int32_t c = 0; c < p->channels; ++c) {
      const int32_t at = i * p->channels + c;
      const int32_t wide = p->pixels[at] * (1 << p->fraction) - p->means[c];
      p->out[at] = narrowed(p->half_up ? 2 * wide + 1 : wide, p->shift, p->limit);
    }
  }
}

void dev_numbers(const DevNumbers* n) {
  for (int32_t i = 0; i < n->count; ++i) n->out[i] = narrowed(n->numbers[i], n->shift, n->limit);
}
