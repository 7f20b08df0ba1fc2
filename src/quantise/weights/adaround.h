// Rounding weights up or down so that a layer's outputs change least: AdaRound (M. Nagel and
// others, "Up or down? Adaptive rounding for post-training quantization", 2020). It is the training
// of a part of a network that post-training quantisation may do (QuantInit [0118]).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "quantise/linear_grid.h"

namespace mantissa::quantise {

// A linear layer, or a convolution whose windows are rows.
struct RoundingLayer {
  std::span<const float> inputs;    // [rows, features]: the layer's inputs in the quantised network
  std::span<const float> targets;   // [rows, outputs] without bias, or empty: inputs * weights
  std::span<const double> weights;  // [outputs, features]
  int64_t outputs = 1;
  std::span<const double> scales;  // one for each equal run of outputs; they stay
  MantissaRange range;
};

struct RoundingSettings {
  int steps = 1000;
  int batch = 32;          // rows in each step
  double rate = 0.05;      // of Adam
  double regulariser = 3;  // weight of sum (1 - |2 h - 1|^beta)
  uint64_t seed = 0;       // of the rows' order
};

struct RoundedWeights {
  std::vector<int32_t> mantissas;  // [outputs, features]
  double nearest_error = 0;        // squared error of outputs, over all rows, of nearest mantissas
  double error = 0;                // the same of these; never more
};

// Each weight lies between two mantissas, and h in [0, 1] is its position: a sigmoid of a trained
// number, stretched to [-0.1, 1.1] and clipped. Adam minimises the outputs' squared error, divided
// by the error of nearest rounding, with a regulariser that pushes h to 0 or 1: not in the first
// fifth of the steps, then with beta from 20 down to 2. Then h is rounded. An output keeps the
// nearest mantissas if they are no worse over all rows. In doubles and in a fixed order.
//
// Refused: shapes that do not fit, numbers that are not finite, settings out of range.
Result<RoundedWeights> round_by_training(const RoundingLayer& layer,
                                         const RoundingSettings& settings);

}  // namespace mantissa::quantise
