// Weights in blocks of small numbers with a scale, as files have them, to mantissas of 8 bits.
#pragma once

#include <cstdint>

#include "base/system/cpu.h"
#include "reference/elements/blocks.h"

namespace mantissa::kernels {

// The argument of a call (reference/elements/blocks.h).
using ExpandBlocks = RefExpandBlocks;

struct BlockKernels {
  const char* name;
  Features needs;
  // Rows [begin, end) on the calling thread.
  void (*expand)(const ExpandBlocks&, int64_t begin_row, int64_t end_row) noexcept;
};

extern const BlockKernels kBlocksReference;
#if defined(__x86_64__)
extern const BlockKernels kBlocksAvx2;
extern const BlockKernels kBlocksAvx512Vnni;
#endif

}  // namespace mantissa::kernels
