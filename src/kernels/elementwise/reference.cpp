// The normative element-wise loops, compiled for any CPU.
#include <algorithm>
#include <type_traits>

#include "kernels/elementwise/elementwise.h"
#include "numerics/rounding.h"

namespace mantissa::kernels {
namespace {
#include "kernels/elementwise/elementwise_loops.h"
}  // namespace

const ElementwiseKernels kElementwiseReference = {"elementwise_reference",
                                                  kNeedsNothing,
                                                  requantise,
                                                  normalise_input,
                                                  add,
                                                  add_wide,
                                                  relu,
                                                  relu_gradient,
                                                  sum_rows,
                                                  sum_magnitudes,
                                                  channel_maxima,
                                                  requantise_channels,
                                                  count_values,
                                                  look_up,
                                                  clamp,
                                                  within,
                                                  extremes,
                                                  multiply,
                                                  scale_gradient,
                                                  sum_products,
                                                  scale_within,
                                                  sum_by_table,
                                                  shift_channels};

}  // namespace mantissa::kernels
