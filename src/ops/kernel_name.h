// The kernel that does an operator's work, for reports.
#pragma once

#include "graph/op.h"
#include "kernels/kernel_table.h"

namespace mantissa::ops {

// For Op::kernel: the name of the family's chosen row, kernel_name<&kernels::KernelTable::pooling>.
template <auto kFamily>
const char* kernel_name(const OpContext& context) {
  return (context.kernel.table->*kFamily)->name;
}

}  // namespace mantissa::ops
