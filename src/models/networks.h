// The built-in networks, a file per family; models.cpp has the table. Each takes any image from
// which its layers leave at least one pixel. Each multiplies all channels by the width, except the
// classifier's.
#pragma once

#include <string_view>

#include "base/result.h"
#include "graph/graph.h"
#include "models/models.h"

namespace mantissa {

// Linear layers: mlp.cpp.
Result<Graph> mlp(std::string_view name, const ModelOptions& options);
Result<Graph> linear_blocks(std::string_view name, const ModelOptions& options);

// lenet.cpp.
Result<Graph> lenet5(std::string_view name, const ModelOptions& options);

// Plain stacks of 3x3 convolutions: vgg.cpp.
Result<Graph> vgg8b(std::string_view name, const ModelOptions& options);
Result<Graph> vgg16_bn(std::string_view name, const ModelOptions& options);

// Residual networks: resnet.cpp.
Result<Graph> resnet8(std::string_view name, const ModelOptions& options);
Result<Graph> resnet20(std::string_view name, const ModelOptions& options);
Result<Graph> resnet56(std::string_view name, const ModelOptions& options);
Result<Graph> resnet110(std::string_view name, const ModelOptions& options);
Result<Graph> resnet18(std::string_view name, const ModelOptions& options);
Result<Graph> resnet50(std::string_view name, const ModelOptions& options);
Result<Graph> resnet18_blocks(std::string_view name, const ModelOptions& options);

// Inverted residuals: mobilenet.cpp.
Result<Graph> mobilenet_v2(std::string_view name, const ModelOptions& options);
Result<Graph> mobilenet_blocks(std::string_view name, const ModelOptions& options);

// Depthwise separable convolutions: ds_cnn.cpp.
Result<Graph> ds_cnn(std::string_view name, const ModelOptions& options);

// Branches that are concatenated: inception.cpp, squeezenet.cpp.
Result<Graph> inception_small(std::string_view name, const ModelOptions& options);
Result<Graph> squeezenet(std::string_view name, const ModelOptions& options);

// Transformers over patches: vision_transformer.cpp.
Result<Graph> vit_tiny(std::string_view name, const ModelOptions& options);

// Language models of tokens: transformer.cpp, recurrent.cpp.
Result<Graph> transformer_lm(std::string_view name, const ModelOptions& options);
Result<Graph> lstm_lm(std::string_view name, const ModelOptions& options);
Result<Graph> gru_lm(std::string_view name, const ModelOptions& options);

// Masked language models: bert.cpp.
Result<Graph> bert_tiny(std::string_view name, const ModelOptions& options);
Result<Graph> bert_base(std::string_view name, const ModelOptions& options);
Result<Graph> bert_large(std::string_view name, const ModelOptions& options);

// Networks that translate: translation.cpp, recurrent_translation.cpp.
Result<Graph> transformer_nmt(std::string_view name, const ModelOptions& options);
Result<Graph> lstm_nmt(std::string_view name, const ModelOptions& options);

}  // namespace mantissa
