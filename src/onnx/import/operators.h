// The operators of ONNX that can be imported, by family; operators.cpp has the table.
#pragma once

#include <span>

#include "base/result.h"
#include "onnx/import/context.h"

namespace mantissa::onnx {

// Adds the node to the graph and defines its output. Errors say why it cannot.
using ImportFunction = Status (*)(ImportContext& context, const NodeData& node);

struct ImportRow {
  const char* op_type;
  ImportFunction function;
};

// For networks of pictures.
const ImportRow* find_row(std::string_view op_type);
// The reason that an operator has no row.
std::string reason_against(std::string_view op_type);

// operators/layers.cpp
Status import_convolution(ImportContext& context, const NodeData& node);
Status import_gemm(ImportContext& context, const NodeData& node);
Status import_matmul(ImportContext& context, const NodeData& node);
Status import_batch_norm(ImportContext& context, const NodeData& node);
// operators/functions.cpp
Status import_relu(ImportContext& context, const NodeData& node);
Status import_leaky_relu(ImportContext& context, const NodeData& node);
Status import_clip(ImportContext& context, const NodeData& node);
Status import_sigmoid(ImportContext& context, const NodeData& node);
Status import_tanh(ImportContext& context, const NodeData& node);
Status import_hard_sigmoid(ImportContext& context, const NodeData& node);
Status import_hard_swish(ImportContext& context, const NodeData& node);
Status import_dropout(ImportContext& context, const NodeData& node);
Status import_identity(ImportContext& context, const NodeData& node);
Status import_cast(ImportContext& context, const NodeData& node);
Status import_prelu(ImportContext& context, const NodeData& node);
// The type that a Cast gives; undefined if its number is unknown.
ElementType cast_type(const NodeData& node);
// operators/quantised.cpp
Status import_quantise_linear(ImportContext& context, const NodeData& node);
Status import_dequantise_linear(ImportContext& context, const NodeData& node);
// operators/arithmetic.cpp
Status import_add(ImportContext& context, const NodeData& node);
Status import_subtract(ImportContext& context, const NodeData& node);
Status import_multiply(ImportContext& context, const NodeData& node);
Status import_divide(ImportContext& context, const NodeData& node);
// operators/pooling.cpp
Status import_max_pool(ImportContext& context, const NodeData& node);
Status import_average_pool(ImportContext& context, const NodeData& node);
Status import_global_average_pool(ImportContext& context, const NodeData& node);
Status import_reduce_mean(ImportContext& context, const NodeData& node);
// operators/shapes.cpp
Status import_flatten(ImportContext& context, const NodeData& node);
Status import_reshape(ImportContext& context, const NodeData& node);
Status import_squeeze(ImportContext& context, const NodeData& node);
Status import_unsqueeze(ImportContext& context, const NodeData& node);
Status import_transpose(ImportContext& context, const NodeData& node);
Status import_concat(ImportContext& context, const NodeData& node);
Status import_pad(ImportContext& context, const NodeData& node);
// operators/slices.cpp
Status import_split(ImportContext& context, const NodeData& node);
Status import_slice(ImportContext& context, const NodeData& node);
Status import_gather(ImportContext& context, const NodeData& node);

// The padding of a window on both sides of each axis (operators/padding.cpp).
struct Sides {
  int64_t top = 0, left = 0, bottom = 0, right = 0;
  bool any() const { return top > 0 || left > 0 || bottom > 0 || right > 0; }
};
// From `pads` or `auto_pad`, for an image and a window with steps.
Result<Sides> sides_of(const NodeData& node, const Shape& image, std::span<const int64_t> window,
                       std::span<const int64_t> strides, std::span<const int64_t> dilations);
// Takes the common part of both sides of each axis out of `sides`: [vertical, horizontal]. The rest
// needs a padding node.
std::vector<int64_t> take_symmetric(Sides& sides);
Result<int> padded(ImportContext& context, const std::string& name, int image, const Sides& sides);

}  // namespace mantissa::onnx
