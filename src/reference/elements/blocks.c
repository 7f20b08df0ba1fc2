#include "reference/elements/blocks.h"

#include "reference/numerics/numerics.h"

enum { kMost = 127 };  // of a mantissa

// Of weight i, before the scale.
static int step_of(const uint8_t* block, RefBlockKind kind, int64_t i) {
  const int bits = ref_block_bits(kind), k = (int)(i % REF_PART_WEIGHTS);
  const uint8_t* q = block + ref_scale_bytes(kind) + i / REF_PART_WEIGHTS * ref_part_bytes(kind);
  if (bits == 8) return (int8_t)q[k];
  if (bits == 4) return (k < 16 ? q[k] & 15 : q[k - 16] >> 4) - (kind == REF_Q4_1 ? 0 : 8);
  return ((q[k % 8] >> 2 * (k / 8) & 3) | (q[8 + k % 4] >> k / 4 & 1) << 2) - 4;
}

void ref_block_steps(const uint8_t* block, RefBlockKind kind, int8_t* steps) {
  for (int64_t i = 0; i < ref_weights_of_block(kind); ++i) {
    steps[i] = (int8_t)step_of(block, kind, i);
  }
}

void ref_block_weights(const uint8_t* block, RefBlockKind kind, int64_t* weights) {
  const int64_t scale = ref_half_in_units(block);
  const int64_t least = kind == REF_Q4_1 ? ref_half_in_units(block + 2) : 0;
  for (int64_t i = 0; i < ref_weights_of_block(kind); ++i) {
    weights[i] = step_of(block, kind, i) * scale + least;
  }
}

uint64_t ref_largest_of_blocks(const uint8_t* row, RefBlockKind kind, int64_t count) {
  uint64_t largest = 0;
  for (int64_t b = 0; b < count; ++b) {
    int64_t weights[REF_BLOCK_WEIGHTS];
    ref_block_weights(row + b * ref_block_bytes(kind), kind, weights);
    for (int64_t i = 0; i < ref_weights_of_block(kind); ++i) {
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
      const int64_t own = ref_weights_of_block(args->kind);
      int8_t* out = args->out + (row * args->count + b) * own;
      for (int64_t i = 0; i < own; ++i) {
        out[i] = (int8_t)ref_saturate(ref_rescale_rne(weights[i], shift), kMost);
      }
    }
  }
}
