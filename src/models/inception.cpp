// A small network of Inception-v3's blocks: parallel branches of several sizes, concatenated, and
// grid reductions. Batch norm follows every convolution.
#include "models/layers.h"
#include "models/networks.h"

namespace mantissa {
namespace {

// Convolutions of one branch, one after the other: channels and kernel each.
struct Convolution {
  int64_t channels, kernel;
};

// The last one has the stride.
int branch(Layers& net, const std::string& name, int input, std::initializer_list<Convolution> list,
           int64_t stride = 1) {
  net.continue_from(input);
  int index = 1;
  for (const Convolution& layer : list) {
    const bool last = index == static_cast<int>(list.size());
    net.unit(name + std::to_string(index++), net.scaled(layer.channels), layer.kernel,
             last ? stride : 1);
  }
  return net.last();
}

// 1x1; 1x1 and 5x5; 1x1 and twice 3x3; the average of 3x3 and 1x1.
void block(Layers& net, const std::string& name, int64_t channels, int64_t squeezed,
           int64_t pooled) {
  const int input = net.last();
  const int point = branch(net, name + ".point", input, {{channels, 1}});
  const int five = branch(net, name + ".five", input, {{squeezed, 1}, {channels, 5}});
  const int three =
      branch(net, name + ".three", input, {{squeezed, 1}, {channels, 3}, {channels, 3}});
  net.continue_from(input);
  const int average = net.average_pool(name + ".average", 3, 1, 1);
  const int pool = branch(net, name + ".pool", average, {{pooled, 1}});
  net.concat(name + ".concat", {point, five, three, pool});
}

// Halves the image: 3x3; 1x1 and twice 3x3; the maximum of 3x3.
void reduction(Layers& net, const std::string& name, int64_t channels, int64_t squeezed) {
  const int input = net.last();
  const int once = branch(net, name + ".once", input, {{channels, 3}}, 2);
  const int twice =
      branch(net, name + ".twice", input, {{squeezed, 1}, {channels, 3}, {channels, 3}}, 2);
  net.continue_from(input);
  const int pool = net.max_pool(name + ".pool", 3, 2, 1);
  net.concat(name + ".concat", {once, twice, pool});
}

}  // namespace

// Kernels are square: 5x5 and 3x3 instead of Inception-v3's 7x1 and 1x7.
Result<Graph> inception_small(std::string_view name, const ModelOptions& options) {
  Layers net(name, options);
  net.unit("stem1", net.scaled(32), 3, net.small_images() ? 1 : 2);
  net.unit("stem2", net.scaled(48), 3);
  net.max_pool("stem_pool", 3, 2, 1);
  block(net, "mixed1", 32, 24, 32);
  block(net, "mixed2", 32, 24, 32);
  reduction(net, "reduce1", 48, 32);
  block(net, "mixed3", 56, 40, 56);
  block(net, "mixed4", 56, 40, 56);
  reduction(net, "reduce2", 72, 48);
  block(net, "mixed5", 80, 48, 80);
  net.add(ops::kGlobalAveragePool, "average");
  return net.classify();
}

}  // namespace mantissa
