// The normative row products.
#include "kernels/row_products/row_products.h"

namespace mantissa::kernels {
namespace {

void multiply(const RowProducts& args, int64_t* sums) noexcept {
  for (int64_t i = 0; i < args.count; ++i) {
    sums[i] = 0;
    for (int64_t j = 0; j < args.width; ++j) {
      sums[i] += int64_t{args.rows[i * args.width + j]} * args.vector[j];
    }
  }
}

}  // namespace

const RowProductKernels kRowProductsReference = {"row_products_reference", kNeedsNothing, multiply};

}  // namespace mantissa::kernels
