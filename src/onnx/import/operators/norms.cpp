// Batch norms of images, and layer norms and RMS norms of rows.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "onnx/import/operators.h"
#include "onnx/import/rows.h"
#include "ops/norms/batch_norm.h"
#include "ops/ops.h"

namespace mantissa::onnx {
namespace {

// Ours adds its own epsilon to variances. The difference goes into the running variance. It goes
// into the scale instead if the channel would otherwise change much in training.
Status fit_epsilon(double epsilon, const std::vector<double>& factors,
                   std::vector<std::vector<double>>& numbers) {
  constexpr double kOurs = ops::kBatchNormEpsilon, kMatters = 0x1p-4;
  std::vector<double>&scales = numbers[0], &means = numbers[2], &variances = numbers[3];
  for (size_t c = 0; c < scales.size(); ++c) {
    const double sum = variances[c] + epsilon;
    if (!(sum > 0 && std::isfinite(sum))) {
      return invalid_input("has a variance and an epsilon whose sum is " + std::to_string(sum) +
                           ", and divides by its root");
    }
    const double square = factors.empty() ? 1 : factors[c] * factors[c];
    means[c] *= std::sqrt(square);
    const double as_measured = std::max(0.0, variances[c]) * square;
    const double change = std::sqrt((as_measured + kOurs) / (sum * square));
    const double fitted = sum * square - kOurs;
    const bool fits = std::abs(change - 1) < kMatters && fitted >= 0;
    variances[c] = fits ? fitted : as_measured;
    if (!fits) scales[c] *= change;
  }
  return {};
}

// ONNX's momentum is the part of the running statistics that stays.
void note_momentum(ImportContext& context, const NodeData& node) {
  constexpr double kOurs = 0.9;
  const double momentum = real_of(node, "momentum", kOurs);
  if (std::abs(momentum - kOurs) < 1e-6) return;
  note_once(context,
            "running statistics of batch norms keep 0.9 of themselves in a step of "
            "training, as everywhere here; in the model they keep " +
                std::to_string(momentum));
}

// The input's number for each channel. If there is no such input, the same number for all.
Result<std::vector<double>> channel_numbers(const ImportContext& context, const NodeData& node,
                                            size_t input, int64_t channels, double otherwise) {
  if (!has_input(node, input)) return std::vector(static_cast<size_t>(channels), otherwise);
  MANTISSA_ASSIGN(const TensorData* tensor, weights_of(context, node, input));
  const auto numbers = per_channel(*tensor, {channels, 1, 0});
  if (numbers) return *numbers;
  return invalid_input("has not one number for each channel");
}

}  // namespace

// Evaluation's and training's form; further outputs of the latter are the running statistics, which
// nothing reads.
Status import_batch_norm(ImportContext& context, const NodeData& node) {
  MANTISSA_ASSIGN(const Imported input, input_of(context, node, 0));
  const auto rank = std::ssize(input.layout.dims());
  int from = -1;
  if (rank == 3) {
    MANTISSA_ASSIGN(from, image_of(context, input));
  } else {
    MANTISSA_ASSIGN(const Vector vector, vector_of(context, input));
    if (!vector.places.empty()) return invalid_input("normalises pixels that were flattened");
    from = vector.value;
  }
  const int64_t channels = context.builder.shape(from).last();
  std::vector<std::vector<double>> numbers;
  for (size_t i = 1; i <= 4; ++i) {
    MANTISSA_ASSIGN(const TensorData* tensor, weights_of(context, node, i));
    MANTISSA_ASSIGN(std::vector<double> list, numbers_of(*tensor));
    if (std::ssize(list) != channels) {
      return invalid_input("has not one number for each of " + std::to_string(channels) +
                           " channels");
    }
    numbers.push_back(std::move(list));
  }
  note_momentum(context, node);
  MANTISSA_RETURN_IF_ERROR(
      fit_epsilon(real_of(node, "epsilon", 1e-5), context.norm_factors[&node], numbers));
  const Affine affine = absorb_affine(context, node.outputs[0], {channels, rank + 1});
  for (int64_t c = 0; c < channels; ++c) {
    numbers[0][c] *= affine.factors[c];
    numbers[1][c] = numbers[1][c] * affine.factors[c] + affine.summands[c];
  }
  const TensorData& scale = *constant_of(context, node, 1);
  MANTISSA_ASSIGN(const int value,
                  add_node(context, ops::kBatchNorm, layer_name(context, node, scale), {from}, {},
                           std::move(numbers)));
  define_image(context, affine.result, value);
  return {};
}

// Layer norm, or RMS norm, which has no offset.
Status import_row_norm(ImportContext& context, const NodeData& node) {
  MANTISSA_ASSIGN(Imported value, plain_input(context, node, 0));
  MANTISSA_ASSIGN(const int64_t channels, channels_of(context, value));
  const int64_t rank = std::ssize(value.layout.dims());
  const int64_t axis = whole_of(node, "axis", -1);
  if (axis != -1 && axis != rank - 1) return invalid_input("normalises over more than channels");
  MANTISSA_ASSIGN(std::vector<double> scale, channel_numbers(context, node, 1, channels, 1));
  MANTISSA_ASSIGN(std::vector<double> offset, channel_numbers(context, node, 2, channels, 0));
  const Affine affine =
      absorb_affine(context, node.outputs[0], {channels, rank, rank - 1}, !has_input(node, 1));
  for (int64_t c = 0; c < channels; ++c) {
    scale[c] *= affine.factors[c];
    offset[c] = offset[c] * affine.factors[c] + affine.summands[c];
  }
  const bool is_rms = node.op_type == "RMSNormalization";
  if (is_rms && std::any_of(offset.begin(), offset.end(), [](double x) { return x != 0; })) {
    return invalid_input("has an offset behind it, which RMS norm has not here");
  }
  const TensorData* tensor = constant_of(context, node, 1);
  const std::string name =
      tensor == nullptr ? node_name(context, node) : layer_name(context, node, *tensor);
  std::vector<std::vector<double>> numbers = {std::move(scale)};
  if (!is_rms) numbers.push_back(std::move(offset));
  MANTISSA_ASSIGN(value.value,
                  add_node(context, is_rms ? ops::kRmsNorm : ops::kLayerNorm, name, {value.value},
                           {{"epsilon", real_of(node, "epsilon", 1e-5)},
                            {"least_bits", least_bits(context, affine.result)}},
                           std::move(numbers)));
  define(context, affine.result, std::move(value));
  return {};
}

}  // namespace mantissa::onnx
