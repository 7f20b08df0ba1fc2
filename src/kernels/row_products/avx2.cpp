// The loops of row products compiled for AVX2.
#include <algorithm>

#include "base/target.h"
#include "kernels/row_products/row_products.h"

#if defined(__x86_64__)
namespace mantissa::kernels {
MANTISSA_TARGET_AVX2_BEGIN
namespace {
#include "kernels/row_products/row_product_loops.h"
}  // namespace

const RowProductKernels kRowProductsAvx2 = {"row_products_avx2", kNeedsAvx2, multiply};

}  // namespace mantissa::kernels
MANTISSA_TARGET_END
#endif
