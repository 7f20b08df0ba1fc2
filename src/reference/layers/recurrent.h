// Recurrent layers in integers: rnn, lstm and gru, one step of one sequence forward and back, and
// the products with the recurrent weights. Gate order, and the place of the reset gate, are as in
// PyTorch. Fixed points:
//
//   pre-activations, LSTM's cell   16 bits at 2^-11, clipped at 16, where gates are flat
//   gates and the result h         16 bits at 2^-15
//   sums before they are narrowed  int64 at 2^-24
//   gradients                      int32 at one exponent of the caller's, clipped at 2^29
//
// Every rounding is to nearest even. Source: METHODS, "Exact non-linear functions in integers".
#pragma once

#include "reference/numerics/numerics.h"
#include "reference/numerics/point_functions.h"

enum {
  REF_PRE_FRACTION = 11,
  REF_GATE_FRACTION = 15,
  REF_SUM_FRACTION = 24,
  REF_SHORT_GRADIENT_BITS = 15  // of gradients that are multiplied, without the sign
};

// sums[r, c] = the sum over k < depth of a[r, k] * b[k, c], exact. The terms lie in pairs: terms 2p
// and 2p + 1 at a + r * a_row + p * a_pair and at b + (p * columns + c) * 2. For an odd depth the
// last pair of `a` has one term, and only that is read.
typedef struct RefPairProducts {
  const int16_t* a REF_CXX(= nullptr);
  int64_t a_row REF_CXX(= 0), a_pair REF_CXX(= 2);
  const int16_t* b REF_CXX(= nullptr);
  int64_t rows REF_CXX(= 0), columns REF_CXX(= 0), depth REF_CXX(= 0);  // columns: padded
  int64_t block REF_CXX(= 1);        // this many products add up within int32
  int64_t* sums REF_CXX(= nullptr);  // [rows, columns]
} RefPairProducts;

// Functions of all pre-activations in Q15, from -32767 on: index 32767 is that of 0.
enum { REF_GATE_TABLE_SIZE = 2 * 32767 + 1 };
typedef struct RefGates {
  const int16_t *sigmoid, *tanh;  // at 0
} RefGates;

// LSTM's peepholes [3, channels], from the cell to the gates i, f and o; null: none. Products with
// cells, and with gradients, are shifted right.
typedef struct RefPeepholes {
  const int16_t* weights REF_CXX(= nullptr);
  int shift REF_CXX(= 0), gradient_shift REF_CXX(= 0);
} RefPeepholes;

// A step forward. The sums of pre-activations are the sums of the input's part, x, and of the
// recurrent part, s, [gates, channels] each, shifted right to 2^-24. `before` and `record` are the
// records of the step before (zeros at first) and of this one: LSTM's gates i, f, g, o and its
// cell; GRU's gates r, z, n and the candidate's s.
typedef struct RefCellStep {
  int64_t channels REF_CXX(= 0);
  RefConstSpan x;
  int x_shift REF_CXX(= 0);
  const int64_t* s REF_CXX(= nullptr);
  const int32_t* s_shifts REF_CXX(= nullptr);  // of each row
  const int64_t* bias REF_CXX(= nullptr);      // GRU's, of the candidate's s, [channels] at 2^-24
  const int16_t *h_before REF_CXX(= nullptr), *before REF_CXX(= nullptr);
  int16_t *h REF_CXX(= nullptr), *record REF_CXX(= nullptr);
  RefPeepholes peepholes REF_CXX(= {});
} RefCellStep;

// A step back. `grad_h` is the whole gradient of h. Writes the gradients of the two parts' sums;
// `grad_s` for GRU alone, since otherwise they are the same. `carry_h` is the gradient of h_before,
// without the recurrent product's part. `carry_c` is the gradient of the cell: first of the step
// after, on return of this step's start.
typedef struct RefCellGradient {
  int64_t channels REF_CXX(= 0);
  const int16_t *h_before REF_CXX(= nullptr), *h REF_CXX(= nullptr);
  const int16_t *before REF_CXX(= nullptr), *record REF_CXX(= nullptr);
  const int32_t* grad_h REF_CXX(= nullptr);
  int32_t *grad_x REF_CXX(= nullptr), *grad_s REF_CXX(= nullptr);
  int32_t *carry_h REF_CXX(= nullptr), *carry_c REF_CXX(= nullptr);
  RefPeepholes peepholes REF_CXX(= {});
} RefCellGradient;

// A gradient times a gate.
REF_INLINE int64_t ref_times_gate(int64_t gradient, int64_t gate) {
  return ref_shift_right_rne(gradient * gate, REF_GATE_FRACTION);
}

REF_BEGIN

void ref_fill_gate_table(const RefPointFunction*, int16_t* table) REF_NOEXCEPT;

void ref_pair_products(const RefPairProducts*) REF_NOEXCEPT;
// Steps return how many cells were clipped.
int64_t ref_rnn_forward(const RefGates*, const RefCellStep*) REF_NOEXCEPT;
void ref_rnn_backward(const RefGates*, const RefCellGradient*) REF_NOEXCEPT;
int64_t ref_lstm_forward(const RefGates*, const RefCellStep*) REF_NOEXCEPT;
void ref_lstm_backward(const RefGates*, const RefCellGradient*) REF_NOEXCEPT;
int64_t ref_gru_forward(const RefGates*, const RefCellStep*) REF_NOEXCEPT;
void ref_gru_backward(const RefGates*, const RefCellGradient*) REF_NOEXCEPT;
// gradients[j] = the gradient of the output, shifted right, + carry[j], clipped.
void ref_add_output_gradient(RefConstSpan output, int shift, const int32_t* carry, int64_t count,
                             int32_t* gradients) REF_NOEXCEPT;
// carry[j] += sums[j] shifted right, clipped; |sums| < 2^61.
void ref_add_carry(const int64_t* sums, int shift, int64_t count, int32_t* carry) REF_NOEXCEPT;
// Rounds gradients, each shifted right by its own shift (0 to 31), to 15 bits besides the sign.
// Returns the shift that did it.
int ref_shorten(const int32_t* gradients, const int32_t* shifts, int64_t count,
                int16_t* to) REF_NOEXCEPT;
// Two rows as pairs of a product, rounded to `bits` besides the sign; odd may be null: zeros.
void ref_pair_gradients(const int32_t* even, const int32_t* odd, int64_t count, int shift, int bits,
                        int16_t* to) REF_NOEXCEPT;
void ref_pair_states(const int16_t* even, const int16_t* odd, int64_t count, int shift, int bits,
                     int16_t* to) REF_NOEXCEPT;
uint64_t ref_largest_gradient(const int32_t* gradients, int64_t count) REF_NOEXCEPT;
uint64_t ref_largest_state(const int16_t* states, int64_t count) REF_NOEXCEPT;

REF_END
