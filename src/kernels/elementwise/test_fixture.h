// Shared by the tests of the element-wise kernels: a test for each row, and narrowing by its
// definition.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/common/test_rows.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/elementwise/test_values.h"
#include "numerics/rounding.h"

namespace mantissa::kernels {

// Narrows as METHODS section 0 says and counts clipped results.
template <typename T>
T narrow(Wide wide, int bits, int shift, WideStatistics& statistics) {
  const Wide rounded = exact_rne(wide, shift);
  const Wide clipped = exact_saturate(rounded, mantissa_limit(bits));
  statistics.saturated += clipped != rounded;
  return static_cast<T>(clipped);
}

inline void note(Wide wide, WideStatistics& statistics) {
  statistics.maximum = std::max(statistics.maximum, exact_magnitude(wide));
}

inline void expect_equal(const WideStatistics& got, const WideStatistics& wanted) {
  EXPECT_EQ(got.maximum, wanted.maximum);
  EXPECT_EQ(got.saturated, wanted.saturated);
}

class ElementwiseTest : public RowTest<ElementwiseKernels> {};

// Calls check(T{}, bits) for every width of gradients.
template <typename Check>
void for_each_gradient_type(Check&& check) {
  for (const int bits : kTestedGradientBits) {
    with_gradient_type(bits, [&](auto type) { check(type, bits); });
  }
}

// The same for every width of gradients between two layers.
template <typename Check>
void for_each_wide_gradient_type(Check&& check) {
  for (const int bits : kTestedWideGradientBits) {
    with_wide_gradient_type(bits, [&](auto type) { check(type, bits); });
  }
}

inline std::vector<const ElementwiseKernels*> elementwise_rows() {
  return {
    &kElementwiseReference,
#if defined(__x86_64__)
        &kElementwiseAvx2, &kElementwiseAvx512Vnni,
#endif
  };
}

}  // namespace mantissa::kernels
