// One step of recurrent layers in double, for one sequence, and its gradient, as PyTorch defines
// them.
#pragma once

#include <cmath>
#include <cstdint>

namespace mantissa::ops::fp32 {

inline double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// A step of one sequence: sums of the gates' parts from the input and from h, what the step before
// left, and what this one leaves. Gradients have the same names with a d.
struct Step {
  int64_t n = 0;  // channels
  const double *x = nullptr, *s = nullptr;
  const double *h_before = nullptr, *before = nullptr;
  double *h = nullptr, *record = nullptr;
  const float* peepholes = nullptr;  // [3, n]

  double peephole(int gate, int64_t j) const {
    return peepholes == nullptr ? 0 : peepholes[gate * n + j];
  }
};

struct StepGradient {
  const double* dh = nullptr;
  double *dx = nullptr, *ds = nullptr, *carry_h = nullptr, *carry_c = nullptr;
};

struct Rnn {
  static constexpr int kGates = 1, kRecord = 0;
  static void forward(const Step& a) {
    for (int64_t j = 0; j < a.n; ++j) a.h[j] = std::tanh(a.x[j] + a.s[j]);
  }
  static void backward(const Step& a, const StepGradient& g) {
    for (int64_t j = 0; j < a.n; ++j) {
      g.dx[j] = g.ds[j] = g.dh[j] * (1 - a.h[j] * a.h[j]);
      g.carry_h[j] = 0;
    }
  }
};

struct Lstm {
  static constexpr int kGates = 4, kRecord = 5;  // i, f, g, o, cell
  static void forward(const Step& a) {
    const int64_t n = a.n;
    for (int64_t j = 0; j < n; ++j) {
      const auto sum = [&](int gate) { return a.x[gate * n + j] + a.s[gate * n + j]; };
      const double old_cell = a.before[4 * n + j];
      const double i = sigmoid(sum(0) + a.peephole(0, j) * old_cell);
      const double f = sigmoid(sum(1) + a.peephole(1, j) * old_cell);
      const double g = std::tanh(sum(2)), cell = f * old_cell + i * g;
      const double o = sigmoid(sum(3) + a.peephole(2, j) * cell);
      const double record[] = {i, f, g, o, cell};
      for (int k = 0; k < 5; ++k) a.record[k * n + j] = record[k];
      a.h[j] = o * std::tanh(cell);
    }
  }
  static void backward(const Step& a, const StepGradient& d) {
    const int64_t n = a.n;
    for (int64_t j = 0; j < n; ++j) {
      const double i = a.record[j], f = a.record[n + j], g = a.record[2 * n + j],
                   o = a.record[3 * n + j], cell = a.record[4 * n + j],
                   old_cell = a.before[4 * n + j], bent = std::tanh(cell);
      const double of_o = d.dh[j] * bent * o * (1 - o);
      const double of_cell =
          d.carry_c[j] + d.dh[j] * o * (1 - bent * bent) + of_o * a.peephole(2, j);
      const double of_i = of_cell * g * i * (1 - i), of_f = of_cell * old_cell * f * (1 - f);
      const double gradients[] = {of_i, of_f, of_cell * i * (1 - g * g), of_o};
      for (int k = 0; k < 4; ++k) d.dx[k * n + j] = d.ds[k * n + j] = gradients[k];
      d.carry_c[j] = of_cell * f + of_i * a.peephole(0, j) + of_f * a.peephole(1, j);
      d.carry_h[j] = 0;
    }
  }
};

struct Gru {
  static constexpr int kGates = 3, kRecord = 4;  // r, z, n, and n's sum from h
  static void forward(const Step& a) {
    const int64_t n = a.n;
    for (int64_t j = 0; j < n; ++j) {
      const double reset = sigmoid(a.x[j] + a.s[j]), keep = sigmoid(a.x[n + j] + a.s[n + j]);
      const double recurrent = a.s[2 * n + j];
      const double candidate = std::tanh(a.x[2 * n + j] + reset * recurrent);
      const double record[] = {reset, keep, candidate, recurrent};
      for (int k = 0; k < 4; ++k) a.record[k * n + j] = record[k];
      a.h[j] = (1 - keep) * candidate + keep * a.h_before[j];
    }
  }
  static void backward(const Step& a, const StepGradient& d) {
    const int64_t n = a.n;
    for (int64_t j = 0; j < n; ++j) {
      const double reset = a.record[j], keep = a.record[n + j], candidate = a.record[2 * n + j],
                   recurrent = a.record[3 * n + j], dh = d.dh[j];
      const double of_n = dh * (1 - keep) * (1 - candidate * candidate);
      d.dx[j] = d.ds[j] = of_n * recurrent * reset * (1 - reset);
      d.dx[n + j] = d.ds[n + j] = dh * (a.h_before[j] - candidate) * keep * (1 - keep);
      d.dx[2 * n + j] = of_n;
      d.ds[2 * n + j] = of_n * reset;
      d.carry_h[j] = dh * keep;
    }
  }
};

}  // namespace mantissa::ops::fp32
