// Weights of classes: how much an example counts in training, by its label.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "data/batches/examples.h"
#include "data/tables/row_weights.h"

namespace mantissa {

struct ClassWeights {
  bool balanced = false;        // each class counts as much as any other
  std::vector<double> weights;  // or these, one for each class

  bool any() const { return balanced || !weights.empty(); }
  bool operator==(const ClassWeights&) const = default;
};

// "none", "balanced", or "1,2,0.5": from 0 to kMostWeight, not all of them 0.
Result<ClassWeights> parse_class_weights(std::string_view text);
std::string to_string(const ClassWeights& weights);

// Mantissas at kWeightExponent, one for each class, to nearest even. Balanced: all examples /
// (classes * examples of the class), all divided by one power of two if the largest would be above
// kMostWeight; at least one unit for a class that has examples. Fails if there are not as many
// weights as classes.
Result<std::vector<int16_t>> class_weight_mantissas(const ClassWeights& weights,
                                                    std::span<const Label> labels, int64_t classes);

// The examples, with the tensor kWeightTensor: the weight of the label in kLabelTensor.
Examples with_class_weights(Examples examples, std::vector<int16_t> mantissas);

}  // namespace mantissa
