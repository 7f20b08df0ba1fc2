// The rules of ONNX Runtime for quantised models, applied to each model before it is written.
#pragma once

#include "base/result.h"
#include "onnx/model.h"

namespace mantissa::onnx {

// An error names the first tensor or node that ONNX Runtime would refuse or silently compute
// wrongly: names that occur twice, or are read before they are made; scales that are not normal
// positive float32 numbers (smaller ones are flushed to zero); zero points of another type or
// shape, or of int32; with weights of 8 bits, a bias that is not in units of input times weight
// (the integer kernels assume it is); windows that lie in the padding alone; types that the
// operator set lacks. Quotients of scales: pooling.cpp.
Status check_exported(const ModelData& model);

}  // namespace mantissa::onnx
