// The definition of a recurrent layer's step in integers, for one sequence, and of its gradient:
// the normative cells. Gate order, and the place of the reset gate, are as in PyTorch. Fixed
// points:
//
//   pre-activations, LSTM's cell   16 bits at 2^-11, clipped at 16, where gates are flat
//   gates and the result h         16 bits at 2^-15
//   sums before they are narrowed  int64 at 2^-24
//   gradients                      int32 at one exponent of the caller's, clipped at 2^29
//
// Every rounding is to nearest even. Source: METHODS, "Exact non-linear functions in integers".
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "kernels/recurrent/recurrent.h"
#include "numerics/point_functions.h"
#include "numerics/rounding.h"

namespace mantissa::kernels {

constexpr int kPreFraction = 11, kGateFraction = 15, kSumFraction = 24;
constexpr int64_t kGateOne = int64_t{1} << kGateFraction;

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
  int64_t operator()(int64_t q) const { return at_zero()[q]; }
  const int16_t* at_zero() const { return values_.data() + INT16_MAX; }

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
// A product with 15 bits more after the point, in Q30.
inline int64_t to_q30(int64_t q45) { return shift_right_rne(q45, kGateFraction); }
// A gradient times a factor in Q30.
inline int64_t times_q30(int64_t gradient, int64_t factor) {
  return clipped_gradient(shift_right_rne(gradient * factor, 30));
}
inline int64_t times_gate(int64_t gradient, int64_t gate) {
  return shift_right_rne(gradient * gate, kGateFraction);
}

// The term that a peephole adds to a sum, and to the gradient of its cell.
inline int64_t peephole_sum(const Peepholes& p, int64_t at, int64_t cell) {
  return p.weights == nullptr ? 0 : rescale_rne(p.weights[at] * cell, p.shift);
}
inline int64_t peephole_gradient(const Peepholes& p, int64_t at, int64_t of_sum) {
  return p.weights == nullptr ? 0 : rescale_rne(p.weights[at] * of_sum, p.gradient_shift);
}

// The two parts of pre-activations' sums.
class Sums {
 public:
  explicit Sums(const CellStep& step) : step_(step) {}
  int64_t x(int64_t k) const {
    return with_wide_gradient_type(step_.x.bits, [&](auto type) {
      return rescale_rne(step_.x.as<decltype(type)>()[k], step_.x_shift);
    });
  }
  int64_t s(int64_t k) const { return rescale_rne(step_.s[k], step_.s_shifts[k]); }
  int64_t operator()(int64_t k) const { return x(k) + s(k); }

 private:
  const CellStep& step_;
};

struct RnnCell {
  static constexpr int kGates = 1, kRecord = 0;

  static int64_t forward(const CellStep& a) noexcept {
    const Sums sum(a);
    for (int64_t j = 0; j < a.channels; ++j) {
      a.h[j] = static_cast<int16_t>(tanh_table()(narrow_pre(sum(j))));
    }
    return 0;
  }
  static void backward(const CellGradient& a) noexcept {
    for (int64_t j = 0; j < a.channels; ++j) {
      a.grad_x[j] = static_cast<int32_t>(times_q30(a.grad_h[j], tanh_slope(a.h[j])));
      a.carry_h[j] = 0;
    }
  }
};

// Gates i, f, g, o; the record has them and the cell.
struct LstmCell {
  static constexpr int kGates = 4, kRecord = 5;

  static int64_t forward(const CellStep& a) noexcept {
    const GateTable &sigmoid = sigmoid_table(), &tanh = tanh_table();
    const Sums sum(a);
    const int64_t n = a.channels;
    int64_t clipped = 0;
    for (int64_t j = 0; j < n; ++j) {
      const int64_t old_cell = a.before[4 * n + j];
      const int64_t i = sigmoid(narrow_pre(sum(j) + peephole_sum(a.peepholes, j, old_cell)));
      const int64_t f =
          sigmoid(narrow_pre(sum(n + j) + peephole_sum(a.peepholes, n + j, old_cell)));
      const int64_t g = tanh(narrow_pre(sum(2 * n + j)));
      // Q30 to Q11.
      const int64_t wide = shift_right_rne(
          f * old_cell * (int64_t{1} << (kGateFraction - kPreFraction)) + i * g, 30 - kPreFraction);
      const int64_t cell = saturate(wide, INT16_MAX);
      clipped += cell != wide;
      const int64_t o =
          sigmoid(narrow_pre(sum(3 * n + j) + peephole_sum(a.peepholes, 2 * n + j, cell)));
      const std::array<int64_t, 5> record = {i, f, g, o, cell};
      for (size_t k = 0; k < 5; ++k) a.record[k * n + j] = static_cast<int16_t>(record[k]);
      a.h[j] = static_cast<int16_t>(times_gate(o, tanh(cell)));
    }
    return clipped;
  }

