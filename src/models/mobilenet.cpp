// Networks of inverted residual blocks (MobileNetV2).
#include "models/layers.h"
#include "models/networks.h"

namespace mantissa {
namespace {

// Blocks of a stage; the first has the stride.
struct Stage {
  int64_t expansion, channels, blocks, stride;
};

// The activation after each batch norm, except the last one of a block.
using Activation = int (Layers::*)(const std::string& name);

void normalised(Layers& net, const std::string& name, Activation activation) {
  net.batch_norm(name + "_norm");
  (net.*activation)(name + "_relu");
}

// Expands the channels, convolves each on its own, projects; no activation on the narrow ends.
void inverted_residual(Layers& net, const std::string& name, int64_t expansion, int64_t channels,
                       int64_t stride, Activation activation) {
  const int input = net.last();
  const int64_t before = net.channels(), wide = before * expansion;
  if (expansion != 1) {
    net.convolution(name + ".expand", wide, 1, 1, 0, false);
    normalised(net, name + ".expand", activation);
  }
  net.convolution(name + ".depthwise", wide, 3, stride, 1, false, wide);
  normalised(net, name + ".depthwise", activation);
  net.convolution(name + ".project", channels, 1, 1, 0, false);
  const int branch = net.batch_norm(name + ".project_norm");
  if (stride == 1 && before == channels) net.sum(name + ".add", branch, input);
}

void stages(Layers& net, Activation activation, std::initializer_list<Stage> list) {
  int index = 1;
  for (const Stage& stage : list) {
    for (int64_t block = 0; block < stage.blocks; ++block) {
      inverted_residual(net, "block" + std::to_string(index++), stage.expansion,
                        net.scaled(stage.channels), block == 0 ? stage.stride : 1, activation);
    }
  }
}

void stem(Layers& net, int64_t channels, int64_t stride, Activation activation) {
  net.convolution("stem", net.scaled(channels), 3, stride, 1, false);
  normalised(net, "stem", activation);
}

}  // namespace

// torchvision's table. Its first two strides of 2 are for images of 224 pixels: small ones keep
// their size there.
Result<Graph> mobilenet_v2(std::string_view name, const ModelOptions& options) {
  Layers net(name, options);
  const int64_t early = net.small_images() ? 1 : 2;
  const Activation activation = &Layers::relu6;
  stem(net, 32, early, activation);
  stages(net, activation,
         {{1, 16, 1, 1},
          {6, 24, 2, early},
          {6, 32, 3, 2},
          {6, 64, 4, 2},
          {6, 96, 3, 1},
          {6, 160, 3, 2},
          {6, 320, 1, 1}});
  net.convolution("head", net.scaled(1280), 1, 1, 0, false);
  normalised(net, "head", activation);
  net.add(ops::kGlobalAveragePool, "average");
  return net.classify();
}

// To measure: with ReLU, which batch norm applies on its way.
Result<Graph> mobilenet_blocks(std::string_view name, const ModelOptions& options) {
  Layers net(name, options);
  stem(net, 16, 1, &Layers::relu);
  stages(net, &Layers::relu, {{6, 24, 2, 1}, {6, 32, 2, 2}, {6, 64, 3, 2}, {6, 96, 2, 1}});
  net.add(ops::kGlobalAveragePool, "average");
  return net.classify();
}

}  // namespace mantissa
