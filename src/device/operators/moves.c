#include "device/operators/moves.h"

// The element of the image inside at an element of the padded one, or -1.
static int32_t inside_at(const DevPadding* p, int32_t i, int32_t channels) {
  const int32_t pixel = i / channels, x = pixel % p->out_width - p->left;
  const int32_t row = pixel / p->out_width, y = row % p->out_height - p->top;
  if (x < 0 || x >= p->in_width || y < 0 || y >= p->in_height) return -1;
  return ((row / p->out_height * p->in_height + y) * p->in_width + x) * channels + i % channels;
}

void dev_train_pad(const DevPadding* p, const DevTensor* in, const DevTensor* out) {
  RefStatistics unused = {0, 0};
  for (int32_t i = 0; i < out->count; ++i) {
    const int32_t at = inside_at(p, i, out->channels);
    dev_put(out, i, at < 0 ? 0 : dev_at(in, at), 0, &unused);
  }
  *out->exponent = *in->exponent;
}

void dev_train_pad_gradient(const DevPadding* p, const DevTensor* grad_out,
                            const DevTensor* grad_in) {
  RefStatistics unused = {0, 0};
  for (int32_t i = 0; i < grad_out->count; ++i) {
    const int32_t at = inside_at(p, i, grad_out->channels);
    if (at >= 0) dev_put(grad_in, at, dev_at(grad_out, i), 0, &unused);
  }
  *grad_in->exponent = *grad_out->exponent;
}

void dev_train_largest(const int16_t* exponents, const int16_t* which, int32_t count,
                       const DevTensor* whole) {
  int16_t largest = exponents[which[0]];
  for (int32_t i = 1; i < count; ++i) {
    if (exponents[which[i]] > largest) largest = exponents[which[i]];
  }
  *whole->exponent = largest;
}

// The place of element i of a part in the whole.
static int32_t in_whole(const DevTensor* part, int32_t i, const DevTensor* whole, int32_t first) {
  return i / part->channels * whole->channels + first + i % part->channels;
}

void dev_train_part(const DevTensor* part, const DevTensor* whole, int32_t first) {
  RefStatistics unused = {0, 0};
  const int shift = *whole->exponent - *part->exponent;
  for (int32_t i = 0; i < part->count; ++i) {
    dev_put(whole, in_whole(part, i, whole, first), dev_at(part, i), shift, &unused);
  }
}

void dev_train_slice(const DevTensor* whole, int32_t first, const DevTensor* part) {
  RefStatistics unused = {0, 0};
  for (int32_t i = 0; i < part->count; ++i) {
    dev_put(part, i, dev_at(whole, in_whole(part, i, whole, first)), 0, &unused);
  }
  *part->exponent = *whole->exponent;
}
