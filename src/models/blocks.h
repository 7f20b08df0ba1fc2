// Stacks of blocks of larger networks at the sizes they have there: small enough to measure.
#pragma once

#include <string_view>

#include "models/models.h"

namespace mantissa {

// A stem of 64 channels and two basic blocks (with 56x56 images: ResNet-18's first stage).
Result<Graph> resnet18_blocks(std::string_view name, const ModelOptions& options);

// A stem and nine inverted residual blocks (expand 1x1, depthwise 3x3, project 1x1; MobileNetV2's).
Result<Graph> mobilenet_blocks(std::string_view name, const ModelOptions& options);

// Linear layers of BERT-base's sizes: pixels to 768, 3072, 768.
Result<Graph> linear_blocks(std::string_view name, const ModelOptions& options);

}  // namespace mantissa
