// Values of more than 8 bits in float32, which has all mantissas of 16 bits; and results that
// float64 computes exactly where float32 would round.
#pragma once

#include <string>

#include "onnx/export/context.h"

namespace mantissa::onnx {

// Rounds a float32 tensor to the mantissas of `out`, ties to even, and clips it to those that there
// are. The result has the name of `out`.
void round_to(ExportContext& context, const std::string& tensor, const Exported& out);

// The tensor as float64.
std::string as_double(ExportContext& context, const std::string& tensor);

// A float64 tensor times `factor`, rounded to multiples of 2^exponent, ties to even: float32. Exact
// if the products have at most 53 bits, and results above 2^24 multiples are clipped later.
std::string rounded_product(ExportContext& context, const std::string& tensor, double factor,
                            int exponent, const std::string& name);

}  // namespace mantissa::onnx
