#include "reference/layers/recurrent.h"

#include "reference/elements/elements.h"
#include "reference/numerics/exponents.h"

enum { kOne = 1 << REF_GATE_FRACTION };

void ref_fill_gate_table(const RefPointFunction* function, int16_t* table) {
  const RefFraction none = {0, 1};
  const int shift = -(function->wide_exponent(-REF_PRE_FRACTION) + REF_GATE_FRACTION);
  for (int64_t q = -INT16_MAX; q <= INT16_MAX; ++q) {
    const int64_t wide = function->value(q, -REF_PRE_FRACTION, none);
    table[q + INT16_MAX] = (int16_t)ref_saturate(ref_rescale_rne(wide, shift), INT16_MAX);
  }
}

void ref_pair_products(const RefPairProducts* args) {
  const int64_t columns = args->columns;
  for (int64_t r = 0; r < args->rows; ++r) {
    int64_t* restrict sums = args->sums + r * columns;
    for (int64_t c = 0; c < columns; ++c) sums[c] = 0;
    for (int64_t k = 0; k < args->depth; ++k) {
      const int32_t a = args->a[r * args->a_row + k / 2 * args->a_pair + k % 2];
      const int16_t* restrict b = args->b + k / 2 * columns * 2 + k % 2;
      for (int64_t c = 0; c < columns; ++c) sums[c] += a * b[2 * c];
    }
  }
}

static int64_t clipped_gradient(int64_t n) { return ref_saturate(n, INT64_C(1) << 29); }

static int64_t narrow_pre(int64_t sum) {
  return ref_saturate(ref_shift_right_rne(sum, REF_SUM_FRACTION - REF_PRE_FRACTION), INT16_MAX);
}

// s (1 - s) and 1 - t^2 in Q30.
static int64_t sigmoid_slope(int64_t s) { return s * (kOne - s); }
static int64_t tanh_slope(int64_t t) { return (int64_t)kOne * kOne - t * t; }
// A product with 15 bits more after the point, in Q30.
static int64_t to_q30(int64_t q45) { return ref_shift_right_rne(q45, REF_GATE_FRACTION); }
// A gradient times a factor in Q30, below 2^29 and 2^33.
static int64_t times_q30(int64_t gradient, int64_t factor) {
  return clipped_gradient(ref_shift_right_rne(gradient * factor, 30));
}

// The term that a peephole adds to a sum, and to the gradient of its cell.
static int64_t peephole_sum(const RefPeepholes* p, int64_t at, int64_t cell) {
  return p->weights == NULL ? 0 : ref_rescale_rne(p->weights[at] * cell, p->shift);
}
static int64_t peephole_gradient(const RefPeepholes* p, int64_t at, int64_t of_sum) {
  return p->weights == NULL ? 0 : ref_rescale_rne(p->weights[at] * of_sum, p->gradient_shift);
}

// The two parts of pre-activations' sums.
static int64_t x_part(const RefCellStep* a, int64_t k) {
  const int bytes = a->x.bits <= 8 ? 1 : a->x.bits <= 16 ? 2 : 4;
  return ref_rescale_rne(ref_load(a->x.data, bytes, k), a->x_shift);
}
static int64_t s_part(const RefCellStep* a, int64_t k) {
  return ref_rescale_rne(a->s[k], a->s_shifts[k]);
}
static int64_t sum_of(const RefCellStep* a, int64_t k) { return x_part(a, k) + s_part(a, k); }

int64_t ref_rnn_forward(const RefGates* gates, const RefCellStep* a) {
  for (int64_t j = 0; j < a->channels; ++j) a->h[j] = gates->tanh[narrow_pre(sum_of(a, j))];
  return 0;
}

void ref_rnn_backward(const RefGates* gates, const RefCellGradient* a) {
  (void)gates;
  for (int64_t j = 0; j < a->channels; ++j) {
    a->grad_x[j] = (int32_t)times_q30(a->grad_h[j], tanh_slope(a->h[j]));
    a->carry_h[j] = 0;
  }
}

