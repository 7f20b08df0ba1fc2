#include "kernels/kernel_table.h"

#include "kernels/floats/floats.h"

namespace mantissa::kernels {
namespace {

// Rows come in the order of kernels.inc: the last that may run is the best.
template <typename Row>
void consider(const Row*& best, const Row& row, Features available) {
  if (available.contains(row.needs)) best = &row;
}

void consider(std::vector<const ConvolutionKernels*>& rows, const ConvolutionKernels& row,
              Features available) {
  if (available.contains(row.needs)) rows.push_back(&row);
}

}  // namespace

KernelTable select_kernels(Isa isa) { return select_kernels(features_of(isa) & cpu_features()); }

KernelTable select_kernels(Features available) {
  KernelTable table;
#define MANTISSA_KERNEL(family, symbol) consider(table.family, symbol, available);
#include "kernels/kernels.inc"
#undef MANTISSA_KERNEL
  return table;
}

}  // namespace mantissa::kernels
