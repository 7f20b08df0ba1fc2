#include "reference/elements/blocks.h"

#include "reference/numerics/numerics.h"

enum { kMost = 127 };  // of a mantissa

// The bits of weight i of 32.
static int bits_of_weight(const uint8_t* part, int bits, int i) {
  if (bits == 4) return i < 16 ? part[i] & 15 : part[i - 16] >> 4;
  const int low = part[i % 8] >> 2 * (i / 8) & 3;
  return low | (part[8 + i % 4] >> i / 4 & 1) << 2;
}

void ref_block_steps(const uint8_t* block, RefBlockKind kind, int8_t* steps) {
  const int bits = ref_block_bits(kind);
  const int first = kind == REF_Q4_1 ? 0 : bits == 3 ? -4 : -8;
  for (int64_t p = 0; p < ref_block_parts(kind); ++p) {
    const uint8_t* part = block + ref_scale_bytes(kind) + p * ref_part_bytes(kind);
    for (int i = 0; i < REF_PART_WEIGHTS; ++i) {
      steps[p * REF_PART_WEIGHTS + i] =
          kind == REF_Q8_0 ? (int8_t)part[i] : (int8_t)(bits_of_weight(part, bits, i) + first);
    }
  }
}

void ref_block_weights(const uint8_t* block, RefBlockKind kind, int64_t* weights) {
  const int64_t scale = ref_half_in_units(block);
  const int64_t least = kind == REF_Q4_1 ? ref_half_in_units(block + 2) : 0;
  int8_t steps[REF_BLOCK_WEIGHTS];
  ref_block_steps(block, kind, steps);
  for (int64_t i = 0; i < ref_weights_of_block(kind); ++i) weights[i] = steps[i] * scale + least;
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
  const int64_t own = ref_weights_of_block(args->kind);
  for (int64_t row = begin_row; row < end_row; ++row) {
    const int shift = args->exponents[row] - REF_BLOCK_UNIT;
    for (int64_t b = 0; b < args->count; ++b) {
      int64_t weights[REF_BLOCK_WEIGHTS];
      ref_block_weights(args->blocks + row * args->row_bytes + b * ref_block_bytes(args->kind),
                        args->kind, weights);
      int8_t* out = args->out + (row * args->count + b) * own;
      for (int64_t i = 0; i < own; ++i) {
        out[i] = (int8_t)ref_saturate(ref_rescale_rne(weights[i], shift), kMost);
      }
    }
  }
}
