// Networks of pictures: pixels in, a class out.
#include <algorithm>
#include <cmath>
#include <utility>

#include "formats/arrays/safetensors_header.h"
#include "models/models.h"
#include "onnx/import/form.h"
#include "ops/loss.h"
#include "ops/ops.h"

namespace mantissa::onnx {
namespace {

constexpr int kFractionBits = 16;  // of means
constexpr double kLargestPixel = 255;
constexpr int64_t kMostPixelChannels = 4;

// The usual numbers of training on ImageNet.
constexpr double kImageNetMean[] = {0.485, 0.456, 0.406};
constexpr double kImageNetDeviation[] = {0.229, 0.224, 0.225};

std::string text_of(double number) {
  std::string text = std::to_string(number);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

std::string list_text(const std::vector<double>& numbers) {
  std::string text;
  for (const double number : numbers) text += (text.empty() ? "" : ", ") + text_of(number);
  return text;
}

bool is_pixel_count(int64_t channels) {
  return channels == 1 || channels == 3 || channels == kMostPixelChannels;
}

struct Normalisation {
  std::vector<double> mean, deviation;
};

Result<std::vector<double>> for_channels(const std::vector<double>& given,
                                         std::span<const double> colour, double otherwise,
                                         const char* what, int64_t channels) {
  std::vector<double> to = given;
  const bool is_colour = channels == 3;
  if (given.empty() && is_colour) to.assign(colour.begin(), colour.end());
  if (given.empty() && !is_colour) to.assign(static_cast<size_t>(channels), otherwise);
  if (given.size() == 1) to.assign(static_cast<size_t>(channels), given[0]);
  if (std::ssize(to) == channels) return to;
  return invalid_input(std::string(what) + " wants one number, or one for each of " +
                       std::to_string(channels) + " channels");
}

// A model that takes bytes normalises them itself.
Normalisation none(ImportContext& context, int64_t channels) {
  context.notes.push_back("pixels enter the model as the bytes that they are");
  const auto count = static_cast<size_t>(channels);
  return {std::vector<double>(count, 0), std::vector<double>(count, 1 / kLargestPixel)};
}

Result<Normalisation> choose_normalisation(ImportContext& context, const ValueData& input,
                                           int64_t channels) {
  const ImportOptions& options = *context.options;
  const bool is_open = options.mean.empty() && options.deviation.empty();
  if (is_open && input.type == ElementType::kUint8) return none(context, channels);
  Normalisation n;
  MANTISSA_ASSIGN(n.mean,
                  for_channels(options.mean, kImageNetMean, 0, "the mean of the input", channels));
  MANTISSA_ASSIGN(n.deviation, for_channels(options.deviation, kImageNetDeviation, 1,
                                            "the standard deviation of the input", channels));
  for (int64_t c = 0; c < channels; ++c) {
    if (n.mean[c] >= 0 && n.mean[c] <= 1 && n.deviation[c] > 1e-6 && n.deviation[c] < 1e6) continue;
    return invalid_input("the mean of the input wants 0 to 1, its standard deviation more than 0");
  }
  const bool assumed = options.mean.empty() || options.deviation.empty();
  context.notes.push_back("pixels enter the model as (pixel / 255 - mean) / std, with mean " +
                          list_text(n.mean) + " and std " + list_text(n.deviation) +
                          (assumed ? (channels == 3 ? ", ImageNet's: assumed" : ": assumed") : ""));
  return n;
}

Status add_pixels(ImportContext& context, const ValueData& input, const Layout& layout,
                  const Shape& shape) {
  MANTISSA_ASSIGN(const Normalisation n, choose_normalisation(context, input, shape[2]));
  context.builder = GraphBuilder(new_name(context, graph_name(*context.model)), shape);
  context.names = {"pixels", "labels", "loss", "input"};
  WholeList means;
  Imported pixels{-1, layout, {}};
  for (int64_t c = 0; c < shape[2]; ++c) {
    means.push_back(std::llround(std::ldexp(kLargestPixel * n.mean[c], kFractionBits)));
    pixels.scale.push_back(64 / (kLargestPixel * n.deviation[c]));
  }
  MANTISSA_ASSIGN(pixels.value, add_node(context, ops::kNormaliseInput,
                                         new_name(context, "normalise"), {context.builder.input()},
                                         {{"means", means}, {"fraction_bits", kFractionBits}}));
  define(context, input.name, std::move(pixels));
  return {};
}

Status add_inputs(ImportContext& context, std::span<const ValueData* const> inputs) {
  if (inputs.size() != 1) return other_inputs(inputs);
  const ValueData& input = *inputs[0];
  bool is_known = input.dims.size() == 4;
  for (size_t i = 1; i < input.dims.size(); ++i) {
    is_known = is_known && input.dims[i].size > 0 && input.dims[i].size <= INT32_MAX;
  }
  const auto is_count = [&](size_t i) { return input.dims[i].size <= kMostPixelChannels; };
  if (!is_known || (!is_count(1) && !is_count(3))) {
    const bool is_picture = input.dims.size() == 4;
    return invalid_input("the input '" + readable(input.name) + "' is " + dims_text(input.dims) +
                         "; [N, C, H, W] with up to 4 channels is possible" +
                         (is_picture ? ", its size fixed or said by --input-size"
                                     : ": a network that reads rows of numbers wants its pictures "
                                       "made flat by itself (Flatten), as its first node"));
  }
  context.batch = input.dims[0].size;
  const auto at = [&](size_t i) { return input.dims[i].size; };
  if (is_count(1)) {
    return add_pixels(context, input, Layout::image(at(2), at(3), at(1)),
                      Shape{at(2), at(3), at(1)});
  }
  // TensorFlow's order.
  return add_pixels(context, input, Layout::channels_last(at(1), at(2), at(3)),
                    Shape{at(1), at(2), at(3)});
}

Result<Graph> finish(ImportContext& context, const std::string& result) {
  const auto found = context.values.find(result);
  if (found == context.values.end()) {
    return invalid_input("nothing makes the output '" + readable(result) + "'");
  }
  Imported logits = found->second;
  const int64_t count = logits.layout.count();
  if (!logits.layout.reshape(std::vector<int64_t>{count})) {
    return invalid_input("the output '" + readable(result) + "' is no vector");
  }
  MANTISSA_ASSIGN(const Vector vector, vector_of(context, logits, true));
  const ops::LossKind loss = context.loss.value_or(ops::LossKind::kCrossEntropy);
  const int64_t least = loss == ops::LossKind::kSigmoids ? 1 : 2;
  if (!vector.places.empty() || count < least || count > kMostClasses) {
    return invalid_input("the output '" + readable(result) + "' has " + std::to_string(count) +
                         " numbers an example; a network of pictures has 2 to " +
                         std::to_string(kMostClasses) +
                         " classes, or one logit with a Sigmoid behind it");
  }
  MANTISSA_ASSIGN(const int value, made_by_layer(context, vector.value, vector.scale));
  MANTISSA_ASSIGN(Graph graph, finished(context, value));
  const bool by_output = loss == ops::LossKind::kSigmoids && count > 1;
  return ops::with_loss(std::move(graph), loss, 0, by_output);
}

}  // namespace

const ImportForm kPictures = {
    .add_inputs = add_inputs,
    .find_row = find_row,
    .reason_against = reason_against,
    .finish = finish,
};

void choose_picture_size(const ImportOptions& options, ValueData& input) {
  if (input.dims.size() != 4) return;
  std::vector<Dimension>& dims = input.dims;
  const bool is_channels_last = !is_pixel_count(dims[1].size) && is_pixel_count(dims[3].size);
  const size_t first = is_channels_last ? 1 : 2;
  const auto choose = [](Dimension& dimension, int64_t wanted) {
    if (dimension.size < 1 && wanted > 0) dimension = {wanted, ""};
  };
  choose(dims[0], 1);
  choose(dims[first], options.height);
  choose(dims[first + 1], options.width);
}

}  // namespace mantissa::onnx
