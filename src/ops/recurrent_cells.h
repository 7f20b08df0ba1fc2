// One step of recurrent layers in integers, for one sequence, and its gradient. Gate order, and
// where the reset gate acts, are PyTorch's. Fixed points:
//
//   pre-activations, LSTM's cell   16 bits at 2^-11, clipped at 16, where gates are flat
//   gates and the result h         16 bits at 2^-15
//   sums before they are narrowed  int64 at 2^-24
//   gradients                      int64 at one exponent of the caller's, clipped at 2^29
//
// Every rounding is to nearest even. Source: METHODS, "Exact non-linear functions in integers".
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "numerics/point_functions.h"
#include "numerics/rounding.h"

namespace mantissa::ops {

constexpr int kPreFraction = 11, kGateFraction = 15, kSumFraction = 24;
constexpr int64_t kGateOne = int64_t{1} << kGateFraction;
constexpr int64_t kGradientLimit = int64_t{1} << 29;

inline int64_t clipped_gradient(int64_t n) {
  return std::clamp(n, -kGradientLimit, kGradientLimit);
}

// A function of all pre-activations, in Q15.
class GateTable {
 public:
  explicit GateTable(const PointFunction& function) {
    const int shift = -(function.wide_exponent(-kPreFraction) + kGateFraction);
    for (int64_t q = -INT16_MAX; q <= INT16_MAX; ++q) {
      const int64_t wide = function.value(q, -kPreFraction, {});
      values_[static_cast<size_t>(q + INT16_MAX)] =
          static_cast<int16_t>(saturate(rescale_rne(wide, shift), INT16_MAX));
    }
  }
  int64_t operator()(int64_t q) const { return values_[static_cast<size_t>(q + INT16_MAX)]; }

 private:
  std::array<int16_t, 2 * INT16_MAX + 1> values_;
};

inline const GateTable& sigmoid_table() {
  static const GateTable table(kSigmoidFunction);
  return table;
}

inline const GateTable& tanh_table() {
  static const GateTable table(kTanhFunction);
  return table;
}

inline int64_t narrow_pre(int64_t sum) {
  return saturate(shift_right_rne(sum, kSumFraction - kPreFraction), INT16_MAX);
}

// s (1 - s) and 1 - t^2 in Q30.
inline int64_t sigmoid_slope(int64_t s) { return s * (kGateOne - s); }
inline int64_t tanh_slope(int64_t t) { return kGateOne * kGateOne - t * t; }
// A product with 15 bits more behind the point, in Q30.
inline int64_t to_q30(int64_t q45) { return shift_right_rne(q45, kGateFraction); }
// A gradient times a factor in Q30.
inline int64_t times_q30(int64_t gradient, int64_t factor) {
  return clipped_gradient(shift_right_rne(gradient * factor, 30));
}
inline int64_t times_gate(int64_t gradient, int64_t gate) {
  return shift_right_rne(gradient * gate, kGateFraction);
}

// LSTM's peepholes [3, channels], from the cell to the gates i, f and o; null: none.
struct Peepholes {
  const int16_t* weights = nullptr;
  int exponent = 0;

  // The term that a peephole adds to a sum.
  int64_t sum(int gate, int64_t channels, int64_t j, int64_t cell) const {
    if (weights == nullptr) return 0;
    return rescale_rne(weights[gate * channels + j] * cell,
                       -(exponent - kPreFraction + kSumFraction));
  }
  int64_t gradient(int gate, int64_t channels, int64_t j, int64_t of_sum) const {
    if (weights == nullptr) return 0;
    return rescale_rne(weights[gate * channels + j] * of_sum, -exponent);
  }
};

// A step forward. `x` and `s` are the sums of the input's and the recurrent part, [gates, channels]
// each; `before` and `record` are the records of the step before (zeros at first) and of this one.
struct CellStep {
  int64_t channels = 0;
  const int64_t *x = nullptr, *s = nullptr;
  const int16_t *h_before = nullptr, *before = nullptr;
  int16_t *h = nullptr, *record = nullptr;
  Peepholes peepholes;
};

// A step back. `grad_h` is the whole gradient of h. Writes the gradients of the two parts' sums;
// `carry_h` is what h_before gets besides the recurrent product's; `carry_c` is the gradient of the
// cell, of the step after, and then of this one's start.
struct CellGradient {
  int64_t channels = 0;
  const int16_t *h_before = nullptr, *h = nullptr, *before = nullptr, *record = nullptr;
  const int64_t* grad_h = nullptr;
  int64_t *grad_x = nullptr, *grad_s = nullptr, *carry_h = nullptr, *carry_c = nullptr;
  Peepholes peepholes;
};

struct RnnCell {
  static constexpr int kGates = 1, kRecord = 0;

  static int64_t forward(const CellStep& a) {
    for (int64_t j = 0; j < a.channels; ++j) {
      a.h[j] = static_cast<int16_t>(tanh_table()(narrow_pre(a.x[j] + a.s[j])));
    }
    return 0;
  }
  static void backward(const CellGradient& a) {
    for (int64_t j = 0; j < a.channels; ++j) {
      a.grad_x[j] = a.grad_s[j] = times_q30(a.grad_h[j], tanh_slope(a.h[j]));
      a.carry_h[j] = 0;
    }
  }
};

// Gates i, f, g, o; the record has them and the cell.
struct LstmCell {
  static constexpr int kGates = 4, kRecord = 5;

