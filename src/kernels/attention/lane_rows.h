// Attention, for any instruction set.
//
// Compiled once for each (CMakeLists.txt), after its kernels/lanes/ISA/target.h.
#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#include "kernels/attention/attention.h"
#include "kernels/attention/attention_room.h"
#include "numerics/exponential.h"
#include "numerics/rounding.h"

#if defined(MANTISSA_LANES)

namespace mantissa::kernels {
MANTISSA_ISA_BEGIN
namespace {
#include "kernels/common/round_even_loops.h"
#include MANTISSA_LANES(integers)
// Built on these.
#include "kernels/lanes/arithmetic.h"
// Built on that.
#include "kernels/attention/pair_products.h"
// Built on that.
#include "kernels/attention/pair_packing.h"
#include "kernels/attention/row_loops.h"
#include "kernels/lanes/exp2.h"
// Built on all.
#include "kernels/attention/block_scores.h"
// Built on that.
#include "kernels/attention/block_gradients.h"
// Built on that.
#include "kernels/attention/few_queries.h"
// Built on that.
#include "kernels/attention/block_loops.h"
}  // namespace

const AttentionKernels MANTISSA_ROW(Attention) = {MANTISSA_ROW_NAME("attention"),
                                                  MANTISSA_ISA_NEEDS, align, forward, backward};

}  // namespace mantissa::kernels
// Here, not earlier: templates are instantiated at the end, with the options in force there.
MANTISSA_TARGET_END
#endif
