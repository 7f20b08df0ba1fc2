#include "models/blocks.h"

namespace mantissa {

void residual_block(Layers& net, const std::string& name, int64_t channels, int64_t stride) {
  const int input = net.last();
  const bool projects = stride != 1 || net.channels() != channels;
  net.convolution(name + ".conv1", channels, 3, stride, 1, false);
  net.batch_norm(name + ".norm1");
  net.relu(name + ".relu1");
  net.convolution(name + ".conv2", channels, 3, 1, 1, false);
  const int branch = net.batch_norm(name + ".norm2", true);
  int shortcut = input;
  if (projects) {
    net.continue_from(input);
    net.convolution(name + ".shortcut", channels, 1, stride, 0, false);
    shortcut = net.batch_norm(name + ".shortcut_norm");
  }
  net.sum(name + ".add", branch, shortcut);
  net.relu(name + ".relu2");
}

Result<Graph> resnet18_blocks(std::string_view name, const ModelOptions& options) {
  Layers net(name, options);
  net.convolution("stem", net.scaled(64), 3, 1, 1, false);
  net.batch_norm("stem_norm");
  net.relu("stem_relu");
  residual_block(net, "block1", net.scaled(64), 1);
  residual_block(net, "block2", net.scaled(64), 1);
  net.add(ops::kGlobalAveragePool, "average");
  return net.classify();
}

namespace {

// Expands the channels six-fold, convolves each on its own, projects; no ReLU on the narrow ends.
void inverted_residual(Layers& net, const std::string& name, int64_t channels, int64_t stride) {
  constexpr int64_t kExpansion = 6;
  const int input = net.last();
  const int64_t before = net.channels(), wide = before * kExpansion;
  net.convolution(name + ".expand", wide, 1, 1, 0, false);
  net.batch_norm(name + ".expand_norm");
  net.relu(name + ".expand_relu");
  net.convolution(name + ".depthwise", wide, 3, stride, 1, false, wide);
  net.batch_norm(name + ".depthwise_norm");
  net.relu(name + ".depthwise_relu");
  net.convolution(name + ".project", channels, 1, 1, 0, false);
  const int branch = net.batch_norm(name + ".project_norm");
  if (stride == 1 && before == channels) net.sum(name + ".add", branch, input);
}

}  // namespace

Result<Graph> mobilenet_blocks(std::string_view name, const ModelOptions& options) {
  struct Stage {
    int64_t channels, blocks, stride;
  };
  Layers net(name, options);
  net.convolution("stem", net.scaled(16), 3, 1, 1, false);
  net.batch_norm("stem_norm");
  net.relu("stem_relu");
  int index = 1;
  for (const Stage& stage : {Stage{24, 2, 1}, Stage{32, 2, 2}, Stage{64, 3, 2}, Stage{96, 2, 1}}) {
    for (int64_t block = 0; block < stage.blocks; ++block) {
      inverted_residual(net, "block" + std::to_string(index++), net.scaled(stage.channels),
                        block == 0 ? stage.stride : 1);
    }
  }
  net.add(ops::kGlobalAveragePool, "average");
  return net.classify();
}

Result<Graph> linear_blocks(std::string_view name, const ModelOptions& options) {
  Layers net(name, options);
  net.add(ops::kFlatten, "flatten");
  int index = 1;
  for (const int64_t channels : {768, 3072, 768}) {
    const std::string number = std::to_string(index++);
    net.linear("linear" + number, net.scaled(channels));
    net.relu("relu" + number);
  }
  return net.classify();
}

}  // namespace mantissa
