// The rules of ONNX Runtime for quantised models, applied to each model before it is written.
#pragma once

#include "base/result.h"
#include "onnx/model.h"

namespace mantissa::onnx {

// An error names the first tensor or node that ONNX Runtime would refuse, or compute wrongly
// without a word: names that are there twice, or are read before they are made; scales that are no
// normal positive float32 (smaller ones are flushed to zero); zero points of another type or shape,
// or of int32; a bias that is not in units of input times weight beside weights of 8 bits (the
// integer kernels take it so); windows that lie in the padding alone; types that the operator set
// lacks. Quotients of scales: pooling.cpp.
Status check_exported(const ModelData& model);

}  // namespace mantissa::onnx
