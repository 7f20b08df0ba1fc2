// Residual networks. The last batch norm of each block starts with a scale of zero, so that a block
// starts as its shortcut.
#include "models/layers.h"
#include "models/networks.h"

namespace mantissa {
namespace {

// Joins the branch computed last with the block's input, which is projected where shapes differ.
void close_block(Layers& net, const std::string& name, int input, int64_t stride, int branch) {
  const int64_t channels = net.channels();
  net.continue_from(input);
  if (stride != 1 || net.channels() != channels) {
    net.convolution(name + ".shortcut", channels, 1, stride, 0, false);
    net.batch_norm(name + ".shortcut_norm");
  }
  net.sum(name + ".add", branch, net.last());
}

// Two 3x3 convolutions.
void basic_block(Layers& net, const std::string& name, int64_t channels, int64_t stride) {
  const int input = net.last();
  net.convolution(name + ".conv1", channels, 3, stride, 1, false);
  net.batch_norm(name + ".norm1");
  net.relu(name + ".relu1");
  net.convolution(name + ".conv2", channels, 3, 1, 1, false);
  close_block(net, name, input, stride, net.batch_norm(name + ".norm2", true));
  net.relu(name + ".relu2");
}

using Block = void (*)(Layers&, const std::string&, int64_t, int64_t);

struct Stage {
  int64_t channels;
  int blocks;
};

// The stages; each but the first begins with a stride of 2.
Result<Graph> finish(Layers& net, Block block, std::initializer_list<Stage> stages) {
  int index = 1;
  for (const Stage& stage : stages) {
    for (int b = 1; b <= stage.blocks; ++b) {
      block(net, "stage" + std::to_string(index) + ".block" + std::to_string(b),
            net.scaled(stage.channels), index > 1 && b == 1 ? 2 : 1);
    }
    ++index;
  }
  net.add(ops::kGlobalAveragePool, "average");
  return net.classify();
}

void stem(Layers& net, int64_t channels, int64_t kernel, int64_t stride) {
  net.convolution("stem", net.scaled(channels), kernel, stride, kernel / 2, false);
  net.batch_norm("stem_norm");
  net.relu("stem_relu");
}

// 6n + 2 layers for images of CIFAR's size: three stages of n blocks.
Result<Graph> small_resnet(std::string_view name, const ModelOptions& options, int n) {
  Layers net(name, options);
  stem(net, 16, 3, 1);
  return finish(net, basic_block, {{16, n}, {32, n}, {64, n}});
}

}  // namespace

Result<Graph> resnet8(std::string_view name, const ModelOptions& options) {
  return small_resnet(name, options, 1);
}
Result<Graph> resnet20(std::string_view name, const ModelOptions& options) {
  return small_resnet(name, options, 3);
}
// ResNet-18's first stage at the size that it has there (with 56x56 images).
Result<Graph> resnet18_blocks(std::string_view name, const ModelOptions& options) {
  Layers net(name, options);
  stem(net, 64, 3, 1);
  basic_block(net, "block1", net.scaled(64), 1);
  basic_block(net, "block2", net.scaled(64), 1);
  net.add(ops::kGlobalAveragePool, "average");
  return net.classify();
}

}  // namespace mantissa
