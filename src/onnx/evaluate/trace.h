// The beginning of every walk over a model.
#pragma once

#include "base/result.h"
#include "base/system/thread_pool.h"
#include "onnx/evaluate/evaluate.h"
#include "onnx/evaluate/interpreter.h"
#include "onnx/model.h"

namespace mantissa::onnx {

// An interpreter for the model's operator set. Errors: an unsupported one.
Result<Interpreter> start(const ModelData& model, bool shapes_only, ThreadPool& pool);

// The inputs as values whose numbers are not known, and the initialisers.
Result<Scope> shaped_scope(const ModelData& model, const Shapes& inputs);

}  // namespace mantissa::onnx
