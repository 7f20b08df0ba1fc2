// Recurrent layers in integers (ops/sequences/recurrent.cpp): rnn, lstm and gru, one step of one
// sequence forward and back, and the products with the recurrent weights. Fixed points and the
// definition of a step: reference/layers/recurrent.h.
//
// All functions work on the calling thread.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/system/cpu.h"
#include "kernels/common/mantissa_span.h"
#include "numerics/rounding.h"
#include "reference/layers/recurrent.h"

namespace mantissa::kernels {

// The right matrix of a product has columns up to a multiple of this; those that are added are 0.
constexpr int64_t kProductColumns = 16;

constexpr int64_t padded_columns(int64_t columns) {
  return (columns + kProductColumns - 1) / kProductColumns * kProductColumns;
}

// What a call takes (reference/layers/recurrent.h).
using PairProducts = RefPairProducts;
using Peepholes = RefPeepholes;
using CellStep = RefCellStep;
using CellGradient = RefCellGradient;

// The block for mantissas with these bits, without the sign.
constexpr int64_t block_of(int a_bits, int b_bits) {
  return int64_t{1} << std::max(0, 30 - a_bits - b_bits);
}

// The right shifts, of numbers of this many bits without the sign, that the loops of instruction
// sets take: no sum of four leaves 2^60. The reference takes all shifts.
constexpr bool is_plain_shift(int shift, int bits) { return shift >= bits - 58 && shift <= 61; }
constexpr int kInputBits = 31, kSumBits = 44, kPeepholeBits = 30, kPeepholeGradientBits = 44;

// The layers, with the gates that have sums, and the numbers of a record, for each channel.
struct RnnCell {
  static constexpr int kGates = 1, kRecord = 0;
};
struct LstmCell {
  static constexpr int kGates = 4, kRecord = 5;  // i, f, g, o; these and the cell
};
struct GruCell {
  static constexpr int kGates = 3, kRecord = 4;  // r, z, n; these and the candidate's s
};

struct CellKernels {
  // Returns how many cells were clipped.
  int64_t (*forward)(const CellStep&) noexcept;
  void (*backward)(const CellGradient&) noexcept;
};

// Gradients that are multiplied, without the sign.
constexpr int kShortGradientBits = REF_SHORT_GRADIENT_BITS;

// Gradients lie within 2^29, so that no sum of two leaves int32.
constexpr int64_t kGradientLimit = int64_t{1} << 29;

struct RecurrentKernels {
  const char* name;
  Features needs;
  void (*products)(const PairProducts&) noexcept;
  CellKernels rnn, lstm, gru;
  // gradients[j] = the gradient of the output, shifted right, + carry[j], clipped.
  void (*add_output_gradient)(ConstMantissaSpan, int shift, const int32_t* carry, int64_t count,
                              int32_t* gradients) noexcept;
  // carry[j] += sums[j] shifted right, clipped; |sums| < 2^61.
  void (*add_carry)(const int64_t* sums, int shift, int64_t count, int32_t* carry) noexcept;
  // Rounds gradients, each shifted right by its own shift (0 to 31), to kShortGradientBits.
  // Returns the shift that did it.
  int (*shorten)(const int32_t* gradients, const int32_t* shifts, int64_t count,
                 int16_t* to) noexcept;
  // Two rows as pairs of a product, rounded to `bits` besides the sign; odd may be null: zeros.
  void (*pair_gradients)(const int32_t* even, const int32_t* odd, int64_t count, int shift,
                         int bits, int16_t* to) noexcept;
  void (*pair_states)(const int16_t* even, const int16_t* odd, int64_t count, int shift, int bits,
                      int16_t* to) noexcept;
  uint64_t (*largest_gradient)(const int32_t* gradients, int64_t count) noexcept;
  uint64_t (*largest_state)(const int16_t* states, int64_t count) noexcept;
};

extern const RecurrentKernels kRecurrentReference;
#if defined(__x86_64__)
extern const RecurrentKernels kRecurrentAvx2;
extern const RecurrentKernels kRecurrentAvx512Vnni;
#endif

}  // namespace mantissa::kernels
