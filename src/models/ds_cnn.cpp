// The keyword spotter of MLPerf Tiny (Zhang et al., "Hello Edge", 2017): a convolution over time
// and frequency, then depthwise separable blocks.
#include "models/layers.h"
#include "models/networks.h"

namespace mantissa {
namespace {

// A convolution of these sides with stride 2, padded so that half the size is left, rounded up.
void halving_convolution(Layers& net, const std::string& name, const ModelOptions& options,
                         int64_t height, int64_t width) {
  const auto padding = [](int64_t size, int64_t kernel) {
    return std::max<int64_t>(0, 2 * ((size + 1) / 2 - 1) + kernel - size);
  };
  const int64_t rows = padding(options.height, height), columns = padding(options.width, width);
  const bool is_even = rows % 2 == 0 && columns % 2 == 0;
  if (!is_even) {
    net.pad(name + "_pad", rows / 2, rows - rows / 2, columns / 2, columns - columns / 2);
  }
  net.add(ops::kConvolution, name,
          {{"channels", net.scaled(64)},
           {"kernel", height},
           {"kernel_width", width},
           {"stride", 2},
           {"padding", is_even ? rows / 2 : 0},
           {"padding_width", is_even ? columns / 2 : 0},
           {"bias", 0}});
}

}  // namespace

Result<Graph> ds_cnn(std::string_view name, const ModelOptions& options) {
  Layers net(name, options);
  halving_convolution(net, "stem", options, 10, 4);
  net.batch_norm("stem_norm");
  net.relu("stem_relu");
  net.dropout("stem_dropout", 0.2);
  const int64_t channels = net.channels();
  for (int block = 1; block <= 4; ++block) {
    const std::string prefix = "block" + std::to_string(block);
    net.convolution(prefix + ".depthwise", channels, 3, 1, 1, false, channels);
    net.batch_norm(prefix + ".depthwise_norm");
    net.relu(prefix + ".depthwise_relu");
    net.unit(prefix + ".pointwise", channels, 1);
  }
  net.dropout("dropout", 0.4);
  net.add(ops::kGlobalAveragePool, "average");
  return net.classify();
}

}  // namespace mantissa
