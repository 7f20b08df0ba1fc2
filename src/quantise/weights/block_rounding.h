// Weights of a linear layer in blocks along a row, rounded so that the layer's outputs change
// least (METHODS section 3, 0159).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/system/thread_pool.h"
#include "numerics/block_grid.h"
#include "quantise/weights/input_products.h"

namespace mantissa::quantise {

enum class BlockMethod : uint8_t {
  kNearest,       // scales that clip nothing, as ggml's reference has them; to the nearest step
  kLeastSquares,  // scales by least squares, weighted by the squares of inputs; to the nearest
  kHessian,       // the same, and later weights of a row make up for the errors of earlier ones
};

struct BlockLayer {
  std::span<const float> weights;  // [rows, features], whole blocks, of at most kLargestInBlocks
  int64_t rows = 0;
  BlockKind kind = BlockKind::kQ4_0;
  BlockMethod method = BlockMethod::kLeastSquares;
};

struct BlockWeights {
  std::vector<BlockGrid> grids;  // [rows, features / weights of a block]
  std::vector<int8_t> steps;     // [rows, features]
  // Over the inputs: the root of the squared error of outputs / squares of outputs. By kNearest,
  // and of these.
  double nearest_error = 0, error = 0;
};

// With E = W - the rounded W, the squared error of a row's outputs is |E R|^2 by the factor R of
// the inputs, and its part k is R[k][k] E[k] + the sum over i < k of E[i] R[i][k]. kHessian takes
// the weights of a row from the first to the last, and rounds each so that its own part is least.
// That is GPTQ (Frantar et al. 2022), in the form of Chee et al. 2023. A block's grid fits the
// numbers that the rest of the row would have without rounding, after the errors before it.
//
// In doubles; each row for itself, so threads change no bit.
BlockWeights round_to_blocks(const BlockLayer& layer, const InputFactor& inputs, ThreadPool& pool);

}  // namespace mantissa::quantise