  // Returns how many cells were clipped.
  static int64_t forward(const CellStep& a) {
    const GateTable &sigmoid = sigmoid_table(), &tanh = tanh_table();
    const int64_t n = a.channels;
    int64_t clipped = 0;
    for (int64_t j = 0; j < n; ++j) {
      const auto sum = [&](int gate) { return a.x[gate * n + j] + a.s[gate * n + j]; };
      const int64_t old_cell = a.before[4 * n + j];
      const int64_t i = sigmoid(narrow_pre(sum(0) + a.peepholes.sum(0, n, j, old_cell)));
      const int64_t f = sigmoid(narrow_pre(sum(1) + a.peepholes.sum(1, n, j, old_cell)));
      const int64_t g = tanh(narrow_pre(sum(2)));
      // Q30 to Q11.
      const int64_t wide = shift_right_rne(
          f * old_cell * (int64_t{1} << (kGateFraction - kPreFraction)) + i * g, 30 - kPreFraction);
      const int64_t cell = saturate(wide, INT16_MAX);
      clipped += cell != wide;
      const int64_t o = sigmoid(narrow_pre(sum(3) + a.peepholes.sum(2, n, j, cell)));
      const std::array<int64_t, 5> record = {i, f, g, o, cell};
      for (size_t k = 0; k < 5; ++k) a.record[k * n + j] = static_cast<int16_t>(record[k]);
      a.h[j] = static_cast<int16_t>(times_gate(o, tanh(cell)));
    }
    return clipped;
  }

  static void backward(const CellGradient& a) {
    const int64_t n = a.channels;
    for (int64_t j = 0; j < n; ++j) {
      const int64_t i = a.record[j], f = a.record[n + j], g = a.record[2 * n + j],
                    o = a.record[3 * n + j], old_cell = a.before[4 * n + j],
                    bent = tanh_table()(a.record[4 * n + j]);
      const int64_t of_o = times_q30(a.grad_h[j], to_q30(bent * sigmoid_slope(o)));
      const int64_t of_cell =
          clipped_gradient(a.carry_c[j] + times_q30(a.grad_h[j], to_q30(o * tanh_slope(bent))) +
                           a.peepholes.gradient(2, n, j, of_o));
      const int64_t of_i = times_q30(of_cell, to_q30(g * sigmoid_slope(i)));
      const int64_t of_f =
          times_q30(of_cell, shift_right_rne(old_cell * sigmoid_slope(f), kPreFraction));
      const int64_t of_g = times_q30(of_cell, to_q30(i * tanh_slope(g)));
      a.carry_c[j] = clipped_gradient(times_gate(of_cell, f) + a.peepholes.gradient(0, n, j, of_i) +
                                      a.peepholes.gradient(1, n, j, of_f));
      const std::array<int64_t, 4> gradients = {of_i, of_f, of_g, of_o};
      for (size_t k = 0; k < 4; ++k) a.grad_x[k * n + j] = a.grad_s[k * n + j] = gradients[k];
      a.carry_h[j] = 0;
    }
  }
};

// Gates r, z, n; n = tanh(x + r s), where s has the candidate's bias. The record has the gates and
// s of the candidate.
struct GruCell {
  static constexpr int kGates = 3, kRecord = 4;

  static int64_t forward(const CellStep& a) {
    const GateTable &sigmoid = sigmoid_table(), &tanh = tanh_table();
    const int64_t n = a.channels;
    for (int64_t j = 0; j < n; ++j) {
      const int64_t reset = sigmoid(narrow_pre(a.x[j] + a.s[j]));
      const int64_t keep = sigmoid(narrow_pre(a.x[n + j] + a.s[n + j]));
      const int64_t recurrent = narrow_pre(a.s[2 * n + j]);
      const int64_t gated =
          shift_right_rne(reset * recurrent, kGateFraction + kPreFraction - kSumFraction);
      const int64_t candidate = tanh(narrow_pre(a.x[2 * n + j] + gated));
      const std::array<int64_t, 4> record = {reset, keep, candidate, recurrent};
      for (size_t k = 0; k < 4; ++k) a.record[k * n + j] = static_cast<int16_t>(record[k]);
      a.h[j] = static_cast<int16_t>(
          shift_right_rne((kGateOne - keep) * candidate + keep * a.h_before[j], kGateFraction));
    }
    return 0;
  }

  static void backward(const CellGradient& a) {
    const int64_t n = a.channels;
    for (int64_t j = 0; j < n; ++j) {
      const int64_t reset = a.record[j], keep = a.record[n + j], candidate = a.record[2 * n + j],
                    recurrent = a.record[3 * n + j], grad = a.grad_h[j];
      const int64_t of_n = times_q30(grad, to_q30((kGateOne - keep) * tanh_slope(candidate)));
      const int64_t of_r =
          times_q30(of_n, shift_right_rne(recurrent * sigmoid_slope(reset), kPreFraction));
      a.grad_x[j] = a.grad_s[j] = of_r;
      a.grad_x[n + j] = a.grad_s[n + j] =
          times_q30(grad, to_q30((a.h_before[j] - candidate) * sigmoid_slope(keep)));
      a.grad_x[2 * n + j] = of_n;
      a.grad_s[2 * n + j] = times_gate(of_n, reset);
      a.carry_h[j] = times_gate(grad, keep);
    }
  }
};

}  // namespace mantissa::ops
