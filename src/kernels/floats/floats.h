// Loops over floats, for operators in fp32 (ops/fp32). Sums depend on the order of their terms, and
// that on the instruction set: results of two instruction sets may differ in their last bits. On
// one machine they are always the same.
//
// Functions work on the calling thread. Elementary functions have the errors that
// kernels/floats/functions.h states.
#pragma once

#include <cstdint>

#include "base/system/cpu.h"
#include "kernels/row_products/row_products.h"  // kMostFewRows

namespace mantissa::kernels {

// largest: of a row of logits; exponentials: the sum of exp(x - largest); sum: of all x. NaN among
// the logits makes `exponentials` NaN.
struct LogitSums {
  float largest = 0;
  double exponentials = 0, sum = 0;
};

// (exp(x - largest) * inverse - target) * weight.
struct SoftmaxGradient {
  float largest = 0, inverse = 0;
  float target = 0;  // of each class
  float weight = 1;
};

// Columns of a product's right matrix lie in panels of kPanel: [panels][depth][kPanel], the last
// filled up with zeros.
constexpr int64_t kPanel = 32;

constexpr int64_t panels_size(int64_t depth, int64_t columns) {
  return (columns + kPanel - 1) / kPanel * kPanel * depth;
}

// c[r, j] = the sum over k of a[r, k] b[k, j], added to c with `adds`; the terms in their order. An
// element of `a` lies at r * a_row + k * a_depth, one of `c` at r * c_row + j.
struct FloatProduct {
  int64_t rows = 0, columns = 0, depth = 0;
  const float* a = nullptr;
  int64_t a_row = 0, a_depth = 1;
  const float* b = nullptr;  // panels
  int64_t panel_depth = 0;   // the product takes its first rows
  float* c = nullptr;
  int64_t c_row = 0;
  bool adds = false;
};

// y[r, o] = bias[o] + the sum over k of x[r, k] weights[o, k]: a layer of at most kMostFewRows rows,
// whose weights are read once, as they lie.
struct FloatFewRows {
  int64_t rows = 0, outputs = 0, depth = 0;
  const float *x = nullptr, *weights = nullptr;
  const float* bias = nullptr;  // or null
  float* y = nullptr;
};

// kElu is x, or e^x - 1 of negative x.
enum class FloatFunction { kSigmoid, kTanh, kGelu, kSilu, kElu, kSoftplus, kMish };

// x^ = (x - mean) * inverse: of layer norm, and with a mean of zero of RMS norm.
struct FloatNorm {
  float mean = 0, inverse = 0;
};

// A step of a recurrent layer, for one sequence: the gates' sums over its input, x, and over h, s,
// [gates, n] each; and the state before and after, h and a record, [numbers, n].
//   rnn   h = tanh(x + s)
//   lstm  gates i, f, g, o; a record of them and the cell; peepholes [3, n] or null
//   gru   gates r, z, n; a record of them and n's sum over h; that sum's bias [n]
struct FloatCell {
  int64_t n = 0;  // channels
  const float *x = nullptr, *s = nullptr;
  const float *h_before = nullptr, *before = nullptr;
  float *h = nullptr, *record = nullptr;
  const float* parameters = nullptr;
};

// Gradients. dh: of h; carry_h and carry_c: of the state before; carry_h lacks the part that comes
// through s. carry_c goes in and out. carry_h may be dh, and dx may be ds if nobody wants dx.
struct FloatCellGradient {
  const float* dh = nullptr;
  float *dx = nullptr, *ds = nullptr, *carry_h = nullptr, *carry_c = nullptr;
};

// A step of Adam, which keeps the root of the second moment. With g = gradient * scale, and decay *
// weights added to g or, if decay is decoupled, to the direction:
//   first = beta1 first + (1 - beta1) g, root^2 = beta2 root^2 + (1 - beta2) g^2,
//   weights -= rate * (first / first_part) / (root / root_part + epsilon).
struct FloatAdam {
  float *weights = nullptr, *first = nullptr, *root = nullptr;
  const float* gradient = nullptr;
  float scale = 1, decay = 0, rate = 0;
  float beta1 = 0, beta2 = 0, first_part = 1, root_part = 1, epsilon = 0;
  bool decoupled = false;
};

// Functions compute the channels [begin, end).
struct FloatCellKernels {
  void (*forward)(const FloatCell&, int64_t begin, int64_t end) noexcept;
  void (*backward)(const FloatCell&, const FloatCellGradient&, int64_t begin, int64_t end) noexcept;
};

struct FloatKernels {
  const char* name;
  Features needs;
  // At least one logit.
  LogitSums (*logit_sums)(const float* logits, int64_t classes) noexcept;
  void (*softmax_gradient)(const float* logits, int64_t classes, const SoftmaxGradient&,
                           float* gradient) noexcept;
  void (*product)(const FloatProduct&) noexcept;
  // Writes panels from a matrix [depth, columns], whose rows lie `stride` apart, or from one
  // [columns, depth].
  void (*pack)(const float* rows, int64_t stride, int64_t depth, int64_t columns,
               float* panels) noexcept;
  void (*pack_columns)(const float* rows, int64_t stride, int64_t depth, int64_t columns,
                       float* panels) noexcept;
  // The outputs [begin, end) of all rows.
  void (*few_rows)(const FloatFewRows&, int64_t begin, int64_t end) noexcept;
  // Scores of a query to probabilities: exp(scale x) over the sum of these. scale > 0.
  void (*softmax)(float* x, int64_t count, float scale) noexcept;
  // The gradient of the scores in place of the gradient of the probabilities: p (dp - sum of p dp)
  // scale.
  void (*softmax_backward)(const float* p, float* dp, int64_t count, float scale) noexcept;
  void (*function)(FloatFunction, const float* x, float* y, int64_t count) noexcept;
  // dx = dy times the slope at x.
  void (*function_backward)(FloatFunction, const float* x, const float* dy, float* dx,
                            int64_t count) noexcept;
  FloatCellKernels rnn, lstm, gru;
  // Without the mean if rows are not centred.
  FloatNorm (*row_norm)(const float* x, int64_t channels, bool centred, double epsilon) noexcept;
  // y = x^ * scale + offset; without offsets if these are null.
  void (*normalise)(const float* x, const FloatNorm&, const float* scale, const float* offset,
                    int64_t channels, float* y) noexcept;
  void (*norm_backward)(const float* x, const float* dy, const FloatNorm&, const float* scale,
                        bool centred, int64_t channels, float* dx) noexcept;
  // of_scale += dy * x^, of_offset += dy; not if these are null.
  void (*add_norm_gradients)(const float* x, const float* dy, const FloatNorm&, int64_t channels,
                             float* of_scale, float* of_offset) noexcept;
  // For the elements [begin, end).
  void (*adam)(const FloatAdam&, int64_t begin, int64_t end) noexcept;
};

extern const FloatKernels kFloatsReference;
#if defined(__x86_64__)
extern const FloatKernels kFloatsAvx2;
extern const FloatKernels kFloatsAvx512Vnni;
#endif

}  // namespace mantissa::kernels
