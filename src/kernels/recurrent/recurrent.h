// Recurrent layers in integers (ops/sequences/recurrent.cpp): rnn, lstm and gru, one step of one
// sequence forward and back, and the products with the recurrent weights. Fixed points and the
// definition of a step: recurrent_cells.h.
//
// All functions work on the calling thread.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/system/cpu.h"
#include "kernels/common/mantissa_span.h"
#include "numerics/rounding.h"

namespace mantissa::kernels {

// The right matrix of a product has columns up to a multiple of this; those that are added are 0.
constexpr int64_t kProductColumns = 16;

constexpr int64_t padded_columns(int64_t columns) {
  return (columns + kProductColumns - 1) / kProductColumns * kProductColumns;
}

// sums[r, c] = the sum over k < depth of a[r, k] * b[k, c], exact. The terms lie in pairs: terms 2p
// and 2p + 1 at a + r * a_row + p * a_pair and at b + (p * columns + c) * 2. For an odd depth the
// last pair of `a` has one term, and only that is read.
struct PairProducts {
  const int16_t* a = nullptr;
  int64_t a_row = 0, a_pair = 2;
  const int16_t* b = nullptr;
  int64_t rows = 0, columns = 0, depth = 0;  // columns: padded
  int64_t block = 1;                         // this many products add up within int32: block_of
  int64_t* sums = nullptr;                   // [rows, columns]
};

// The block for mantissas with these bits, without the sign.
constexpr int64_t block_of(int a_bits, int b_bits) {
  return int64_t{1} << std::max(0, 30 - a_bits - b_bits);
}

// The right shifts, of numbers of this many bits without the sign, that the loops of instruction
// sets take: no sum of four leaves 2^60. The reference takes all shifts.
constexpr bool is_plain_shift(int shift, int bits) { return shift >= bits - 58 && shift <= 61; }
constexpr int kInputBits = 31, kSumBits = 44, kPeepholeBits = 30, kPeepholeGradientBits = 44;

// LSTM's peepholes [3, channels], from the cell to the gates i, f and o; null: none. Products with
// cells, and with gradients, are shifted right.
struct Peepholes {
  const int16_t* weights = nullptr;
  int shift = 0, gradient_shift = 0;
};

// A step forward. The sums of pre-activations are the sums of the input's part, x, and of the
// recurrent part, s, [gates, channels] each, shifted right to 2^-24. `before` and `record` are the
// records of the step before (zeros at first) and of this one.
struct CellStep {
  int64_t channels = 0;
  ConstMantissaSpan x;
  int x_shift = 0;
  const int64_t* s = nullptr;
  const int32_t* s_shifts = nullptr;  // of each row
  const int64_t* bias = nullptr;      // GRU's, of the candidate's s, [channels] at 2^-24
  const int16_t *h_before = nullptr, *before = nullptr;
  int16_t *h = nullptr, *record = nullptr;
  Peepholes peepholes = {};
};

// A step back. `grad_h` is the whole gradient of h. Writes the gradients of the two parts' sums;
// `grad_s` for GRU alone, since otherwise they are the same. `carry_h` is the gradient of h_before,
// without the recurrent product's part. `carry_c` is the gradient of the cell: first of the step
// after, on return of this step's start.
struct CellGradient {
  int64_t channels = 0;
  const int16_t *h_before = nullptr, *h = nullptr, *before = nullptr, *record = nullptr;
  const int32_t* grad_h = nullptr;
  int32_t *grad_x = nullptr, *grad_s = nullptr, *carry_h = nullptr, *carry_c = nullptr;
  Peepholes peepholes = {};
};

struct CellKernels {
  // Returns how many cells were clipped.
  int64_t (*forward)(const CellStep&) noexcept;
  void (*backward)(const CellGradient&) noexcept;
};

// Gradients that are multiplied, without the sign.
constexpr int kShortGradientBits = 15;

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
