// mlp (NITRO-D's), LeNet-5, VGG8B, the CIFAR-style residual networks, and the table of all.
#include "models/models.h"

#include "models/blocks.h"
#include "models/layers.h"

namespace mantissa {
namespace {

Result<Graph> mlp(std::string_view name, const ModelOptions& options) {
  Layers net(name, options);
  net.add(ops::kFlatten, "flatten");
  int index = 1;
  for (const int64_t channels : {200, 100, 50}) {
    const std::string number = std::to_string(index++);
    net.linear("linear" + number, channels);
    net.relu("relu" + number);
  }
  return net.classify();
}

// 6-16-120-84. The third layer sees all that is left of the image: a convolution there is linear.
Result<Graph> lenet5(std::string_view name, const ModelOptions& options) {
  Layers net(name, options);
  net.convolution("conv1", 6, 5, 1, 2, true);
  net.add(ops::kMaxPool, "pool1", {{"window", 2}});
  net.relu("relu1");
  net.convolution("conv2", 16, 5, 1, 0, true);
  net.add(ops::kMaxPool, "pool2", {{"window", 2}});
  net.relu("relu2");
  net.add(ops::kFlatten, "flatten");
  net.linear("linear1", 120);
  net.relu("relu3");
  net.linear("linear2", 84);
  net.relu("relu4");
  return net.classify();
}

// 128, 256, pool, 256, 512, pool, 512, pool, 512, pool, 1024, classes; batch norm everywhere.
Result<Graph> vgg8b(std::string_view name, const ModelOptions& options) {
  struct Layer {
    int64_t channels;
    bool pool;
  };
  Layers net(name, options);
  int index = 1;
  for (const Layer& layer : {Layer{128, false}, Layer{256, true}, Layer{256, false},
                             Layer{512, true}, Layer{512, true}, Layer{512, true}}) {
    const std::string number = std::to_string(index++);
    net.convolution("conv" + number, net.scaled(layer.channels), 3, 1, 1, false);
    net.batch_norm("norm" + number);
    net.relu("relu" + number);
    if (layer.pool) net.add(ops::kMaxPool, "pool" + number, {{"window", 2}});
  }
  net.add(ops::kFlatten, "flatten");
  net.linear("linear1", net.scaled(1024), false);
  net.batch_norm("norm7");
  net.relu("relu7");
  return net.classify();
}

// 6n + 2 layers: a stem, three stages of n blocks with 16, 32 and 64 channels.
Result<Graph> resnet(std::string_view name, const ModelOptions& options, int blocks) {
  Layers net(name, options);
  net.convolution("stem", net.scaled(16), 3, 1, 1, false);
  net.batch_norm("stem_norm");
  net.relu("stem_relu");
  int stage = 1;
  for (const int64_t channels : {16, 32, 64}) {
    for (int block = 1; block <= blocks; ++block) {
      const int64_t stride = stage > 1 && block == 1 ? 2 : 1;
      residual_block(net, "stage" + std::to_string(stage) + ".block" + std::to_string(block),
                     net.scaled(channels), stride);
    }
    ++stage;
  }
  net.add(ops::kGlobalAveragePool, "average");
  return net.classify();
}

Result<Graph> resnet8(std::string_view name, const ModelOptions& options) {
  return resnet(name, options, 1);
}
Result<Graph> resnet20(std::string_view name, const ModelOptions& options) {
  return resnet(name, options, 3);
}

struct Builder {
  ModelInfo info;
  double learning_rate;
  Result<Graph> (*build)(std::string_view name, const ModelOptions&);
};

constexpr Builder kBuilders[] = {
    {{"mlp", "784-200-100-50-10, ReLU"}, 0.1, mlp},
    {{"lenet5", "two 5x5 convolutions (6, 16), linear 120, 84"}, 0.05, lenet5},
    {{"vgg8b", "six 3x3 convolutions (128 to 512), linear 1024, batch norm"}, 0.1, vgg8b},
    {{"resnet8", "residual, 16-32-64 channels, 8 layers"}, 0.2, resnet8},
    {{"resnet20", "residual, 16-32-64 channels, 20 layers"}, 0.2, resnet20},
    {{"resnet18_blocks", "stem and two ResNet-18 blocks, 64 channels"}, 0.2, resnet18_blocks},
    {{"mobilenet_blocks", "stem and nine inverted residual blocks, 16 to 96 channels"},
     0.2,
     mobilenet_blocks},
    {{"linear_blocks", "linear 768, 3072, 768"}, 0.1, linear_blocks},
};

}  // namespace

std::span<const ModelInfo> models() {
  static const std::vector<ModelInfo> infos = [] {
    std::vector<ModelInfo> list;
    for (const Builder& builder : kBuilders) list.push_back(builder.info);
    return list;
  }();
  return infos;
}

double default_learning_rate(std::string_view name) {
  for (const Builder& builder : kBuilders) {
    if (name == builder.info.name) return builder.learning_rate;
  }
  return 0.2;
}

Result<Graph> build_model(std::string_view name, const ModelOptions& options) {
  if (!(options.width_multiplier > 0) || options.width_multiplier > 64) {
    return invalid_input("width must be above 0 and at most 64");
  }
  if (options.classes < 2 || options.classes > 256) {
    return invalid_input("classes must be between 2 and 256");
  }
  std::string names;
  for (const Builder& builder : kBuilders) {
    if (name == builder.info.name) {
      Result<Graph> graph = builder.build(name, options);
      if (!graph.ok()) graph.error().message = std::string(name) + ": " + graph.error().message;
      return graph;
    }
    names += (names.empty() ? "" : ", ") + std::string(builder.info.name);
  }
  return invalid_input("unknown model '" + std::string(name) + "'; choose one of " + names);
}

}  // namespace mantissa
