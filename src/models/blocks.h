// Stacks of blocks of larger networks at the sizes they have there: small enough to measure.
#pragma once

#include <string>
#include <string_view>

#include "models/layers.h"

namespace mantissa {

// Two 3x3 convolutions and a shortcut, which is a projection where the shape changes.
void residual_block(Layers& net, const std::string& name, int64_t channels, int64_t stride);

// A stem of 64 channels and two basic blocks (with 56x56 images: ResNet-18's first stage).
Result<Graph> resnet18_blocks(std::string_view name, const ModelOptions& options);

// A stem and nine inverted residual blocks (expand 1x1, depthwise 3x3, project 1x1; MobileNetV2's).
Result<Graph> mobilenet_blocks(std::string_view name, const ModelOptions& options);

// Linear layers of BERT-base's sizes: pixels to 768, 3072, 768.
Result<Graph> linear_blocks(std::string_view name, const ModelOptions& options);

}  // namespace mantissa
