// Residual networks. The last batch norm of each block starts with a scale of zero, so that a block
// starts as its shortcut.
#include "models/layers.h"
#include "models/networks.h"

namespace mantissa {
namespace {

// Joins the branch computed last with the block's input, which is projected if shapes differ.
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

// 1x1 to `channels`, 3x3 with the stride (torchvision's place for it), 1x1 to four times as many.
void bottleneck(Layers& net, const std::string& name, int64_t channels, int64_t stride) {
  const int input = net.last();
  net.convolution(name + ".conv1", channels, 1, 1, 0, false);
  net.batch_norm(name + ".norm1");
  net.relu(name + ".relu1");
  net.convolution(name + ".conv2", channels, 3, stride, 1, false);
  net.batch_norm(name + ".norm2");
  net.relu(name + ".relu2");
  net.convolution(name + ".conv3", 4 * channels, 1, 1, 0, false);
  close_block(net, name, input, stride, net.batch_norm(name + ".norm3", true));
  net.relu(name + ".relu3");
}

using Block = void (*)(Layers&, const std::string&, int64_t, int64_t);

struct ResNetStage {
  int64_t channels;
  int blocks;
};

// The stages; each but the first begins with a stride of 2.
Result<Graph> finish(Layers& net, Block block, std::initializer_list<ResNetStage> stages) {
  int index = 1;
  for (const ResNetStage& stage : stages) {
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

// Four stages. Before them: for large images a 7x7 convolution of stride 2 and a pool, which
// quarter the sides; for small images a 3x3 convolution that keeps the size.
Result<Graph> large_resnet(std::string_view name, const ModelOptions& options, Block block,
                           std::initializer_list<ResNetStage> stages) {
  Layers net(name, options);
  if (net.small_images()) {
    stem(net, 64, 3, 1);
  } else {
    stem(net, 64, 7, 2);
    net.max_pool("stem_pool", 3, 2, 1);
  }
  return finish(net, block, stages);
}

}  // namespace

Result<Graph> resnet8(std::string_view name, const ModelOptions& options) {
  return small_resnet(name, options, 1);
}
Result<Graph> resnet20(std::string_view name, const ModelOptions& options) {
  return small_resnet(name, options, 3);
}
Result<Graph> resnet56(std::string_view name, const ModelOptions& options) {
  return small_resnet(name, options, 9);
}
Result<Graph> resnet110(std::string_view name, const ModelOptions& options) {
  return small_resnet(name, options, 18);
}

Result<Graph> resnet18(std::string_view name, const ModelOptions& options) {
  return large_resnet(name, options, basic_block, {{64, 2}, {128, 2}, {256, 2}, {512, 2}});
}
Result<Graph> resnet50(std::string_view name, const ModelOptions& options) {
  return large_resnet(name, options, bottleneck, {{64, 3}, {128, 4}, {256, 6}, {512, 3}});
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
