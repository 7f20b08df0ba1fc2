// The structs of attributes that more than one file reads. An operator whose attributes only its
// own file reads has the struct there. The operators' schemas say names, ranges and defaults.
#pragma once

#include <cstdint>

#include "graph/attributes.h"
#include "numerics/block_kind.h"
#include "numerics/nearest_fraction.h"

namespace mantissa::ops {

enum class WeightRange : uint8_t { kSymmetric, kFull };
// The range of initial weights: sqrt(6 / inputs) (He), sqrt(1 / inputs), as classifiers have it, or
// none: all are 0.
enum class LayerInitialiser : uint8_t { kHe, kFanIn, kZero };

// convolution, linear, and the rescaled forms of both. The values here are those of operators that
// lack the attribute.
struct LayerAttributes {
  int64_t channels = 0;
  int64_t kernel = 1, stride = 1, padding = 0;
  // For the width; 0 (for padding -1): as for the height.
  int64_t kernel_width = 0, stride_width = 0, padding_width = -1;
  int64_t groups = 1, dilation = 1;
  bool causal = false;  // of a sequence: no result reads a later position
  bool bias = false;
  bool classifier = false;  // starts with small logits
  LayerInitialiser initialiser = LayerInitialiser::kHe;
  // Weights on a fixed grid: mantissas of this many bits at this exponent. 0 bits: the format's
  // bits, with an exponent that follows the weights.
  int weight_bits = 0, weight_exponent = 0;
  WeightRange weight_range = WeightRange::kSymmetric;  // full: one more below zero (WeightGrid)
  bool weight_tanh = false;                            // trained through tanh
  bool weight_stops = false;                           // gradients stop beyond the grid
  BlockKind weight_blocks = BlockKind::kNone;          // of a linear layer
  int least_bits = 0;                                  // of the result's mantissas
  // Inputs of up to so many bits are read as they are where rows have exponents of their own; wider
  // ones, and all wide ones elsewhere, are requantised to the bits of activations.
  int input_bits = 0;
  bool relu6 = false;                                  // rescaled: the result is clipped at 6
  bool full_range = false;  // rescaled: without a ReLU, mantissas are -128 to 127
  int most = 0;             // rescaled: mantissas are 0 to this; 0: there is no such limit
};

// transposed_convolution.
struct TransposedAttributes {
  int64_t channels = 0;
  int64_t kernel = 0, stride = 0, padding = 0, output_padding = 0;
  // For the width; 0 (for paddings -1): as for the height.
  int64_t kernel_width = 0, stride_width = 0, padding_width = -1, output_padding_width = -1;
  int64_t groups = 1;
  bool bias = false;
};

enum class Learns : uint8_t { kLsq, kClip, kPact, kHalfWave };

// quantise, and rescale, which has the grid of the values before its layer: without bits none.
struct QuantiseAttributes {
  int bits = 0, exponent = 0;
  bool is_signed = false;
  bool offset = false;
  Learns learns = Learns::kLsq;
  int64_t channels = 0;
  int least_bits = 0;  // of a rescale's mantissas
};

// batch_norm and its inverted form.
struct BatchNormAttributes {
  bool zero_scale = false;
  int64_t room = 0;  // for the inputs of one channel out of this many
};

// layer_norm and rms_norm.
struct RowNormAttributes {
  double epsilon = 0;
  int64_t heads = 1;  // parts of a row that are normalised by themselves, with the same scale
  int least_bits = 0;
};

struct GroupNormAttributes {
  int64_t groups = 1;
  double epsilon = 0;
};

// The axes of a pool's windows: height and width of each image, or the depth of a volume.
enum class PooledAxes : uint8_t { kImage, kDepth };
struct PoolAttributes {
  int64_t window = 0, stride = 0, padding = 0;
  // For the width; 0 (for padding -1): as for the height.
  int64_t window_width = 0, stride_width = 0, padding_width = -1;
  bool ceil = false;
  bool count_padding = false;  // among the cells of a mean
  PooledAxes over = PooledAxes::kImage;
};

// reduce_max, reduce_mean and reduce_sum, and softmax.
enum class ReducedAxes : uint8_t { kPositions, kHeight, kWidth, kChannels };
struct ReduceAttributes {
  ReducedAxes over = ReducedAxes::kPositions;
};

// upsample.
struct UpsampleAttributes {
  int64_t factor = 0, factor_width = 0;  // 0 of the width: as for the height
};

// bilinear_resize.
struct ResizeAttributes {
  int64_t height = 0, width = 0;
  bool align_corners = false;
};

struct SliceAttributes {
  int64_t first = 0, channels = 0;
  int64_t position = -1;
};

struct PadAttributes {
  int64_t top = 0, bottom = 0, left = 0, right = 0;
};

struct ReshapeAttributes {
  int64_t depth = 0, height = 0, width = 0, channels = 0;
};

// depth_taps: the taps of a convolution along the depth.
struct DepthTapsAttributes {
  int64_t kernel = 0, stride = 0, padding = 0, dilation = 0;
  int64_t padding_end = -1;  // behind the last image; -1: as much as before the first
};

struct ShuffleAttributes {
  int64_t groups = 0;
};

// normalise_input: a mean for each channel, 0 if none is given.
struct InputAttributes {
  WholeList means;
  int fraction_bits = 0;
};

struct DropoutAttributes {
  double probability = 0;
  int64_t dropped = 0;  // the probability as a whole number of 1 / 65536
};

struct LeakyReluAttributes {
  double slope = 0;
  Fraction fraction = {};  // exact if the slope has a denominator that is not larger than 65536
};

struct EluAttributes {
  double alpha = 0;
  Fraction fraction = {};
};

// scale: the factor is mantissa * 2^exponent, with an odd mantissa of at most 24 bits.
struct ScaleAttributes {
  double factor = 1;
  int64_t mantissa = 1;
  int exponent = 0;
};

// multiply and silu.
struct WidthAttributes {
  int least_bits = 0;  // of the result's mantissas
};

struct PreluAttributes {
  bool shared = false;  // one slope for all channels
};

// Probabilities of attention: whole numbers of 2^-7, or of 1/127 of the largest in their row, over
// their sum.
enum class Probabilities : uint8_t { kFixed, kOfRow };

struct AttentionAttributes {
  int64_t heads = 0;
  int64_t kv_heads = 0;  // of keys and values, each for several heads of queries; 0: as many
  bool causal = false;
  bool cross = false;
  int64_t window = 0;  // keys on a side of a query, itself among them; 0: all
  // A trained bias for each head and distance of positions, which lie row by row in a picture of
  // this size, or one after the other in a row of this width. Width 0: none.
  int64_t bias_height = 1, bias_width = 0;
  Probabilities probabilities = Probabilities::kFixed;
  int input_bits = 0;  // as those of a layer

