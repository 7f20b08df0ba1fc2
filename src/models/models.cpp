// The table of networks.
#include "models/models.h"

#include <algorithm>
#include <iterator>

#include "models/networks.h"

namespace mantissa {
namespace {

struct Builder {
  ModelInfo info;
  double learning_rate;
  Result<Graph> (*build)(std::string_view name, const ModelOptions&);
  bool takes_tables = false;
  bool has_hidden = false;  // widths that can be chosen
  bool reads_tokens = false;
  bool masks = false;  // some of the tokens
  bool translates = false;
};

constexpr Builder kBuilders[] = {
    {{"mlp", "784-200-100-50-10, ReLU; for tables, too"}, 0.1, mlp, true, true},
    {{"lenet5", "two 5x5 convolutions (6, 16), linear 120, 84"}, 0.05, lenet5},
    {{"vgg8b", "six 3x3 convolutions (128 to 512), linear 1024, batch norm"}, 0.1, vgg8b},
    {{"vgg16_bn", "13 3x3 convolutions (64 to 512), batch norm, linear 4096 (512 up to 64 pixels)"},
     0.05,
     vgg16_bn},
    {{"resnet8", "residual, 16-32-64 channels, 8 layers"}, 0.2, resnet8},
    {{"resnet20", "residual, 16-32-64 channels, 20 layers"}, 0.2, resnet20},
    {{"resnet56", "residual, 16-32-64 channels, 56 layers"}, 0.2, resnet56},
    {{"resnet110", "residual, 16-32-64 channels, 110 layers"}, 0.2, resnet110},
    {{"resnet18", "residual, 64 to 512 channels; 3x3 stem without a pool up to 64 pixels"},
     0.1,
     resnet18},
    {{"resnet50", "bottlenecks, 256 to 2048 channels; 3x3 stem without a pool up to 64 pixels"},
     0.1,
     resnet50},
    {{"mobilenet_v2", "inverted residuals, 16 to 320 channels; fewer strides up to 64 pixels"},
     0.1,
     mobilenet_v2},
    {{"inception_small", "Inception-v3's blocks: 1x1, 5x5, 3x3 and pool branches, concatenated"},
     0.1,
     inception_small},
    {{"squeezenet", "SqueezeNet 1.1's fire modules, batch norm"}, 0.1, squeezenet},
    {{"ds_cnn",
      "10x4 convolution, four depthwise separable blocks, 64 channels; for 49x10 spectra"},
     0.1,
     ds_cnn},
    {{"vit_tiny", "vision transformer: 4x4 patches of 28 pixels, class token, 4 blocks, 64 channels"},
     0.05,
     vit_tiny},
    {{"resnet18_blocks", "stem and two ResNet-18 blocks, 64 channels"}, 0.2, resnet18_blocks},
    {{"mobilenet_blocks", "stem and nine inverted residual blocks, 16 to 96 channels"},
     0.2,
     mobilenet_blocks},
    {{"linear_blocks", "linear 768, 3072, 768"}, 0.1, linear_blocks, true},
    {{"transformer_lm",
      "language model of text: causal transformer, 3 blocks, 64 channels, 4 heads"},
     0.05,
     transformer_lm,
     false,
     false,
     true},
    {{"lstm_lm", "language model of text: two LSTM layers, 128 channels"},
     0.05,
     lstm_lm,
     false,
     false,
     true},
    {{"gru_lm", "language model of text: two GRU layers, 128 channels"},
     0.05,
     gru_lm,
     false,
     false,
     true},
    {{"bert_tiny", "masked language model: BERT's layers, 2 blocks, 128 channels, 2 heads"},
     0.05,
     bert_tiny,
     false,
     false,
     true,
     true},
    {{"bert_base", "masked language model: 12 blocks, 768 channels, 12 heads"},
     0.05,
     bert_base,
     false,
     false,
     true,
     true},
    {{"bert_large", "masked language model: 24 blocks, 1024 channels, 16 heads"},
     0.05,
     bert_large,
     false,
     false,
     true,
     true},
    {{"transformer_nmt", "translates: encoder and decoder, 2 blocks each, 128 channels, 4 heads"},
     0.05,
     transformer_nmt,
     false,
     false,
     true,
     false,
     true},
    {{"lstm_nmt", "translates: encoder and decoder, 2 LSTM layers each, 128 channels, attention"},
     0.05,
     lstm_nmt,
     false,
     false,
     true,
     false,
     true},
};

// An error for a network of pictures on a table, or for widths that the network does not have.
Status check_use(const Builder& builder, const ModelOptions& options) {
  const std::string name = builder.info.name;
  if (options.features > 0 && !builder.takes_tables) {
    return invalid_input("model: " + name +
                         " takes pictures, and the data are a table; --model mlp takes tables");
  }
  if (builder.reads_tokens && options.sequence < 1) {
    return invalid_input("model: " + name + " is a language model: it wants a text as data");
  }
  if (!options.hidden.empty() && !builder.has_hidden) {
    return invalid_input("hidden: is for --model mlp; the layers of " + name + " are its own");
  }
  return {};
}

}  // namespace

namespace {

std::vector<ModelInfo> infos_of(bool reads_tokens) {
  std::vector<ModelInfo> list;
  for (const Builder& builder : kBuilders) {
    if (builder.reads_tokens == reads_tokens) list.push_back(builder.info);
  }
  return list;
}

}  // namespace

std::span<const ModelInfo> models() {
  static const std::vector<ModelInfo> infos = infos_of(false);
  return infos;
}

std::span<const ModelInfo> language_models() {
  static const std::vector<ModelInfo> infos = infos_of(true);
  return infos;
}

double default_learning_rate(std::string_view name) {
  for (const Builder& builder : kBuilders) {
    if (name == builder.info.name) return builder.learning_rate;
  }
  return 0.2;
}

bool is_language_model(std::string_view name) {
  return std::any_of(std::begin(kBuilders), std::end(kBuilders), [&](const Builder& builder) {
    return builder.reads_tokens && name == builder.info.name;
  });
}

bool is_masked_model(std::string_view name) {
  return std::any_of(std::begin(kBuilders), std::end(kBuilders), [&](const Builder& builder) {
    return builder.masks && name == builder.info.name;
  });
}

bool is_translation_model(std::string_view name) {
  return std::any_of(std::begin(kBuilders), std::end(kBuilders), [&](const Builder& builder) {
    return builder.translates && name == builder.info.name;
  });
}

ops::LossOptions loss_options(const ModelOptions& options) {
  return {.kind = options.loss,
          .smoothing = options.label_smoothing,
          .focal = options.focal,
          .positive_weights = options.positive_weights,
          .delta = options.huber_delta,
          .by_output = options.has_labels};
}

Result<Graph> build_model(std::string_view name, const ModelOptions& options) {
  if (!(options.width_multiplier > 0) || options.width_multiplier > 64) {
    return invalid_input("width must be above 0 and at most 64");
  }
  const bool is_regression = ops::is_for_numbers(options.loss);
  const int64_t most = is_language_model(name) ? kMostTokens : kMostClasses;
  if (options.classes < (is_regression ? 1 : 2) || options.classes > most) {
    return invalid_input("classes must be between 2 and " + std::to_string(most));
  }
  std::string names;
  for (const Builder& builder : kBuilders) {
    if (name == builder.info.name) {
      MANTISSA_RETURN_IF_ERROR(check_use(builder, options));
      Result<Graph> graph = builder.build(name, options);
      if (!graph.ok() && options.features == 0 && options.sequence == 0) {
        graph.error().message = std::string(name) + ", images of " +
                                std::to_string(options.height) + "x" +
                                std::to_string(options.width) + "x" +
                                std::to_string(options.channels) + ": " + graph.error().message;
      }
      return graph;
    }
    names += (names.empty() ? "" : ", ") + std::string(builder.info.name);
  }
  return invalid_input("unknown model '" + std::string(name) + "'; choose one of " + names +
                       ", or a file NAME.json");
}

}  // namespace mantissa
