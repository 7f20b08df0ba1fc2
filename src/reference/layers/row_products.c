#include "reference/layers/row_products.h"

#include "reference/elements/elements.h"

REF_LOOP void row_products(int bytes, const RefRowProducts* p, int64_t begin, int64_t end) {
  for (int64_t r = 0; r < p->rows; ++r) {
    for (int64_t o = begin; o < end; ++o) {
      int64_t sum = 0;
      for (int64_t c = 0; c < p->depth; ++c) {
        sum += ref_load(p->input.data, bytes, r * p->depth + c) * p->weights[o * p->depth + c];
      }
      if (bytes == 1) {
        ((int32_t*)p->sums)[r * p->channels + o] = (int32_t)sum;
      } else {
        ((int64_t*)p->sums)[r * p->channels + o] = sum;
      }
    }
  }
}

void ref_row_products(const RefRowProducts* p, int64_t begin, int64_t end) {
  REF_WITH_SHORT_BYTES(p->input.bits, bytes, row_products(bytes, p, begin, end));
}
