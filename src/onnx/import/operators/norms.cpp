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

// Training leaves a norm's scale and offset as they are if the model has none, as with affine=False
// in PyTorch. Of the node that was added last.
void train_as_model(ImportContext& context, const NodeData& node, const Affine& affine) {
  const bool trains = is_parameter(context, constant_of(context, node, 1)) ||
                      is_parameter(context, constant_of(context, node, 2)) ||
                      affine.has_parameters;
  if (!trains) leave_untrained(context);
}

}  // namespace

// Evaluation's and training's form; further outputs of the latter are the running statistics, which
// nothing reads.
Status import_batch_norm(ImportContext& context, const NodeData& node) {
  MANTISSA_ASSIGN(const Imported input, input_of(context, node, 0));
  const auto rank = std::ssize(input.layout.dims());
  int from = -1;
  if (rank >= 3) {
    MANTISSA_ASSIGN(from, images_of(context, input));
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
  train_as_model(context, node, affine);
  define_image(context, affine.result, value);
  return {};
}

namespace {

double epsilon_of(const NodeData& node) { return real_of(node, "epsilon", 1e-5); }

// Layer norm, or RMS norm, which has no offset, over the last dimension of the graph's value. The
// result has the layout of `value`, in which the channels are the dimension `at`.
Status add_row_norm(ImportContext& context, const NodeData& node, Imported value,
                    const Channels& at, double epsilon) {
  MANTISSA_ASSIGN(std::vector<double> scale, channel_numbers(context, node, 1, at.count, 1));
  MANTISSA_ASSIGN(std::vector<double> offset, channel_numbers(context, node, 2, at.count, 0));
  const bool is_rows = value.form == Form::kRows;
  const Affine affine =
      absorb_affine(context, node.outputs[0], at, !is_rows || !has_input(node, 1));
  for (int64_t c = 0; c < at.count; ++c) {
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
  Attributes attributes = {{"epsilon", epsilon}};
  if (is_rows) {
    attributes = {{"epsilon", epsilon},
                  {"least_bits", least_bits(context, affine.result)}};
  }
  MANTISSA_ASSIGN(value.value, add_node(context, is_rms ? ops::kRmsNorm : ops::kLayerNorm, name,
                                        {value.value}, attributes, std::move(numbers)));
  train_as_model(context, node, affine);
  define(context, affine.result, std::move(value));
  return {};
}

// Numbers for each channel: those of the input, which may have one for each group, or one for each
// place, [C, H, W], that are alike in a channel.
Result<std::vector<double>> group_numbers(const ImportContext& context, const NodeData& node,
                                          size_t input, int64_t channels, double otherwise) {
  if (!has_input(node, input)) return std::vector(static_cast<size_t>(channels), otherwise);
  MANTISSA_ASSIGN(const TensorData* tensor, weights_of(context, node, input));
  MANTISSA_ASSIGN(const std::vector<double> numbers, numbers_of(*tensor));
  const auto count = std::ssize(numbers);
  std::vector<double> all;
  for (int64_t c = 0; c < channels; ++c) {
    if (count <= channels && channels % std::max<int64_t>(1, count) == 0) {
      all.push_back(numbers[c / (channels / count)]);
    } else if (count % channels == 0) {
      const auto first = numbers.begin() + c * (count / channels);
      const auto last = first + count / channels;
      if (std::any_of(first, last, [&](double x) { return x != *first; })) {
        return invalid_input(
            "has a number for each place of a picture; a norm with one for each channel, such as "
            "GroupNormalization, can be imported");
      }
      all.push_back(*first);
    } else {
      return invalid_input("has not one number for each of " + std::to_string(channels) +
                           " channels");
    }
  }
  return all;
}

// A group norm of the graph's value, whose factors and summands behind `result` it takes in.
// Returns the value and the result's name.
struct NormedGroups {
  int value = -1;
  std::string result;
};

Result<NormedGroups> add_group_norm(ImportContext& context, const NodeData& node, int from,
                                    int64_t groups, const std::string& result,
                                    const Channels& at) {
  MANTISSA_ASSIGN(std::vector<double> scale, group_numbers(context, node, 1, at.count, 1));
  MANTISSA_ASSIGN(std::vector<double> offset, group_numbers(context, node, 2, at.count, 0));
  const Affine affine = absorb_affine(context, result, at);
  for (int64_t c = 0; c < at.count; ++c) {
    scale[c] *= affine.factors[c];
    offset[c] = offset[c] * affine.factors[c] + affine.summands[c];
  }
  const TensorData* named =
      affine.last_summand != nullptr ? affine.last_summand : constant_of(context, node, 1);
  const std::string name =
      named == nullptr ? node_name(context, node) : layer_name(context, node, *named);
  MANTISSA_ASSIGN(const int value,
                  add_node(context, ops::kGroupNorm, name, {from},
                           {{"groups", groups}, {"epsilon", real_of(node, "epsilon", 1e-5)}},
                           {std::move(scale), std::move(offset)}));
  train_as_model(context, node, affine);
  return NormedGroups{value, affine.result};
}

// Of an image, or a vector.
Status import_groups(ImportContext& context, const NodeData& node, int64_t groups) {
  MANTISSA_ASSIGN(const Imported value, input_of(context, node, 0));
  const auto rank = std::ssize(value.layout.dims()) + 1;
  int from = -1;
  if (rank >= 4) {
    MANTISSA_ASSIGN(from, images_of(context, value));
  } else {
    MANTISSA_ASSIGN(const Vector vector, vector_of(context, value));
    if (!vector.places.empty()) return invalid_input("normalises pixels that were flattened");
    from = vector.value;
  }
  const int64_t channels = context.builder.shape(from).last();
  if (groups < 1 || channels % groups != 0) {
    return invalid_input("its " + std::to_string(groups) + " groups do not divide " +
                         std::to_string(channels) + " channels");
  }
  MANTISSA_ASSIGN(const NormedGroups normed, add_group_norm(context, node, from, groups,
                                                            node.outputs[0], {channels, rank}));
  define_image(context, normed.result, normed.value);
  return {};
}

// The groups if the value is an image [C, H, W] in another shape, [groups, all numbers of one]; 0:
// it is not.
int64_t groups_of(const ImportContext& context, const Imported& value) {
  const std::vector<int64_t> dims = value.layout.dims();
  const Shape& shape = context.builder.shape(value.value);
  if (dims.size() != 2 || shape.rank != 3 || !value.scale.empty()) return 0;
  Layout image = Layout::image(shape[0], shape[1], shape[2]);
  return image.reshape(dims) && image == value.layout && shape[2] % dims[0] == 0 ? dims[0] : 0;
}

// Group norm as PyTorch exports it: groups as the channels of InstanceNormalization, a Reshape back
// to the picture, and a factor and a summand for each channel.
Status import_reshaped_groups(ImportContext& context, const NodeData& node, Imported value,
                              int64_t groups) {
  const Shape shape = context.builder.shape(value.value);
  const std::vector<int64_t> picture = {shape[2], shape[0], shape[1]};
  const std::vector<int64_t> signal = {shape[2], shape[1]};
  const auto readers = context.readers.find(node.outputs[0]);
  std::string result = node.outputs[0];
  bool is_back = false;
  if (!context.results.contains(result) && readers != context.readers.end() &&
      readers->second.size() == 1 && readers->second[0]->op_type == "Reshape") {
    const NodeData& back = *readers->second[0];
    const auto dims = context.shapes.find(back.outputs[0]);
    const std::vector<int64_t> to = dims == context.shapes.end() || dims->second.empty()
                                        ? std::vector<int64_t>()
                                        : std::vector(dims->second.begin() + 1, dims->second.end());
    is_back = to == picture || (to == signal && shape[0] == 1);
    if (is_back) {
      context.done.insert(&back);
      result = back.outputs[0];
      value.layout = Layout::image(shape[0], shape[1], shape[2]);
      value.layout.reshape(to);
    }
  }
  // Factors of groups, if the Reshape is another one, stay where they are.
  const Channels at{shape[2], is_back ? std::ssize(value.layout.dims()) + 1 : 0};
  MANTISSA_ASSIGN(const NormedGroups normed,
                  add_group_norm(context, node, value.value, groups, result, at));
  value.value = normed.value;
  define(context, normed.result, std::move(value));
  return {};
}

}  // namespace

namespace {

// The input of a norm of rows. A factor of it changes no result but by epsilon.
Result<Imported> normed_input(ImportContext& context, const NodeData& node, double& epsilon) {
  constexpr double kLeast = 0x1p-8, kMost = 0x1p8;
  MANTISSA_ASSIGN(Imported value, input_of(context, node, 0));
  if (value.scale.empty() || value.scale[0] < kLeast || value.scale[0] > kMost) {
    return plain_input(context, node, 0);
  }
  epsilon /= value.scale[0] * value.scale[0];
  value.scale.clear();
  return value;
}

}  // namespace

Status import_row_norm(ImportContext& context, const NodeData& node) {
  double epsilon = epsilon_of(node);
  MANTISSA_ASSIGN(Imported value, normed_input(context, node, epsilon));
  MANTISSA_ASSIGN(const int64_t channels, channels_of(context, value));
  const int64_t rank = std::ssize(value.layout.dims());
  const int64_t axis = whole_of(node, "axis", -1);
  if (axis != -1 && axis != rank - 1) return invalid_input("normalises over more than channels");
  return add_row_norm(context, node, std::move(value), {channels, rank, rank - 1}, epsilon);
}

// Over the channels of each pixel, or of a vector: the last axis, or one that a spelled-out norm,
// which has no numbers of its own, names. Over all of a picture it is a group norm.
Status import_image_norm(ImportContext& context, const NodeData& node) {
  MANTISSA_ASSIGN(Imported value, input_of(context, node, 0));
  const auto rank = std::ssize(value.layout.dims()) + 1;
  MANTISSA_ASSIGN(const int64_t axis, checked_axis(whole_of(node, "axis", -1), rank));
  if (axis == rank - 1) {
    MANTISSA_ASSIGN(value, plain_input(context, node, 0));
    MANTISSA_ASSIGN(const int64_t channels, channels_of(context, value));
    return add_row_norm(context, node, std::move(value), {channels, rank, axis}, epsilon_of(node));
  }
  if (axis != 1) return invalid_input("normalises over another axis than channels");
  if (has_input(node, 1)) {
    if (node.op_type == "LayerNormalization") return import_groups(context, node, 1);
    return invalid_input("normalises over more than channels");
  }
  MANTISSA_ASSIGN(const int image, image_of(context, value));
  define_image(context, node.outputs[0], image);
  value = context.values[node.outputs[0]];
  return add_row_norm(context, node, std::move(value),
                      {context.builder.shape(image).last(), rank}, epsilon_of(node));
}

Status import_group_norm(ImportContext& context, const NodeData& node) {
  return import_groups(context, node, whole_of(node, "num_groups", 1));
}

Status import_instance_norm(ImportContext& context, const NodeData& node) {
  MANTISSA_ASSIGN(const Imported value, input_of(context, node, 0));
  if (const int64_t groups = groups_of(context, value)) {
    return import_reshaped_groups(context, node, value, groups);
  }
  const std::vector<int64_t> dims = value.layout.dims();
  if (dims.size() != 3 && dims.size() != 4) {
    return invalid_input("wants an input of [N, C, H, W] or [N, C, D, H, W]");
  }
  return import_groups(context, node, dims[0]);
}

}  // namespace mantissa::onnx
