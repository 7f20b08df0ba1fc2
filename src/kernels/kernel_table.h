// The kernels of each family that run: chosen once, by the features of the CPU.
#pragma once

#include <vector>

#include "base/system/cpu.h"
#include "kernels/attention/attention.h"
#include "kernels/batch_norm/batch_norm.h"
#include "kernels/bit_counts/bit_counts.h"
#include "kernels/blocks/blocks.h"
#include "kernels/convolution/convolution.h"
#include "kernels/depthwise/depthwise.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/peak/peak.h"
#include "kernels/pooling/pooling.h"
#include "kernels/recurrent/recurrent.h"
#include "kernels/rescale/rescale.h"
#include "kernels/rounding/rounding.h"
#include "kernels/row_norms/row_norms.h"
#include "kernels/row_products/row_products.h"
#include "kernels/softmax/softmax.h"
#include "kernels/squared_error/squared_error.h"
#include "kernels/update/update.h"
#include "kernels/wide/wide.h"

namespace mantissa::kernels {

struct FloatKernels;  // kernels/floats/floats.h

struct KernelTable {
  // Rows may decline work: then the one before is asked (convolution/choice.h).
  std::vector<const ConvolutionKernels*> convolution;
  const ElementwiseKernels* elementwise = nullptr;
  const BatchNormKernels* batch_norm = nullptr;
  const PoolingKernels* pooling = nullptr;
  const SoftmaxKernels* softmax = nullptr;
  const AttentionKernels* attention = nullptr;
  const RecurrentKernels* recurrent = nullptr;
  const RowNormKernels* row_norms = nullptr;
  const RowProductKernels* row_products = nullptr;
  const SquaredErrorKernels* squared_error = nullptr;
  const UpdateKernels* update = nullptr;
  const RoundingKernels* rounding = nullptr;
  const BitCountKernels* bit_counts = nullptr;
  const WideKernels* wide = nullptr;
  const RescaleKernels* rescale = nullptr;
  const BlockKernels* blocks = nullptr;
  const PeakKernels* peak = nullptr;
  const FloatKernels* floats = nullptr;  // of fp32
};

// The best kernels (the last of kernels.inc) that this CPU can run and `isa` allows.
KernelTable select_kernels(Isa isa);

// The best kernels for a CPU with these features.
KernelTable select_kernels(Features available);

}  // namespace mantissa::kernels
