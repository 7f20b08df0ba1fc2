#include "reference/elements/blocks.h"

#include "reference/numerics/numerics.h"

enum { kMost = 127 };  // of a mantissa

// The steps of 32 weights of 4 bits; `first` is the one of 0.
static void steps_of_4(const uint8_t* q, int first, int8_t* steps) {
  for (int i = 0; i < REF_PART_WEIGHTS / 2; ++i) {
    steps[i] = (int8_t)((q[i] & 15) + first);
    steps[i + REF_PART_WEIGHTS / 2] = (int8_t)((q[i] >> 4) + first);
  }
}

// Weight 8 k + j has its third bit in byte j % 4, bit 2 k + j / 4.
static void steps_of_3(const uint8_t* q, int8_t* steps) {
  for (int k = 0; k < 4; ++k) {
    for (int j = 0; j < 8; ++j) {
      const int third = q[8 + j % 4] >> (2 * k + j / 4) & 1;
      steps[8 * k + j] = (int8_t)((q[j] >> 2 * k & 3) + 4 * third - 4);
    }
  }
}

void ref_block_steps(const uint8_t* block, RefBlockKind kind, int8_t* steps) {
  const uint8_t* q = block + ref_scale_bytes(kind);
  for (int64_t p = 0; p < ref_block_parts(kind); ++p) {
    if (ref_block_bits(kind) == 4) steps_of_4(q, kind == REF_Q4_1 ? 0 : -8, steps);
    if (ref_block_bits(kind) == 3) steps_of_3(q, steps);
    for (int i = 0; i < REF_PART_WEIGHTS && kind == REF_Q8_0; ++i) steps[i] = (int8_t)q[i];
    q += ref_part_bytes(kind);
    steps += REF_PART_WEIGHTS;
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