  static void backward(const CellGradient& a) noexcept {
    const int64_t n = a.channels;
    for (int64_t j = 0; j < n; ++j) {
      const int64_t i = a.record[j], f = a.record[n + j], g = a.record[2 * n + j],
                    o = a.record[3 * n + j], old_cell = a.before[4 * n + j],
                    bent = tanh_table()(a.record[4 * n + j]);
      const int64_t of_o = times_q30(a.grad_h[j], to_q30(bent * sigmoid_slope(o)));
      const int64_t of_cell =
          clipped_gradient(a.carry_c[j] + times_q30(a.grad_h[j], to_q30(o * tanh_slope(bent))) +
                           peephole_gradient(a.peepholes, 2 * n + j, of_o));
      const int64_t of_i = times_q30(of_cell, to_q30(g * sigmoid_slope(i)));
      const int64_t of_f =
          times_q30(of_cell, shift_right_rne(old_cell * sigmoid_slope(f), kPreFraction));
      const int64_t of_g = times_q30(of_cell, to_q30(i * tanh_slope(g)));
      a.carry_c[j] = static_cast<int32_t>(
          clipped_gradient(times_gate(of_cell, f) + peephole_gradient(a.peepholes, j, of_i) +
                           peephole_gradient(a.peepholes, n + j, of_f)));
      const std::array<int64_t, 4> gradients = {of_i, of_f, of_g, of_o};
      for (size_t k = 0; k < 4; ++k) a.grad_x[k * n + j] = static_cast<int32_t>(gradients[k]);
      a.carry_h[j] = 0;
    }
  }
};

// Gates r, z, n; n = tanh(x + r s); s includes the candidate's bias. The record has the gates and s
// of the candidate.
struct GruCell {
  static constexpr int kGates = 3, kRecord = 4;

  static int64_t forward(const CellStep& a) noexcept {
    const GateTable &sigmoid = sigmoid_table(), &tanh = tanh_table();
    const Sums sum(a);
    const int64_t n = a.channels;
    for (int64_t j = 0; j < n; ++j) {
      const int64_t reset = sigmoid(narrow_pre(sum(j)));
      const int64_t keep = sigmoid(narrow_pre(sum(n + j)));
      const int64_t recurrent = narrow_pre(sum.s(2 * n + j) + a.bias[j]);
      const int64_t gated =
          shift_right_rne(reset * recurrent, kGateFraction + kPreFraction - kSumFraction);
      const int64_t candidate = tanh(narrow_pre(sum.x(2 * n + j) + gated));
      const std::array<int64_t, 4> record = {reset, keep, candidate, recurrent};
      for (size_t k = 0; k < 4; ++k) a.record[k * n + j] = static_cast<int16_t>(record[k]);
      a.h[j] = static_cast<int16_t>(
          shift_right_rne((kGateOne - keep) * candidate + keep * a.h_before[j], kGateFraction));
    }
    return 0;
  }

  static void backward(const CellGradient& a) noexcept {
    const int64_t n = a.channels;
    for (int64_t j = 0; j < n; ++j) {
      const int64_t reset = a.record[j], keep = a.record[n + j], candidate = a.record[2 * n + j],
                    recurrent = a.record[3 * n + j], grad = a.grad_h[j];
      const int64_t of_n = times_q30(grad, to_q30((kGateOne - keep) * tanh_slope(candidate)));
      const int64_t of_r =
          times_q30(of_n, shift_right_rne(recurrent * sigmoid_slope(reset), kPreFraction));
      const int64_t of_z =
          times_q30(grad, to_q30((a.h_before[j] - candidate) * sigmoid_slope(keep)));
      const std::array<int64_t, 3> of_sums = {of_r, of_z, times_gate(of_n, reset)};
      for (size_t k = 0; k < 3; ++k) {
        a.grad_s[k * n + j] = static_cast<int32_t>(of_sums[k]);
        a.grad_x[k * n + j] = static_cast<int32_t>(k < 2 ? of_sums[k] : of_n);
      }
      a.carry_h[j] = static_cast<int32_t>(times_gate(grad, keep));
    }
  }
};

}  // namespace mantissa::kernels
