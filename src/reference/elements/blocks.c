#include "reference/elements/blocks.h"

#include "reference/numerics/numerics.h"

enum { kMost = 127 };  // of a mantissa

void ref_block_weights(const uint8_t* block, RefBlockKind kind, int64_t* weights) {
  const int64_t scale = ref_half_in_units(block);
  if (kind == REF_Q8_0) {
    const int8_t* q = (const int8_t*)(block + 2);
    for (int i = 0; i < REF_BLOCK_WEIGHTS; ++i) weights[i] = q[i] * scale;
    return;
  }
  const uint8_t* q = block + (kind == REF_Q4_1 ? 4 : 2);
  const int64_t least = kind == REF_Q4_1 ? ref_half_in_units(block + 2) : -8 * scale;
  for (int i = 0; i < REF_BLOCK_WEIGHTS / 2; ++i) {
    weights[i] = (q[i] & 15) * scale + least;
    weights[i + REF_BLOCK_WEIGHTS / 2] = (q[i] >> 4) * scale + least;
  }
}

uint64_t ref_largest_of_blocks(const uint8_t* row, RefBlockKind kind, int64_t count) {
  uint64_t largest = 0;
  for (int64_t b = 0; b < count; ++b) {
    int64_t weights[REF_BLOCK_WEIGHTS];
    ref_block_weights(row + b * ref_block_bytes(kind), kind, weights);
    for (int i = 0; i < REF_BLOCK_WEIGHTS; ++i) {
      const uint64_t size = ref_magnitude(weights[i]);
      largest = size > largest ? size : largest;
    }
  }
  return largest;
}

void ref_expand_blocks(const RefExpandBlocks* args, int64_t begin_row, int64_t end_row) {
  for (int64_t row = begin_row; row < end_row; ++row) {
    const int shift = args->exponents[row] - REF_BLOCK_UNIT;
    for (int64_t b = 0; b < args->count; ++b) {
      int64_t weights[REF_BLOCK_WEIGHTS];
      ref_block_weights(args->blocks + row * args->row_bytes + b * ref_block_bytes(args->kind),
                        args->kind, weights);
      int8_t* out = args->out + (row * args->count + b) * REF_BLOCK_WEIGHTS;
      for (int i = 0; i < REF_BLOCK_WEIGHTS; ++i) {
        out[i] = (int8_t)ref_saturate(ref_rescale_rne(weights[i], shift), kMost);
      }
    }
  }
}
