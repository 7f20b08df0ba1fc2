// The numbers of examples that networks take at fixed exponents.
#pragma once

namespace mantissa {

// Exponents of 16-bit mantissas, of numbers that are standardised: mean 0 and deviation 1. So
// inputs reach 8 deviations from the mean in steps of 1/4096, numbers to predict 32 in steps of
// 1/1024. What lies beyond is taken for the end.
constexpr int kFeatureExponent = -12;
constexpr int kTargetExponent = -10;

// Exponent of the weights of rows in losses, 16-bit mantissas from 0 up: to 31 in steps of 1/1024.
constexpr int kWeightExponent = -10;

}  // namespace mantissa
