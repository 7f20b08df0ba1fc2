// The inputs and outputs of an exported model.
#pragma once

#include <string>

#include "onnx/export/context.h"

namespace mantissa::onnx {

// Whether the network reads rows of numbers, [C], pictures of them, [H, W, C], or positions,
// [T, C], over which it has convolutions; or several pictures and rows. Its values are mantissas,
// as of a network of pixels.
bool reads_numbers_as_mantissas(const Graph& network);

// Whether the input is read as places of rows alone, by gather_rows and scatter_rows.
bool is_places(const Graph& network, int input);

// The first input that has no places.
const Value& main_input(const Graph& network);

// Adds the inputs that nodes other than losses read. The result says which inputs the model cannot
// have.
std::string add_inputs(ExportContext& context);

// Names the outputs, once the inputs are there. The result says which name is not possible.
std::string name_outputs(ExportContext& context);

// Whether the model has sequences among its inputs.
bool reads_sequences(const ExportContext& context);

// Whether the model has a mask of that sequence.
bool has_padding(const ExportContext& context, Side side);

// Whether sequences have the network's own number of positions in the file, and no other: places
// of rows name them.
bool has_fixed_length(const Graph& network);

// The name of a sequence's open number of positions.
const char* length_name(Side side);

// Adds the outputs, once all nodes are there.
void add_outputs(ExportContext& context);

}  // namespace mantissa::onnx
