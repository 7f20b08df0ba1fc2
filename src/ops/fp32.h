// The operators in fp32: the reference for integer formats, in the same networks, programs and
// runs. Convolutions use oneDNN. The slow parts of sequence networks use loops over vectors
// (kernels/floats). The rest are plain loops. Float sums depend on their order, so results may
// differ in their last bits with the number of threads.
#pragma once

#include "graph/op.h"
#include "kernels/common/parallel_ranges.h"
#include "kernels/floats/floats.h"
#include "kernels/kernel_table.h"

namespace mantissa::ops::fp32 {

extern const OpFunctions kNormaliseInput;
extern const OpFunctions kQuantiseInput;
extern const OpFunctions kQuantise;
extern const OpFunctions kConvolution;  // and linear
extern const OpFunctions kBatchNorm;
extern const OpFunctions kScaleOffset;
extern const OpFunctions kRescale;
extern const OpFunctions kRelu;
extern const OpFunctions kAdd;
extern const OpFunctions kSumGradients;
extern const OpFunctions kPass;  // for nodes that requantise in integers
extern const OpFunctions kRelu6;
extern const OpFunctions kLeakyRelu;
extern const OpFunctions kSigmoid;
extern const OpFunctions kTanh;
extern const OpFunctions kHardSigmoid;
extern const OpFunctions kHardSwish;
extern const OpFunctions kGelu;
extern const OpFunctions kSilu;
extern const OpFunctions kEmbedding;
extern const OpFunctions kPositionEmbedding;
extern const OpFunctions kLayerNorm;
extern const OpFunctions kRmsNorm;
extern const OpFunctions kAttention;
extern const OpFunctions kRnn;
extern const OpFunctions kLstm;
extern const OpFunctions kGru;
extern const OpFunctions kDropout;
extern const OpFunctions kMultiply;
extern const OpFunctions kPad;
extern const OpFunctions kChannelShuffle;
extern const OpFunctions kReverse;
extern const OpFunctions kConcat;
extern const OpFunctions kSlice;
extern const OpFunctions kMaxPool;  // windows may overlap
extern const OpFunctions kAveragePool;
extern const OpFunctions kGlobalAveragePool;
extern const OpFunctions kSoftmaxCrossEntropy;
extern const OpFunctions kSigmoidCrossEntropy;
extern const OpFunctions kMeanSquaredError;
extern const OpFunctions kRegressionError;
extern const OpFunctions kUpdateSgd;
extern const OpFunctions kUpdateMomentum;
extern const OpFunctions kUpdateNesterov;
extern const OpFunctions kUpdateAdam;
extern const OpFunctions kUpdateAdamW;
extern const OpFunctions kGradientNorm;

// Writes multiplier and offset ([channels]) of scale_offset for a batch norm, from the running
// statistics, or a rescale: y = x * multiplier + offset.
void freeze_affine(const OpContext& context, float* multiplier, float* offset);

// Probabilities of rows of logits [rows, classes]: softmax, in double.
void probabilities(const float* logits, int64_t rows, int64_t classes, double* probabilities);

// For OpFunctions::kernel: the name of plain loops, for reports.
inline const char* loops_name(const OpContext&) { return "fp32"; }

// The same if kernels/floats has the loops.
inline const char* floats_name(const OpContext& c) { return c.kernels->floats->name; }

// Elements below which a thread is not worth waking.
constexpr int64_t kFloatsPerThread = 8192;

// Calls function(begin, end) on ranges that cover [0, count), on the context's threads.
template <typename Function>
void for_ranges(const OpContext& c, int64_t count, Function&& function) {
  kernels::parallel_ranges(*c.kernel.pool, count, kFloatsPerThread,
                           [&](int64_t begin, int64_t end, int64_t) { function(begin, end); });
}

// The same for each index.
template <typename Function>
void for_each(const OpContext& c, int64_t count, Function&& function) {
  for_ranges(c, count, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) function(i);
  });
}

// Images one by one.
template <typename Function>
void for_images(const OpContext& c, int64_t count, Function&& function) {
  kernels::parallel_ranges(*c.kernel.pool, count, 1, [&](int64_t begin, int64_t end, int64_t) {
    for (int64_t i = begin; i < end; ++i) function(i);
  });
}

}  // namespace mantissa::ops::fp32
