// Linear layers with ReLU: NITRO-D's mlp, and layers of BERT-base's sizes.
#include "models/layers.h"
#include "models/networks.h"

namespace mantissa {
namespace {

Result<Graph> stack(std::string_view name, const ModelOptions& options,
                    std::span<const int64_t> widths) {
  Layers net(name, options);
  if (options.features == 0) net.add(ops::kFlatten, "flatten");
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
  constexpr int64_t kWidths[] = {200, 100, 50};
  return options.hidden.empty() ? stack(name, options, kWidths)
                                : stack(name, options, options.hidden);
}

Result<Graph> linear_blocks(std::string_view name, const ModelOptions& options) {
  constexpr int64_t kWidths[] = {768, 3072, 768};
  return stack(name, options, kWidths);
}

}  // namespace mantissa
