// Quantisation-aware training, number by number. For each training method: how it quantises, its
// gradients, and the starting values with which its first forward pass gives exactly the numbers of
// post-training quantisation (QuantInit [0043]-[0063], [0088]-[0103]; METHODS section 3). These are
// the definitions in doubles that operators are compared with.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "quantise/linear_grid.h"

namespace mantissa::quantise {

enum class TrainingMethod {
  kWrpn,              // A. Mishra and others, 2017, with the source text's scales and offsets
  kDorefa,            // S. Zhou and others, 2016
  kPact,              // J. Choi and others, 2018; its weights are DoReFa's
  kHalfWaveGaussian,  // Z. Cai and others, 2017
  kUniform,           // a grid that stays as found
  kLsq,               // S. Esser and others, 2020
  kLsqPlus,           // Y. Bhalgat and others, 2020
};

// The parameters that a method trains besides weights. The rest keeps its starting values.
struct TrainedValues {
  bool weight_scale = false;       // alpha
  bool activation_scale = false;   // beta
  bool activation_offset = false;  // m
};
TrainedValues trained_values(TrainingMethod method);

// Whether weights are trained through tanh: for DoReFa and PACT.
bool has_tangents(TrainingMethod method);

// Whether weights leave the grid, and their gradient stops beyond -n and n: for WRPN.
bool stops_gradients(TrainingMethod method);

// Weights of one part: a weight w (the trained, latent number) becomes scale * q.
//
//   WRPN             q = clip(round(w n), lo, hi), value = alpha0 (q / n), n = 2^(bits - 1)
//   DoReFa, PACT     q = lo + step round(L (tanh w / (2 M) + 1/2)), clipped, L = levels - 1,
//                    value = alpha q
//   the others       q = clip(round(w / alpha), lo, hi), value = alpha q
//
// DoReFa's M is the largest |tanh w| of the tensor. Here it is a constant that the start sets,
// since numbers of post-training quantisation need not reach both ends of the range; and its
// values, odd multiples of 1 / L, become those of the range.
struct WeightForm {
  TrainingMethod method = TrainingMethod::kWrpn;
  MantissaRange range;
  double scale = 1;            // the method's own: alpha0 = n alpha for WRPN, else alpha
  double largest_tangent = 1;  // M

  int64_t mantissa(double w) const;
  double value(int64_t mantissa) const;
  double quantised(double w) const { return value(mantissa(w)); }
};

// alpha as the quantisers give it.
WeightForm weight_form(TrainingMethod method, const MantissaRange& range, double alpha);
double alpha_of(const WeightForm& form);

// The w for a mantissa: q / n, or artanh(M (2 (q - lo) / (hi - lo) - 1)), or alpha q. Then
// quantised(w) is alpha * q, bit for bit, if alpha has at most 24 significant bits.
double latent_weight(const WeightForm& form, int64_t mantissa);

// The same for the weight that the mantissa was made of. It stays between the points of the grid,
// as far as it has this mantissa and lies in the range.
double latent_weight(const WeightForm& form, int64_t mantissa, double weight);

struct WeightGradient {
  double weight = 0;  // of w
  double scale = 0;   // of the form's scale; a sum over the part is the scale's gradient
};

// The gradients of a loss; g is its gradient with respect to the quantised weight. Rounding passes
// gradients on (straight-through estimator):
//
//   WRPN             dw = alpha0 g where -1 <= w <= 1, d alpha0 = g q / n
//   DoReFa, PACT     dw = g alpha step L (1 - tanh^2 w) / (2 M) except where round is clipped,
//                    d alpha = g q
//   Gaussian, uniform  dw = g where lo <= w / alpha <= hi, d alpha = g q
//   LSQ, LSQ+        the same dw, d alpha = g (q - w / alpha) there, g q elsewhere
//
// The ends of the range count as inside, although LSQ's authors leave them out: weights that start
// on them would never leave.
WeightGradient gradient(const WeightForm& form, double w, double g);

// The squared slope of the quantised weight over w. A step of -rate * dw moves the quantised weight
// by slope^2 times the step without quantising at the same rate: alpha0^2 for WRPN. The learning
// rate of w divided by this gives that step. For DoReFa and PACT the slope at w = 0.
double squared_slope(const WeightForm& form);

// Activations: all methods have the text's forward pass q = round(clip(x - m, 0, beta) / scale),
// x_q = scale q + m (LinearGrid), with their own parameters in its place:
//
//   WRPN       beta and m trained        dx = g inside, d beta = g above, d m = g outside
//   DoReFa     [0, 1] became [m, m + beta], as it starts             dx = g inside
//   PACT       its alpha is beta, trained; m as it starts  dx = g inside, d beta = g where x >= top
//   Gaussian   its step is the scale, as it starts                   dx = g where bottom < x <= top
//   uniform    scale and m as they start                             dx = g inside
//   LSQ        the scale, trained; m as it starts
//   LSQ+       scale and m, trained                                  d m = g outside
//
// with d scale = g (q - (x - m) / scale) inside for LSQ and LSQ+. "Inside" is [m, m + beta],
// without its end for PACT. Signed grids are clipped at scale * lo and scale * hi; beta is scale
// (hi - lo).
struct ActivationGradient {
  double input = 0;   // of x
  double scale = 0;   // of the scale; beta's is 1 / (hi - lo) of it
  double offset = 0;  // of m
};

// For all values, trained or not: trained_values says which are used.
ActivationGradient gradient(TrainingMethod method, const LinearGrid& grid, double x, double g);

// LSQ's factor of the gradient of a scale: 1 / sqrt(numbers * hi). It brings the scale's steps to
// the size of the weights' steps.
double scale_gradient_factor(int64_t numbers, const MantissaRange& range);

// The scale of least squared error for the positive half of normal numbers of deviation 1, with
// mantissas 0 to 2^bits - 1, for 1 to 8 bits. Training with half-wave Gaussian quantisation starts
// with it if nothing was calibrated.
double half_wave_gaussian_scale(int bits);

}  // namespace mantissa::quantise
