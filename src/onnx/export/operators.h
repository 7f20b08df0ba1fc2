// The operators of frozen networks that can be exported, by family; operators.cpp has the table.
#pragma once

#include "base/result.h"
#include "onnx/export/context.h"

namespace mantissa::onnx {

// Adds the operators that compute node n of the network, and returns its output. Errors say why it
// cannot:
// "adds values whose units differ by more than 2^16".
using ExportFunction = Result<Exported> (*)(ExportContext& context, int n);

// The function for an operator; null: there is none.
ExportFunction export_function(const Op* op);

// layers.cpp
Result<Exported> export_pixels(ExportContext& context, int n);
Result<Exported> export_convolution(ExportContext& context, int n);
Result<Exported> export_linear(ExportContext& context, int n);
// arithmetic.cpp
Result<Exported> export_add(ExportContext& context, int n);
Result<Exported> export_multiply(ExportContext& context, int n);
Result<Exported> export_relu(ExportContext& context, int n);
Result<Exported> export_quantise(ExportContext& context, int n);
// tables.cpp
Result<Exported> export_function_of_value(ExportContext& context, int n);
Result<Exported> export_scale_offset(ExportContext& context, int n);
// pooling.cpp
Result<Exported> export_max_pool(ExportContext& context, int n);
Result<Exported> export_average_pool(ExportContext& context, int n);
Result<Exported> export_global_average(ExportContext& context, int n);
// layout.cpp
Result<Exported> export_identity(ExportContext& context, int n);
Result<Exported> export_concat(ExportContext& context, int n);
Result<Exported> export_flatten(ExportContext& context, int n);
Result<Exported> export_reshape(ExportContext& context, int n);
Result<Exported> export_pad(ExportContext& context, int n);
Result<Exported> export_slice(ExportContext& context, int n);
Result<Exported> export_channel_shuffle(ExportContext& context, int n);

}  // namespace mantissa::onnx
