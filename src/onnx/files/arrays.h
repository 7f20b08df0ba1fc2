// Tensors as arrays of NPZ files.
#pragma once

#include <vector>

#include "base/result.h"
#include "formats/arrays/npy.h"
#include "onnx/model.h"

namespace mantissa::onnx {

// A tensor with the array's numbers. It takes them over.
TensorData to_tensor(NpyArray array);

// The array with the tensor's numbers, which somebody else keeps. Errors: a type that NumPy lacks.
Result<NpyView> to_array(const TensorData& tensor);

}  // namespace mantissa::onnx
