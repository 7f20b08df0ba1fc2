#include "kernels/kernel_table.h"

namespace mantissa::kernels {
namespace {

template <typename Row>
void consider(const Row*& best, const Row& row, Isa isa) {
  if (row.isa > isa || !is_supported(row.isa)) return;
  if (best == nullptr || best->isa <= row.isa) best = &row;
}

}  // namespace

KernelTable select_kernels(Isa isa) {
  KernelTable table;
#define MANTISSA_KERNEL(family, symbol) consider(table.family, symbol, isa);
#include "kernels/kernels.inc"
#undef MANTISSA_KERNEL
  return table;
}

}  // namespace mantissa::kernels