int64_t ref_lstm_forward(const RefGates* gates, const RefCellStep* a) {
  const int64_t n = a->channels;
  const RefPeepholes* p = &a->peepholes;
  int64_t clipped = 0;
  for (int64_t j = 0; j < n; ++j) {
    const int64_t old_cell = a->before[4 * n + j];
    const int64_t i = gates->sigmoid[narrow_pre(sum_of(a, j) + peephole_sum(p, j, old_cell))];
    const int64_t f =
        gates->sigmoid[narrow_pre(sum_of(a, n + j) + peephole_sum(p, n + j, old_cell))];
    const int64_t g = gates->tanh[narrow_pre(sum_of(a, 2 * n + j))];
    // Q30 to Q11: two products below 2^30 * 16.
    const int64_t aligned = old_cell * (1 << (REF_GATE_FRACTION - REF_PRE_FRACTION));
    const int64_t wide = ref_shift_right_rne(f * aligned + i * g, 30 - REF_PRE_FRACTION);
    const int64_t cell = ref_saturate(wide, INT16_MAX);
    clipped += cell != wide;
    const int64_t o =
        gates->sigmoid[narrow_pre(sum_of(a, 3 * n + j) + peephole_sum(p, 2 * n + j, cell))];
    a->record[j] = (int16_t)i;
    a->record[n + j] = (int16_t)f;
    a->record[2 * n + j] = (int16_t)g;
    a->record[3 * n + j] = (int16_t)o;
    a->record[4 * n + j] = (int16_t)cell;
    a->h[j] = (int16_t)ref_times_gate(o, gates->tanh[cell]);
  }
  return clipped;
}

void ref_lstm_backward(const RefGates* gates, const RefCellGradient* a) {
  const int64_t n = a->channels;
  const RefPeepholes* p = &a->peepholes;
  for (int64_t j = 0; j < n; ++j) {
    const int64_t i = a->record[j], f = a->record[n + j], g = a->record[2 * n + j];
    const int64_t o = a->record[3 * n + j], old_cell = a->before[4 * n + j];
    const int64_t bent = gates->tanh[a->record[4 * n + j]];
    const int64_t of_o = times_q30(a->grad_h[j], to_q30(bent * sigmoid_slope(o)));
    const int64_t of_cell =
        clipped_gradient(a->carry_c[j] + times_q30(a->grad_h[j], to_q30(o * tanh_slope(bent))) +
                         peephole_gradient(p, 2 * n + j, of_o));
    const int64_t of_i = times_q30(of_cell, to_q30(g * sigmoid_slope(i)));
    const int64_t of_f =
        times_q30(of_cell, ref_shift_right_rne(old_cell * sigmoid_slope(f), REF_PRE_FRACTION));
    const int64_t of_g = times_q30(of_cell, to_q30(i * tanh_slope(g)));
    a->carry_c[j] =
        (int32_t)clipped_gradient(ref_times_gate(of_cell, f) + peephole_gradient(p, j, of_i) +
                                  peephole_gradient(p, n + j, of_f));
    a->grad_x[j] = (int32_t)of_i;
    a->grad_x[n + j] = (int32_t)of_f;
    a->grad_x[2 * n + j] = (int32_t)of_g;
    a->grad_x[3 * n + j] = (int32_t)of_o;
    a->carry_h[j] = 0;
  }
}

// n = tanh(x + r s); s includes the candidate's bias.
int64_t ref_gru_forward(const RefGates* gates, const RefCellStep* a) {
  const int64_t n = a->channels;
  for (int64_t j = 0; j < n; ++j) {
    const int64_t reset = gates->sigmoid[narrow_pre(sum_of(a, j))];
    const int64_t keep = gates->sigmoid[narrow_pre(sum_of(a, n + j))];
    const int64_t recurrent = narrow_pre(s_part(a, 2 * n + j) + a->bias[j]);
    const int64_t gated = ref_shift_right_rne(
        reset * recurrent, REF_GATE_FRACTION + REF_PRE_FRACTION - REF_SUM_FRACTION);
    const int64_t candidate = gates->tanh[narrow_pre(x_part(a, 2 * n + j) + gated)];
    a->record[j] = (int16_t)reset;
    a->record[n + j] = (int16_t)keep;
    a->record[2 * n + j] = (int16_t)candidate;
    a->record[3 * n + j] = (int16_t)recurrent;
    a->h[j] = (int16_t)ref_shift_right_rne((kOne - keep) * candidate + keep * a->h_before[j],
                                           REF_GATE_FRACTION);
  }
  return 0;
}

