// Post-training quantisation of activations: scale and offset from statistics of calibration
// inputs (QuantInit [0066]-[0084], [0128]-[0136]; METHODS section 3).
#pragma once

#include "base/result.h"
#include "quantise/activations/activation_statistics.h"
#include "quantise/linear_grid.h"

namespace mantissa::quantise {

enum class ActivationMethod {
  kMmse,             // least squared error
  kMinMax,           // up to the largest value
  kPercentile,       // the least that clips at most a given part of the values
  kKullbackLeibler,  // least divergence of the histogram
};

// The offset m of unsigned grids. If no value is negative it is 0. Signed grids have none.
enum class OffsetRule {
  kMeanOfMinima,  // of the calibration inputs: as in the source text
  kMinimum,       // the smallest value of all
};

struct ActivationSettings {
  ActivationMethod method = ActivationMethod::kMmse;
  int bits = 8;
  RangeConvention convention = RangeConvention::kUnsigned;
  OffsetRule offset = OffsetRule::kMeanOfMinima;
  // Significant bits of the scale: 1 powers of two, 24 floats. With no more than 24 the saturation
  // value beta = N * scale is exact in double, and so is beta / N, which gives the scale back.
  int scale_bits = 24;
  bool whole_offset = false;  // m becomes a multiple of the scale, so that zero is on the grid
  double clipped = 1e-4;      // of kPercentile: part of the values that may be clipped, in [0, 1)
};

// The grid for a tensor's values. Values that are never above the offset get the scale 1. MMSE
// judges saturation values from the whole range to 2^-8 of it, ever closer around the best, and
// also the other methods' values. So it is never worse than these on the histogram. Of equal errors
// it takes the larger scale. Refused: nothing seen, values that are not finite, settings out of
// range.
Result<LinearGrid> fit_activations(const ActivationStatistics& statistics,
                                   const ActivationSettings& settings);

// sum (x - quantised x)^2 over the histogram. A cell of several numbers counts as its middle, or,
// inside the range of a grid with steps finer than the cells, as step^2 / 12 for each number.
double squared_error(const ActivationStatistics& statistics, const LinearGrid& grid);

}  // namespace mantissa::quantise
