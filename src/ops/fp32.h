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

extern const OpRows kNormaliseInput;
extern const OpRows kQuantiseInput;
extern const OpRows kQuantise;
extern const OpRows kConvolution;  // and linear
extern const OpRows kTransposedConvolution;
extern const OpRows kBatchNorm;
extern const OpRows kScaleOffset;
extern const OpRows kRescale;
extern const OpRows kRelu;
extern const OpRows kAdd;
extern const OpRows kSubtract;
extern const OpRows kSumGradients;
extern const OpRows kPass;  // for nodes that requantise in integers
extern const OpRows kRelu6;
extern const OpRows kLeakyRelu;
extern const OpRows kSigmoid;
extern const OpRows kTanh;
extern const OpRows kHardSigmoid;
extern const OpRows kHardSwish;
extern const OpRows kGelu;
extern const OpRows kGeluTanh;
extern const OpRows kSilu;
extern const OpRows kElu;
extern const OpRows kSoftplus;
extern const OpRows kMish;
extern const OpRows kScale;
extern const OpRows kPrelu;
extern const OpRows kEmbedding;
extern const OpRows kPositionEmbedding;
extern const OpRows kSinusoidalPositions;
extern const OpRows kRotary;
extern const OpRows kLayerNorm;
extern const OpRows kRmsNorm;
extern const OpRows kGroupNorm;
extern const OpRows kAttention;
extern const OpRows kRnn;
extern const OpRows kLstm;
extern const OpRows kGru;
extern const OpRows kDropout;
extern const OpRows kMultiply;
extern const OpRows kPad;
extern const OpRows kDepthTaps;
extern const OpRows kUpsample;
extern const OpRows kBilinearResize;
extern const OpRows kChannelShuffle;
extern const OpRows kReverse;
extern const OpRows kConcat;
extern const OpRows kConcatPositions;
extern const OpRows kPrependRows;
extern const OpRows kGatherRows;
extern const OpRows kScatterRows;
extern const OpRows kSlice;
extern const OpRows kMaxPool;  // windows may overlap
extern const OpRows kAveragePool;
extern const OpRows kGlobalAveragePool;
extern const OpRows kReduceMax;
extern const OpRows kReduceMean;
extern const OpRows kReduceSum;
extern const OpRows kSoftmax;
extern const OpRows kSoftmaxCrossEntropy;
extern const OpRows kSigmoidCrossEntropy;
extern const OpRows kMeanSquaredError;
extern const OpRows kRegressionError;
extern const OpRows kSoftCrossEntropy;
extern const OpRows kDistilledCrossEntropy;
extern const OpRows kDiceLoss;
extern const OpRows kContrastiveLoss;
extern const OpRows kTripletLoss;
extern const OpRows kCtcLoss;
extern const OpRows kUpdateSgd;
extern const OpRows kUpdateMomentum;
extern const OpRows kUpdateNesterov;
extern const OpRows kUpdateAdam;
extern const OpRows kUpdateAdamW;
extern const OpRows kGradientNorm;

// Writes multiplier and offset ([channels]) of scale_offset for a batch norm, from the running
// statistics, or a rescale: y = x * multiplier + offset.
void freeze_affine(const OpContext& context, float* multiplier, float* offset);

// Probabilities of rows of logits [rows, classes]: softmax, in double.
void probabilities(const float* logits, int64_t rows, int64_t classes, double* probabilities);

// For Rows::kernel: the name of plain loops, for reports.
inline const char* loops_name(const OpContext&) { return "fp32"; }

// The same if kernels/floats has the loops.
inline const char* floats_name(const OpContext& c) { return c.kernel.table->floats->name; }

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

// The softmax of a row of logits divided by a temperature, in units of 2^-bits, each to nearest.
void write_shares(const float* logits, int64_t classes, double temperature, int bits,
                  int16_t* shares);

}  // namespace mantissa::ops::fp32
