// SqueezeNet 1.1 with batch norm after each convolution instead of biases.
#include "models/layers.h"
#include "models/networks.h"

namespace mantissa {
namespace {

// Squeezes to `squeeze` channels, expands these by 1x1 and 3x3 to `expand` each, concatenated.
void fire(Layers& net, const std::string& name, int64_t squeeze, int64_t expand) {
  const int squeezed = net.unit(name + ".squeeze", net.scaled(squeeze), 1);
  const int narrow = net.unit(name + ".expand1x1", net.scaled(expand), 1);
  net.continue_from(squeezed);
  const int wide = net.unit(name + ".expand3x3", net.scaled(expand), 3);
  net.concat(name + ".concat", {narrow, wide});
}

}  // namespace

// The classifier is linear, after the average. That equals a 1x1 convolution before the average,
// but without the ReLU of the original. Small images keep their size in the stem.
Result<Graph> squeezenet(std::string_view name, const ModelOptions& options) {
  Layers net(name, options);
  constexpr bool kCeil = true;
  const bool small = net.small_images();
  net.convolution("stem", net.scaled(64), 3, small ? 1 : 2, small ? 1 : 0, false);
  net.batch_norm("stem_norm");
  net.relu("stem_relu");
  net.max_pool("pool1", 3, 2, 0, kCeil);
  fire(net, "fire2", 16, 64);
  fire(net, "fire3", 16, 64);
  net.max_pool("pool3", 3, 2, 0, kCeil);
  fire(net, "fire4", 32, 128);
  fire(net, "fire5", 32, 128);
  net.max_pool("pool5", 3, 2, 0, kCeil);
  fire(net, "fire6", 48, 192);
  fire(net, "fire7", 48, 192);
  fire(net, "fire8", 64, 256);
  fire(net, "fire9", 64, 256);
  net.add(ops::kGlobalAveragePool, "average");
  return net.classify();
}

}  // namespace mantissa
