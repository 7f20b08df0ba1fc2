// Weights in blocks along a row, small whole numbers with a scale: 32 in a block as GGUF files have
// them, and Mantissa's own groups of 32, 64 or 128. Bytes of a block, with d and m as float16, all
// little-endian:
//
//   Q4_0, 18: d, 16 bytes of two weights each; a weight is (q - 8) d
//   Q4_1, 20: d, m, 16 bytes of two weights each; q d + m
//   Q8_0, 34: d, 32 int8; q d
//   W4G64, 34, W4G128, 66: d, and for each 32 weights 16 bytes as in Q4_0; (q - 8) d
//   W3G32, 14, W3G64, 26, W3G128, 50: d, and for each 32 weights 12 bytes; (q - 4) d
//
// The low four bits of 16 bytes are weights 0 to 15, the high ones weights 16 to 31. Of 12 bytes
// the first eight have the low two bits: bits 2k and 2k + 1 of byte j belong to weight 8 k + j. The
// last four have the third: bit k of byte j belongs to weight 4 k + j. All weights are whole numbers
// in units of 2^-24, below 2^48.
#pragma once

#include "reference/types.h"

typedef enum RefBlockKind {
  REF_NO_BLOCKS,
  REF_Q4_0,
  REF_Q4_1,
  REF_Q8_0,
  REF_W4G64,
  REF_W4G128,
  REF_W3G32,
  REF_W3G64,
  REF_W3G128
} RefBlockKind;

#define REF_PART_WEIGHTS 32    // that are packed together
#define REF_BLOCK_WEIGHTS 128  // of a block, at most
#define REF_BLOCK_UNIT (-24)   // the exponent of the unit of weights

REF_INLINE int ref_block_bits(RefBlockKind kind) {
  return kind == REF_Q8_0 ? 8 : kind >= REF_W3G32 ? 3 : 4;
}

REF_INLINE int64_t ref_block_parts(RefBlockKind kind) {
  const int64_t two = kind == REF_W4G64 || kind == REF_W3G64;
  return two ? 2 : kind == REF_W4G128 || kind == REF_W3G128 ? 4 : 1;
}

REF_INLINE int64_t ref_weights_of_block(RefBlockKind kind) {
  return REF_PART_WEIGHTS * ref_block_parts(kind);
}

// Bytes of the scale, with the least number, and of 32 weights.
REF_INLINE int64_t ref_scale_bytes(RefBlockKind kind) { return kind == REF_Q4_1 ? 4 : 2; }
REF_INLINE int64_t ref_part_bytes(RefBlockKind kind) {
  return REF_PART_WEIGHTS / 8 * ref_block_bits(kind);
}

REF_INLINE int64_t ref_block_bytes(RefBlockKind kind) {
  return ref_scale_bytes(kind) + ref_block_parts(kind) * ref_part_bytes(kind);
}

// A float16 in units of 2^-24. Infinities and what is no number count as if they were numbers.
REF_INLINE int64_t ref_half_in_units(const uint8_t* bytes) {
  const int bits = bytes[0] | bytes[1] << 8;
  const int exponent = bits >> 10 & 31;
  const int64_t fraction = bits & 1023;
  const int64_t size =
      exponent == 0 ? fraction : (1024 + fraction) * ((int64_t)1 << (exponent - 1));
  return bits >> 15 != 0 ? -size : size;
}

// Blocks of rows to mantissas of 8 bits, `count` blocks of each row.
typedef struct RefExpandBlocks {
  const uint8_t* blocks REF_CXX(= nullptr);  // of the first row
  int64_t row_bytes REF_CXX(= 0);            // from a row to the next
  RefBlockKind kind REF_CXX(= REF_NO_BLOCKS);
  int64_t count REF_CXX(= 0);
  const int16_t* exponents REF_CXX(= nullptr);  // of the rows
  int8_t* out REF_CXX(= nullptr);               // [rows][weights of `count` blocks]
} RefExpandBlocks;

REF_BEGIN

// The whole numbers of a block that the scale multiplies: of Q4_1 q, else the factor of d.
void ref_block_steps(const uint8_t* block, RefBlockKind kind, int8_t* steps) REF_NOEXCEPT;

// The weights of a block, exactly.
void ref_block_weights(const uint8_t* block, RefBlockKind kind, int64_t* weights) REF_NOEXCEPT;

// The largest magnitude of a row's weights.
uint64_t ref_largest_of_blocks(const uint8_t* row, RefBlockKind kind, int64_t count) REF_NOEXCEPT;

// out = saturate(rne(weight * 2^-exponent of its row), 127), each row for itself. Precondition: the
// exponent is at least the row's own, so that no weight reaches 128.5 units.
void ref_expand_blocks(const RefExpandBlocks*, int64_t begin_row, int64_t end_row) REF_NOEXCEPT;

REF_END
