// Layers as papers name them, on top of GraphBuilder. The networks are built of them.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>

#include "models/models.h"
#include "ops/loss.h"
#include "ops/ops.h"
#include "tensor/table_numbers.h"

namespace mantissa {

// Each call adds a layer that reads the last one's result.
class Layers {
 public:
  Layers(std::string_view name, const ModelOptions& options)
      : options_(options), builder_(begin(std::string(name), options)) {
    if (options.features > 0) {
      last_ = builder_.add(ops::kQuantiseInput, "quantise", {builder_.input()});
      return;
    }
    WholeList means(options.channel_means.begin(), options.channel_means.end());
    means.resize(static_cast<size_t>(std::clamp<int64_t>(options.channels, 0, 4)), 128);
    last_ = builder_.add(ops::kNormaliseInput, "normalise", {builder_.input()}, {{"means", means}});
  }

  int64_t scaled(int64_t channels) const {
    const double wide = std::floor(static_cast<double>(channels) * options_.width_multiplier + 0.5);
    return std::max<int64_t>(1, static_cast<int64_t>(wide));
  }

  int last() const { return last_; }
  void continue_from(int value) { last_ = value; }
  int64_t channels() const { return builder_.shape(last_).last(); }
  // Whether images are too small for the early strides of networks made for 224 pixels.
  bool small_images() const { return std::max(options_.height, options_.width) <= 64; }

