// How the weights of layers lie in an exported model, and the way back.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "onnx/export/builder.h"
#include "onnx/export/layer_numbers.h"
#include "onnx/model.h"

namespace mantissa::onnx {

// The form of a layer's weights in the file.
struct WeightsForm {
  ElementType type = ElementType::kInt8;  // in uint8, 128 stands for zero
  int shift = 0;  // of kInt4, which is computed in float: weights are shifted right, scales left
};

// `most_input`: the largest byte that the weights meet in sums where products are added in pairs;
// 0: there are no such sums. Weights of few bits are scaled up to fill 8 bits (0065). In portable
// files, weights that fit 4 bits stay as they were.
WeightsForm weights_form(const LayerNumbers& layer, ExportTarget target, int most_input);

// The name of the float32 tensor of a parameter.
std::string real_weights(const Parameter& parameter);

// Adds weights, scales and zero points, named after the parameter. Returns that float32 tensor.
std::string add_weights(ExportBuilder& to, const Parameter& parameter, const LayerNumbers& layer,
                        const WeightsForm& form);

// The weights of all layers in an exported model: mantissas by parameter, in our own order; other
// parameters are empty. `network` may have any weights. Errors name a tensor that is missing, or is
// not as an export writes it.
Result<std::vector<std::vector<int8_t>>> recover_weights(const ExportedNetwork& network,
                                                         const ModelData& model);

}  // namespace mantissa::onnx
