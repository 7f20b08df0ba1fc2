// Plain stacks of 3x3 convolutions with batch norm and pools, then linear layers.
#include <algorithm>

#include "models/layers.h"
#include "models/networks.h"

namespace mantissa {
namespace {

struct Layer {
  int64_t channels;
  bool pool;
};

void convolutions(Layers& net, std::initializer_list<Layer> layers) {
  int index = 1;
  for (const Layer& layer : layers) {
    const std::string number = std::to_string(index++);
    net.convolution("conv" + number, net.scaled(layer.channels), 3, 1, 1, false);
    net.batch_norm("norm" + number);
    net.relu("relu" + number);
    if (layer.pool) net.max_pool("pool" + number, 2, 2);
  }
}

}  // namespace

// 128, 256, pool, 256, 512, pool, 512, pool, 512, pool, 1024, classes; batch norm everywhere.
Result<Graph> vgg8b(std::string_view name, const ModelOptions& options) {
  Layers net(name, options);
  convolutions(net,
               {{128, false}, {256, true}, {256, false}, {512, true}, {512, true}, {512, true}});
  net.add(ops::kFlatten, "flatten");
  net.linear("linear1", net.scaled(1024), false);
  net.batch_norm("norm7");
  net.relu("relu7");
  return net.classify();
}

// As in torchvision, without biases before batch norm. Its two linear layers of 4096 suit the 7x7
// pixels that remain of images of 224. Images of at most 64 leave few pixels, and get layers of
// 512. Images under 32 pixels have shrunk to one pixel before the last pool, and do without it.
Result<Graph> vgg16_bn(std::string_view name, const ModelOptions& options) {
  Layers net(name, options);
  const bool last_pool = std::min(options.height, options.width) >= 32;
  convolutions(net, {{64, false},
                     {64, true},
                     {128, false},
                     {128, true},
                     {256, false},
                     {256, false},
                     {256, true},
                     {512, false},
                     {512, false},
                     {512, true},
                     {512, false},
                     {512, false},
                     {512, last_pool}});
  net.add(ops::kFlatten, "flatten");
  for (const char* number : {"1", "2"}) {
    net.linear(std::string("linear") + number, net.scaled(net.small_images() ? 512 : 4096));
    net.relu(std::string("linear_relu") + number);
    net.dropout(std::string("dropout") + number, 0.5);
  }
  return net.classify();
}

}  // namespace mantissa