void ref_gru_backward(const RefGates* gates, const RefCellGradient* a) {
  (void)gates;
  const int64_t n = a->channels;
  for (int64_t j = 0; j < n; ++j) {
    const int64_t reset = a->record[j], keep = a->record[n + j];
    const int64_t candidate = a->record[2 * n + j], recurrent = a->record[3 * n + j];
    const int64_t grad = a->grad_h[j];
    const int64_t of_n = times_q30(grad, to_q30((kOne - keep) * tanh_slope(candidate)));
    const int64_t of_r =
        times_q30(of_n, ref_shift_right_rne(recurrent * sigmoid_slope(reset), REF_PRE_FRACTION));
    const int64_t of_z =
        times_q30(grad, to_q30((a->h_before[j] - candidate) * sigmoid_slope(keep)));
    a->grad_s[j] = a->grad_x[j] = (int32_t)of_r;
    a->grad_s[n + j] = a->grad_x[n + j] = (int32_t)of_z;
    a->grad_s[2 * n + j] = (int32_t)ref_times_gate(of_n, reset);
    a->grad_x[2 * n + j] = (int32_t)of_n;
    a->carry_h[j] = (int32_t)ref_times_gate(grad, keep);
  }
}

void ref_add_output_gradient(RefConstSpan output, int shift, const int32_t* carry, int64_t count,
                             int32_t* gradients) {
  REF_WITH_BYTES(
      output.bits, bytes, for (int64_t j = 0; j < count; ++j) {
        const int64_t shifted = ref_rescale_rne(ref_load(output.data, bytes, j), shift);
        gradients[j] = (int32_t)clipped_gradient(carry[j] + shifted);
      });
}

void ref_add_carry(const int64_t* sums, int shift, int64_t count, int32_t* carry) {
  for (int64_t j = 0; j < count; ++j) {
    carry[j] = (int32_t)clipped_gradient(carry[j] + ref_rescale_rne(sums[j], shift));
  }
}

static int16_t narrowed(int64_t n, int shift, int bits) {
  return (int16_t)ref_saturate(ref_shift_right_rne(n, shift), ref_mantissa_limit(bits + 1));
}

int ref_shorten(const int32_t* gradients, const int32_t* shifts, int64_t count, int16_t* to) {
  RefStatistics found = {0, 0};
  for (int64_t k = 0; k < count; ++k) {
    ref_include(&found, ref_shift_right_rne(gradients[k], shifts[k]), 0, 0);
  }
  const int shift = ref_exact_shift(found.maximum, REF_SHORT_GRADIENT_BITS + 1);
  for (int64_t k = 0; k < count; ++k) {
    to[k] = narrowed(ref_shift_right_rne(gradients[k], shifts[k]), shift, REF_SHORT_GRADIENT_BITS);
  }
  return shift;
}

REF_LOOP void pair_rows(int bytes, const void* even, const void* odd, int64_t count, int shift,
                        int bits, int16_t* restrict to) {
  for (int64_t i = 0; i < count; ++i) {
    to[2 * i] = narrowed(ref_load(even, bytes, i), shift, bits);
    to[2 * i + 1] = odd == NULL ? (int16_t)0 : narrowed(ref_load(odd, bytes, i), shift, bits);
  }
}

void ref_pair_gradients(const int32_t* even, const int32_t* odd, int64_t count, int shift, int bits,
                        int16_t* to) {
  pair_rows(4, even, odd, count, shift, bits, to);
}

void ref_pair_states(const int16_t* even, const int16_t* odd, int64_t count, int shift, int bits,
                     int16_t* to) {
  pair_rows(2, even, odd, count, shift, bits, to);
}

REF_LOOP uint64_t largest_of(int bytes, const void* numbers, int64_t count) {
  RefRange64 range = {0, 0};
  for (int64_t i = 0; i < count; ++i) ref_include64(&range, ref_load(numbers, bytes, i));
  return ref_statistics(range.low, range.high, 0).maximum;
}

uint64_t ref_largest_gradient(const int32_t* gradients, int64_t count) {
  return largest_of(4, gradients, count);
}

uint64_t ref_largest_state(const int16_t* states, int64_t count) {
  return largest_of(2, states, count);
}
