// The exponents of numbers that networks take in examples.
#pragma once

namespace mantissa {

// Exponents of 16-bit mantissas, for standardised numbers: mean 0 and deviation 1. Inputs then
// reach 8 deviations from the mean in steps of 1/4096, numbers to predict 32 in steps of 1/1024.
// Numbers beyond are clipped to the ends.
constexpr int kFeatureExponent = -12;
constexpr int kTargetExponent = -10;

// Exponent of the shares of classes in a target that is a distribution: 1 is exact.
constexpr int kShareExponent = -14;

// Exponent of the weights of rows in losses, 16-bit mantissas from 0 up: to 31 in steps of 1/1024.
constexpr int kWeightExponent = -10;

}  // namespace mantissa
