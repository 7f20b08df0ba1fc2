// Weights in blocks of 32 along a row, small whole numbers with a scale, as GGUF files have them.
// Bytes of a block, with d and m as float16, all little-endian:
//
//   Q4_0, 18: d, 16 bytes of two weights each; a weight is (q - 8) d
//   Q4_1, 20: d, m, 16 bytes of two weights each; q d + m
//   Q8_0, 34: d, 32 int8; q d
//
// The low four bits of the 16 bytes are weights 0 to 15, the high ones weights 16 to 31. All
// weights are whole numbers in units of 2^-24, below 2^48.
#pragma once

#include "reference/types.h"

typedef enum RefBlockKind { REF_NO_BLOCKS, REF_Q4_0, REF_Q4_1, REF_Q8_0 } RefBlockKind;

#define REF_BLOCK_WEIGHTS 32
#define REF_BLOCK_UNIT (-24)  // the exponent of the unit of weights

REF_INLINE int64_t ref_block_bytes(RefBlockKind kind) {
  return kind == REF_Q4_0 ? 18 : kind == REF_Q4_1 ? 20 : 34;
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
  int8_t* out REF_CXX(= nullptr);               // [rows][32 count]
} RefExpandBlocks;

REF_BEGIN

// The weights of a block, exactly.
void ref_block_weights(const uint8_t* block, RefBlockKind kind, int64_t* weights) REF_NOEXCEPT;

// The largest magnitude of a row's weights.
uint64_t ref_largest_of_blocks(const uint8_t* row, RefBlockKind kind, int64_t count) REF_NOEXCEPT;

// out = saturate(rne(weight * 2^-exponent of its row), 127), each row for itself. Precondition: the
// exponent is at least the row's own, so that no weight reaches 128.5 units.
void ref_expand_blocks(const RefExpandBlocks*, int64_t begin_row, int64_t end_row) REF_NOEXCEPT;

REF_END
