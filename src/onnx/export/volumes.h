// Volumes [D, H, W, C] in the file: images one after the other, [N * D, C, H, W], so that operators
// of images are the same for them. What goes over all positions takes a volume as one image.
#pragma once

#include <string>

#include "onnx/export/context.h"

namespace mantissa::onnx {

// Why an operator of ours has no form for volumes; empty: it has one, or reads and makes none.
std::string reason_against_volumes(const ExportContext& context, const Node& node);

// The tensor of a volume as one image, [N, C, rows, D * H * W / rows], and back.
std::string volume_as_image(ExportContext& context, const std::string& tensor, const Shape& volume,
                            int64_t rows, const std::string& name);
std::string image_as_volume(ExportContext& context, const std::string& tensor, const Shape& volume,
                            const std::string& name);

// [N, C, D, H, W], the form of the model's inputs and results, to images and back.
std::string volume_of_input(ExportContext& context, const std::string& tensor, const Shape& volume,
                            const std::string& name);
std::string volume_as_result(ExportContext& context, const std::string& tensor,
                             const Shape& volume, const std::string& name);

// All positions of a value as one image: a volume has D * H rows.
Shape whole_shape(const Shape& shape);
// The node's first input in that form.
Exported whole_input(ExportContext& context, const Node& node);

}  // namespace mantissa::onnx
