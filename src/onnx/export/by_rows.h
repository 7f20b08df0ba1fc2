// Operators of rows for values of pictures: the value as float32 rows, the operator, and back to
// the mantissas of the network's grid.
#pragma once

#include "onnx/export/operators.h"

namespace mantissa::onnx {

// Adds node n, whose inputs are mantissas, by an operator's function for rows. Inputs [T, C] or
// [1, T, C] become [N, T, C], images [N, H, W, C], vectors stay as they are.
Result<Exported> export_by_rows(ExportContext& context, int n, ExportFunction function);

}  // namespace mantissa::onnx
