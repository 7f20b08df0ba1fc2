// The loops of recurrent layers, for any instruction set.
//
// Compiled once for each (CMakeLists.txt), after its kernels/lanes/ISA/target.h.
#include <algorithm>
#include <bit>
#include <cstring>

#include "kernels/recurrent/gate_tables.h"
#include "kernels/recurrent/recurrent.h"
#include "numerics/exponent.h"

#if defined(MANTISSA_LANES)

namespace mantissa::kernels {
MANTISSA_ISA_BEGIN
namespace {
#include "kernels/common/round_even_loops.h"
#include MANTISSA_LANES(integers)
// Built on these.
#include "kernels/lanes/arithmetic.h"
#include "kernels/recurrent/product_loops.h"
// Built on these.
#include "kernels/recurrent/cell_loops.h"
// Built on these.
#include "kernels/recurrent/gru_loops.h"
#include "kernels/recurrent/lstm_loops.h"
}  // namespace

const RecurrentKernels MANTISSA_ROW(Recurrent) = {MANTISSA_ROW_NAME("recurrent"),
                                                  MANTISSA_ISA_NEEDS,
                                                  products,
                                                  {rnn_forward, rnn_backward},
                                                  {lstm_forward, lstm_backward},
                                                  {gru_forward, gru_backward},
                                                  add_output_gradient,
                                                  add_carry,
                                                  shorten,
                                                  pair_rows<int32_t>,
                                                  pair_rows<int16_t>,
                                                  largest_of<int32_t>,
                                                  largest_of<int16_t>};

}  // namespace mantissa::kernels
// Here, not earlier: templates are instantiated at the end, with the options in force there.
MANTISSA_TARGET_END
#endif
