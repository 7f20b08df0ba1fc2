// The inputs and the output of an exported model.
#pragma once

#include <string>

#include "onnx/export/context.h"

namespace mantissa::onnx {

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
