// Linear layers with ReLU: NITRO-D's mlp, and layers of BERT-base's sizes.
#include "models/layers.h"
#include "models/networks.h"

namespace mantissa {
namespace {

Result<Graph> stack(std::string_view name, const ModelOptions& options,
                    std::initializer_list<int64_t> widths) {
  Layers net(name, options);
  net.add(ops::kFlatten, "flatten");
  int index = 1;
  for (const int64_t channels : widths) {
    const std::string number = std::to_string(index++);
    net.linear("linear" + number, net.scaled(channels));
    net.relu("relu" + number);
  }
  return net.classify();
}

}  // namespace

Result<Graph> mlp(std::string_view name, const ModelOptions& options) {
  return stack(name, options, {200, 100, 50});
}

Result<Graph> linear_blocks(std::string_view name, const ModelOptions& options) {
  return stack(name, options, {768, 3072, 768});
}

}  // namespace mantissa