  int add(const Op& op, const std::string& name, Attributes attributes = {}) {
    return last_ = builder_.add(op, name, {last_}, std::move(attributes));
  }
  // With the parameters of the node that made a value.
  int add_sharing(int with, const Op& op, const std::string& name, Attributes attributes = {}) {
    return last_ = builder_.add_sharing(with, op, name, {last_}, std::move(attributes));
  }
  int convolution(const std::string& name, int64_t channels, int64_t kernel, int64_t stride,
                  int64_t padding, bool bias, int64_t groups = 1, int64_t dilation = 1) {
    return add(ops::kConvolution, name,
               {{"channels", channels},
                {"kernel", kernel},
                {"stride", stride},
                {"padding", padding},
                {"groups", groups},
                {"dilation", dilation},
                {"bias", bias ? 1 : 0}});
  }
  int linear(const std::string& name, int64_t channels, bool bias = true) {
    return add(ops::kLinear, name, {{"channels", channels}, {"bias", bias ? 1 : 0}});
  }
  int batch_norm(const std::string& name, bool zero_scale = false) {
    return add(ops::kBatchNorm, name, {{"zero_scale", zero_scale ? 1 : 0}});
  }
  int group_norm(const std::string& name, int64_t groups) {
    return add(ops::kGroupNorm, name, {{"groups", groups}});
  }
  int layer_norm(const std::string& name) { return add(ops::kLayerNorm, name); }
  int relu(const std::string& name) { return add(ops::kRelu, name); }
  // A convolution that keeps the size (except for the stride), batch norm and ReLU.
  int unit(const std::string& name, int64_t channels, int64_t kernel, int64_t stride = 1) {
    convolution(name, channels, kernel, stride, kernel / 2, false);
    batch_norm(name + "_norm");
    return relu(name + "_relu");
  }
  int max_pool(const std::string& name, int64_t window, int64_t stride, int64_t padding = 0,
               bool ceil = false) {
    if (stride == window && padding == 0 && !ceil) {
      return add(ops::kMaxPool, name, {{"window", window}});
    }
    return add(
        ops::kOverlappingMaxPool, name,
        {{"window", window}, {"stride", stride}, {"padding", padding}, {"ceil", ceil ? 1 : 0}});
  }
  int average_pool(const std::string& name, int64_t window, int64_t stride, int64_t padding) {
    return add(ops::kAveragePool, name,
               {{"window", window}, {"stride", stride}, {"padding", padding}});
  }
  int relu6(const std::string& name) { return add(ops::kRelu6, name); }
  int leaky_relu(const std::string& name, double slope = 0.01) {
    return add(ops::kLeakyRelu, name, {{"slope", slope}});
  }
  // A trained slope for each channel.
  int prelu(const std::string& name) { return add(ops::kPrelu, name); }
  int elu(const std::string& name, double alpha = 1) {
    return add(ops::kElu, name, {{"alpha", alpha}});
  }
  int softplus(const std::string& name) { return add(ops::kSoftplus, name); }
  int mish(const std::string& name) { return add(ops::kMish, name); }
  int sigmoid(const std::string& name) { return add(ops::kSigmoid, name); }
  int tanh(const std::string& name) { return add(ops::kTanh, name); }
  int hard_sigmoid(const std::string& name) { return add(ops::kHardSigmoid, name); }
  int hard_swish(const std::string& name) { return add(ops::kHardSwish, name); }
  int gelu(const std::string& name) { return add(ops::kGelu, name); }
  int silu(const std::string& name) { return add(ops::kSilu, name); }
  int dropout(const std::string& name, double probability) {
    return add(ops::kDropout, name, {{"probability", probability}});
  }
  int pad(const std::string& name, int64_t top, int64_t bottom, int64_t left, int64_t right) {
    return add(ops::kPad, name,
               {{"top", top}, {"bottom", bottom}, {"left", left}, {"right", right}});
  }
  int reshape(const std::string& name, int64_t height, int64_t width, int64_t channels) {
    return add(ops::kReshape, name, {{"height", height}, {"width", width}, {"channels", channels}});
  }
  // The taps along the depth of a volume, for a convolution of its images.
  int depth_taps(const std::string& name, int64_t kernel, int64_t stride, int64_t padding,
                 int64_t dilation = 1) {
    return add(
        ops::kDepthTaps, name,
        {{"kernel", kernel}, {"stride", stride}, {"padding", padding}, {"dilation", dilation}});
  }
  int channel_shuffle(const std::string& name, int64_t groups) {
    return add(ops::kChannelShuffle, name, {{"groups", groups}});
  }
  // A node of several values.
  int join(const Op& op, const std::string& name, std::vector<int> values,
           Attributes attributes = {}) {
    return last_ = builder_.add(op, name, std::move(values), std::move(attributes));
  }
  int sum(const std::string& name, int a, int b) {
    return last_ = builder_.add(ops::kAdd, name, {a, b}, {});
  }
  int concat(const std::string& name, std::vector<int> values) {
    return last_ = builder_.add(ops::kConcat, name, std::move(values), {});
  }
  int slice(const std::string& name, int value, int64_t first, int64_t channels) {
    return last_ =
               builder_.add(ops::kSlice, name, {value}, {{"first", first}, {"channels", channels}});
  }
  // The product of equal shapes, or of [H, W, C] and a gate [C].
  int product(const std::string& name, int a, int b) {
    return last_ = builder_.add(ops::kMultiply, name, {a, b}, {});
  }

  Result<Graph> classify() {
    const bool is_regression = ops::is_for_numbers(options_.loss);
    add(ops::kLinear, is_regression ? "results" : "classifier",
        {{"channels", options_.results()}, {"classifier", 1}});
    MANTISSA_ASSIGN(Graph graph, builder_.finish(last_));
    return ops::with_loss(std::move(graph), loss_options(options_));
  }

 private:
  // With an input of pixels, or of a table's numbers.
  static GraphBuilder begin(std::string name, const ModelOptions& options) {
    if (options.features == 0) {
      return GraphBuilder(std::move(name), {options.height, options.width, options.channels});
    }
    GraphBuilder builder(std::move(name));
    builder.add_numbers("numbers", Shape{options.features}, kFeatureExponent);
    return builder;
  }

  const ModelOptions& options_;
  GraphBuilder builder_;
  int last_ = 0;
};

}  // namespace mantissa
