#include "device/runtime/shapes.h"

#include "reference/elements/elements.h"

void dev_part(const DevPart* p) {
  for (int32_t row = 0; row < p->rows; ++row) {
    for (int32_t c = 0; c < p->channels; ++c) {
      p->to[row * p->out_channels + c] =
          (int8_t)ref_rescale_rne(p->from[row * p->channels + c], p->shift);
    }
  }
}

static int8_t* zeros(int8_t* to, int32_t count) {
  for (int32_t i = 0; i < count; ++i) to[i] = 0;
  return to + count;
}

void dev_pad(const DevPad* p) {
  const int32_t row = p->width * p->channels;
  const int32_t padded = (p->left + p->width + p->right) * p->channels;
  const int8_t* from = p->from;
  int8_t* to = p->to;
  for (int32_t n = 0; n < p->batch; ++n) {
    to = zeros(to, p->top * padded);
    for (int32_t y = 0; y < p->height; ++y, from += row) {
      to = zeros(to, p->left * p->channels);
      ref_copy(to, from, row);
      to = zeros(to + row, p->right * p->channels);
    }
    to = zeros(to, p->bottom * padded);
  }
}
