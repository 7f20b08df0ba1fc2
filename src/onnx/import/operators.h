// The operators of ONNX that can be imported, by family; operators.cpp has the table.
#pragma once

#include <span>

#include "base/result.h"
#include "onnx/import/context.h"

namespace mantissa::onnx {

// Adds the node to the graph and defines its output. Errors say why it cannot.
using ImportFunction = Status (*)(ImportContext& context, const NodeData& node);

// The function for a node of the operator that reads values of this form; null: there is none.
ImportFunction import_function(std::string_view op_type, Form form);
// The reason that there is none.
std::string reason_against(std::string_view op_type, Form form);

// A function `row` is for values of rows, and has a sister for images under the same name.
// operators/arithmetic.cpp
Status import_add(ImportContext& context, const NodeData& node);
Status import_row_add(ImportContext& context, const NodeData& node);
Status import_subtract(ImportContext& context, const NodeData& node);
Status import_row_subtract(ImportContext& context, const NodeData& node);
Status import_power(ImportContext& context, const NodeData& node);
Status import_multiply(ImportContext& context, const NodeData& node);
Status import_row_multiply(ImportContext& context, const NodeData& node);
Status import_divide(ImportContext& context, const NodeData& node);
Status import_row_divide(ImportContext& context, const NodeData& node);
// operators/attention.cpp: scores, with a mask or a bias that is added, or a mask that chooses, and
// the nodes after them.
Status import_softmax(ImportContext& context, const NodeData& node);
Status import_is_nan(ImportContext& context, const NodeData& node);
Status import_where(ImportContext& context, const NodeData& node);
// operators/convolution.cpp
Status import_convolution(ImportContext& context, const NodeData& node);
// Whether only other names of its numbers lie between the value and the model's result, and in a
// network of sequences pairs of QuantizeLinear and DequantizeLinear.
bool is_result(const ImportContext& context, std::string value);
// operators/upsampling.cpp
Status import_transposed(ImportContext& context, const NodeData& node);
Status import_resize(ImportContext& context, const NodeData& node);
// operators/functions.cpp: ours for each number at its place, whatever ONNX's order is, and others.
Status add_elementwise(ImportContext& context, const NodeData& node, const Op& op,
                       const Attributes& attributes = {},
                       std::vector<std::vector<double>> numbers = {});
template <const Op* kOp>
Status import_elementwise(ImportContext& context, const NodeData& node) {
  return add_elementwise(context, node, *kOp);
}
Status import_leaky_relu(ImportContext& context, const NodeData& node);
Status import_elu(ImportContext& context, const NodeData& node);
Status import_celu(ImportContext& context, const NodeData& node);
Status import_selu(ImportContext& context, const NodeData& node);
Status import_clip(ImportContext& context, const NodeData& node);
Status import_hard_sigmoid(ImportContext& context, const NodeData& node);
Status import_gelu(ImportContext& context, const NodeData& node);
Status import_dropout(ImportContext& context, const NodeData& node);
Status import_identity(ImportContext& context, const NodeData& node);
Status import_cast(ImportContext& context, const NodeData& node);
Status import_prelu(ImportContext& context, const NodeData& node);
Status import_row_prelu(ImportContext& context, const NodeData& node);
// operators/linear.cpp
Status import_gemm(ImportContext& context, const NodeData& node);
Status import_matmul(ImportContext& context, const NodeData& node);
// operators/norms.cpp
Status import_batch_norm(ImportContext& context, const NodeData& node);
Status import_row_norm(ImportContext& context, const NodeData& node);
Status import_image_norm(ImportContext& context, const NodeData& node);
Status import_group_norm(ImportContext& context, const NodeData& node);
Status import_instance_norm(ImportContext& context, const NodeData& node);
// operators/pooling.cpp
Status import_max_pool(ImportContext& context, const NodeData& node);
Status import_average_pool(ImportContext& context, const NodeData& node);
Status import_global_average_pool(ImportContext& context, const NodeData& node);
Status import_mean(ImportContext& context, const NodeData& node);
Status import_row_mean(ImportContext& context, const NodeData& node);
// Whether no number of the value is below 0: so zeros around it change no maximum.
bool is_never_negative(const ImportContext& context, int value);
// operators/quantised.cpp
Status import_quantise_linear(ImportContext& context, const NodeData& node);
Status import_dequantise_linear(ImportContext& context, const NodeData& node);
// operators/reduce.cpp
Status add_reduction(ImportContext& context, const NodeData& node, const Op& op);
Status add_row_reduction(ImportContext& context, const NodeData& node, const Op& op);
template <const Op* kOp>
Status import_reduction(ImportContext& context, const NodeData& node) {
  return add_reduction(context, node, *kOp);
}
template <const Op* kOp>
Status import_row_reduction(ImportContext& context, const NodeData& node) {
  return add_row_reduction(context, node, *kOp);
}
Status import_image_softmax(ImportContext& context, const NodeData& node);
Status import_row_softmax(ImportContext& context, const NodeData& node);
Status import_global_max_pool(ImportContext& context, const NodeData& node);
// operators/recurrent.cpp
Status import_rnn(ImportContext& context, const NodeData& node);
Status import_lstm(ImportContext& context, const NodeData& node);
Status import_gru(ImportContext& context, const NodeData& node);
// operators/row_places.cpp: rows at constant places, by an index for each element or for each row.
Status import_gather_elements(ImportContext& context, const NodeData& node);
Status import_scatter_elements(ImportContext& context, const NodeData& node);
Status import_scatter_nd(ImportContext& context, const NodeData& node);
// operators/shapes.cpp
Status import_flatten(ImportContext& context, const NodeData& node);
Status import_reshape(ImportContext& context, const NodeData& node);
Status import_squeeze(ImportContext& context, const NodeData& node);
Status import_unsqueeze(ImportContext& context, const NodeData& node);
Status import_row_reshape(ImportContext& context, const NodeData& node);
Status import_transpose(ImportContext& context, const NodeData& node);
Status import_concat(ImportContext& context, const NodeData& node);
Status import_row_concat(ImportContext& context, const NodeData& node);
Status import_pad(ImportContext& context, const NodeData& node);
// operators/slices.cpp
Status import_split(ImportContext& context, const NodeData& node);
Status import_row_split(ImportContext& context, const NodeData& node);
Status import_slice(ImportContext& context, const NodeData& node);
Status import_row_slice(ImportContext& context, const NodeData& node);
Status import_gather(ImportContext& context, const NodeData& node);
Status import_row_gather(ImportContext& context, const NodeData& node);
Status import_row_gather_nd(ImportContext& context, const NodeData& node);

// The padding of a window on both sides of each axis (operators/padding.cpp).
struct Sides {
  int64_t top = 0, left = 0, bottom = 0, right = 0;
  int64_t front = 0, back = 0;  // of the depth
  bool any() const { return top > 0 || left > 0 || bottom > 0 || right > 0; }
};
// From `pads` or `auto_pad`, for an image or a volume and a window with steps.
Result<Sides> sides_of(const NodeData& node, const Shape& image, std::span<const int64_t> window,
                       std::span<const int64_t> strides, std::span<const int64_t> dilations);

// A window along the depth of a volume (operators/padding.cpp).
struct DepthWindow {
  int64_t kernel = 1, stride = 1, dilation = 1, front = 0, back = 0;
  bool is_one_image() const { return kernel == 1 && stride == 1 && front == 0 && back == 0; }
};
// Takes the depth, the first of three axes, out of the window of a node; of two axes there is none.
DepthWindow take_depth(Sides& sides, std::vector<int64_t>& kernel, std::vector<int64_t>& strides,
                       std::vector<int64_t>& dilations);
// The volume with the taps of the window as channels; as it is if these are one image.
Result<int> add_depth_taps(ImportContext& context, const std::string& name, int volume,
                           const DepthWindow& depth);
// [C, 1, 1], or as many dimensions as these are, of a vector.
Layout of_one_place(const std::vector<int64_t>& dims);
// Takes the common part of both sides of each axis out of `sides`: [vertical, horizontal]. The rest
// needs a padding node.
std::vector<int64_t> take_symmetric(Sides& sides);
// The width of sizes [height, width], or `same` if it is the height: so attributes leave it out.
int64_t width_of(std::span<const int64_t> sizes, int64_t same);
Result<int> padded(ImportContext& context, const std::string& name, int image, const Sides& sides);

}  // namespace mantissa::onnx
