// All loops, and MANTISSA_FLOAT_LOOPS, which lists them in the order of FloatKernels.
//
// Include inside an anonymous namespace of mantissa::kernels, after Floats, Ints, fused() and
// root(). Each header is built on those before it.
// clang-format off
#include "kernels/floats/vectors.h"
#include "kernels/floats/functions.h"
#include "kernels/floats/softmax_loops.h"
#include "kernels/floats/function_loops.h"
#include "kernels/floats/product_loops.h"
#include "kernels/floats/cell_loops.h"
#include "kernels/floats/norm_loops.h"
#include "kernels/floats/adam_loops.h"
// clang-format on

#define MANTISSA_FLOAT_LOOPS                                                                      \
  logit_sums, softmax_gradient, product, pack, pack_columns, few_rows, softmax, softmax_backward, \
      function, function_backward, {RnnStep::forward, RnnStep::backward},                         \
      {LstmStep::forward, LstmStep::backward}, {GruStep::forward, GruStep::backward}, row_norm,   \
      normalise, norm_backward, add_norm_gradients, adam
