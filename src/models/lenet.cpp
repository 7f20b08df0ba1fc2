// LeNet-5: two 5x5 convolutions, each with a pool, and two linear layers.
#include "models/layers.h"
#include "models/networks.h"

namespace mantissa {

// 6-16-120-84. The kernel of the third layer covers the whole remaining image: such a convolution
// is a linear layer.
Result<Graph> lenet5(std::string_view name, const ModelOptions& options) {
  Layers net(name, options);
  net.convolution("conv1", net.scaled(6), 5, 1, 2, true);
  net.max_pool("pool1", 2, 2);
  net.relu("relu1");
  net.convolution("conv2", net.scaled(16), 5, 1, 0, true);
  net.max_pool("pool2", 2, 2);
  net.relu("relu2");
  net.add(ops::kFlatten, "flatten");
  net.linear("linear1", net.scaled(120));
  net.relu("relu3");
  net.linear("linear2", net.scaled(84));
  net.relu("relu4");
  return net.classify();
}

}  // namespace mantissa
