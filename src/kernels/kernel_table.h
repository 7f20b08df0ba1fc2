// Which kernel of each family runs: chosen once, by instruction set.
#pragma once

#include "base/cpu.h"
#include "kernels/batch_norm/batch_norm.h"
#include "kernels/bit_counts/bit_counts.h"
#include "kernels/convolution/convolution.h"
#include "kernels/depthwise/depthwise.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/peak/peak.h"
#include "kernels/pooling/pooling.h"
#include "kernels/rounding/rounding.h"
#include "kernels/softmax/softmax.h"
#include "kernels/squared_error/squared_error.h"
#include "kernels/update/update.h"
#include "kernels/wide/wide.h"

namespace mantissa::kernels {

struct KernelTable {
  const ConvolutionKernels* convolution = nullptr;
  const ConvolutionKernels* depthwise = nullptr;
  const ElementwiseKernels* elementwise = nullptr;
  const BatchNormKernels* batch_norm = nullptr;
  const PoolingKernels* pooling = nullptr;
  const SoftmaxKernels* softmax = nullptr;
  const SquaredErrorKernels* squared_error = nullptr;
  const UpdateKernels* update = nullptr;
  const RoundingKernels* rounding = nullptr;
  const BitCountKernels* bit_counts = nullptr;
  const WideKernels* wide = nullptr;
  const PeakKernels* peak = nullptr;
};

// The best kernels (kernels.inc) that need no more than `isa`, which this CPU must have.
KernelTable select_kernels(Isa isa);

}  // namespace mantissa::kernels
