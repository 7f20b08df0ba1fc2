// The layers that suffer most from few bits, and how much more bits for them would win back.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace mantissa::quantise {

// One layer quantised alone.
struct LayerLoss {
  std::string name;
  double loss = 0;      // of the network with this layer quantised and no other
  int64_t weights = 0;  // of the layer
  int bits = 0;         // of its weights then
  int input_bits = 8;   // of its input then
};

struct SensitivityRow {
  int64_t layer = 0;          // index of the LayerLoss
  double rise = 0;            // of the loss by this layer; below 0 if it fell
  double share = 0;           // of all rises, in [0, 1]
  int64_t more_bytes = 0;     // of weights, with the bits at which layers may be kept
  bool has_few_bits = false;  // fewer than these, of weights or of the input
};

// The effect of keeping layers at more bits.
struct SensitivityAdvice {
  std::vector<int64_t> layers;  // indices, the largest rise first
  double won_back = 0;          // of all rises, in [0, 1]
  int64_t more_bytes = 0;
};

struct SensitivityTable {
  std::vector<SensitivityRow> rows;       // the largest rise first, equal ones in the given order
  std::vector<SensitivityAdvice> advice;  // ascending; empty if the loss rises nowhere
};

// `loss` is the loss of the network without quantised layers. Rises of single layers are taken to
// add up, which is about true. The advice has the fewest layers that win back a half, four fifths
// and nineteen twentieths, each once; or all layers if they win back less. Layers with `kept_bits`
// or more on both sides stay out of it.
// Refused: losses that are not finite, bits below 1.
Result<SensitivityTable> sensitivity_table(double loss, std::span<const LayerLoss> layers,
                                           int kept_bits);

}  // namespace mantissa::quantise
