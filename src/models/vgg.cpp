// Plain stacks of 3x3 convolutions with batch norm and pools, then linear layers.
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
    if (layer.pool) net.max_pool("pool" + number, 2);
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

}  // namespace mantissa
