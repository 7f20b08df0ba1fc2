// The loops of row products compiled for AVX-512.
#include <algorithm>

#include "base/target.h"
#include "kernels/row_products/row_products.h"

#if defined(__x86_64__)
namespace mantissa::kernels {
MANTISSA_TARGET_AVX512VNNI_BEGIN
namespace {
#include "kernels/row_products/row_product_loops.h"
}  // namespace

const RowProductKernels kRowProductsAvx512Vnni = {"row_products_avx512vnni", kNeedsAvx512Vnni, multiply};

}  // namespace mantissa::kernels
MANTISSA_TARGET_END
#endif
