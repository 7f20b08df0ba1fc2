#include "onnx/export/operators.h"

#include <algorithm>
#include <iterator>

#include "ops/ops.h"

namespace mantissa::onnx {
namespace {

struct ExportRow {
  const Op* op;
  ExportFunction function;
};

constexpr ExportRow kExportRows[] = {
    {&ops::kNormaliseInput, export_pixels},
    {&ops::kConvolution, export_convolution},
    {&ops::kRescaledConvolution, export_convolution},
    {&ops::kLinear, export_linear},
    {&ops::kRescaledLinear, export_linear},
    {&ops::kAdd, export_add},
    {&ops::kMultiply, export_multiply},
    {&ops::kRelu, export_relu},
    {&ops::kQuantise, export_quantise},
    {&ops::kRelu6, export_function_of_value},
    {&ops::kLeakyRelu, export_function_of_value},
    {&ops::kSigmoid, export_function_of_value},
    {&ops::kTanh, export_function_of_value},
    {&ops::kHardSigmoid, export_function_of_value},
    {&ops::kHardSwish, export_function_of_value},
    {&ops::kScaleOffset, export_scale_offset},
    {&ops::kMaxPool, export_max_pool},
    {&ops::kOverlappingMaxPool, export_max_pool},
    {&ops::kExactAveragePool, export_average_pool},
    {&ops::kRescaledGlobalAverage, export_global_average},
    {&ops::kIdentity, export_identity},
    {&ops::kConcat, export_concat},
    {&ops::kFlatten, export_flatten},
    {&ops::kReshape, export_reshape},
    {&ops::kPad, export_pad},
    {&ops::kSlice, export_slice},
    {&ops::kChannelShuffle, export_channel_shuffle},
};

}  // namespace

ExportFunction export_function(const Op* op) {
  const auto* found = std::find_if(std::begin(kExportRows), std::end(kExportRows),
                                   [&](const ExportRow& row) { return row.op == op; });
  return found == std::end(kExportRows) ? nullptr : found->function;
}

}  // namespace mantissa::onnx