  int64_t key_heads() const { return kv_heads == 0 ? heads : kv_heads; }
  int64_t biases_of_head() const {
    return bias_width == 0 ? 0 : (2 * bias_height - 1) * (2 * bias_width - 1);
  }
};

// prepend_rows.
struct PrependAttributes {
  int64_t rows = 0;
  int least_bits = 0;
};

// gather_rows, and scatter_rows, which has as many positions.
struct RowsAttributes {
  WholeList rows;  // empty: an input has them
  int64_t positions = 0;
};

// rotary.
struct RotaryAttributes {
  int64_t heads = 0;
  int64_t channels = 0;  // of each head, from the first on; 0: all
  double base = 0;
  bool interleaved = false;  // pairs are neighbours; else the first half meets the second
  // By which angles are divided, in units of kFactorUnit: none, one for all pairs, or one for each.
  WholeList factors;
  int least_bits = 0;  // of the result's mantissas
};

struct SinusoidalAttributes {
  double base = 0;
  bool interleaved = false;
  int least_bits = 0;
};

struct LstmAttributes {
  bool peepholes = false;
};

struct EmbeddingAttributes {
  int64_t rows = 0, channels = 0;
  BlockKind weight_blocks = BlockKind::kNone;
};

// softmax_cross_entropy.
struct LossAttributes {
  double smoothing = 0;
  int64_t smoothing_q16 = 0;  // a whole number of 2^-16
};

// sigmoid_cross_entropy.
struct SigmoidLossAttributes {
  double smoothing = 0;  // half of it is the target 0, and as much is missing from the target 1
  int64_t smoothing_q16 = 0;
  double focal = 0;  // the power of what a probability misses, by which its loss is multiplied
  int64_t focal_q16 = 0;
  WholeList positive_weights;  // of targets of 1, in 2^-10: none, one, or one for each output
  bool ordinal = false;        // a label r is the target 1 of the first r outputs

  // Without these, kernels compute the loss.
  bool is_plain() const {
    return smoothing_q16 == 0 && focal_q16 == 0 && positive_weights.empty() && !ordinal;
  }
};

enum class Penalty : uint8_t { kSquared, kAbsolute, kHuber };

// regression_error.
struct RegressionAttributes {
  Penalty penalty = Penalty::kSquared;
  double delta = 0;  // of Huber's penalty: where the square ends
  int64_t delta_q24 = 0;
};

// soft_cross_entropy and distilled_cross_entropy.
struct SoftLossAttributes {
  double temperature = 0;  // by which logits are divided
  int64_t temperature_q16 = 0;
  double teacher_weight = 0;  // distilled: of the loss against the teacher; labels have the rest
  // Factors of gradients and losses, in Q16: of labels, and of the soft targets.
  int64_t label_q16 = 0, soft_gradient_q16 = 0, soft_loss_q16 = 0;
};

// Op::bits of an op whose results have at least so many.
template <typename T>
int least_bits(const Attributes& attributes) {
  return attributes.as<T>().least_bits;
}

}  // namespace mantissa::ops
