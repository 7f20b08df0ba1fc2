// The inputs and the output of an exported model.
#pragma once

#include <string>

#include "onnx/export/context.h"

namespace mantissa::onnx {

// Whether the network reads numbers as pictures, [H, W, C], or as positions, [T, C], over which it
// has convolutions: its values are bytes, as those of a network of pixels.
bool reads_images_of_numbers(const Graph& network);

// Adds the inputs that nodes other than losses read, and the name of the output. The result says
// which inputs the model cannot have.
std::string add_inputs(ExportContext& context);

// Whether the model has sequences among its inputs.
bool reads_sequences(const ExportContext& context);

// Whether the model has a mask of that sequence.
bool has_padding(const ExportContext& context, Side side);

// The name of a sequence's open number of positions.
const char* length_name(Side side);

// Adds the output, once all nodes are there.
void add_output(ExportContext& context);

}  // namespace mantissa::onnx
