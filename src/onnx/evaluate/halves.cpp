#include "onnx/evaluate/halves.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace mantissa::onnx {
namespace {

constexpr std::string_view kMovers[] = {"BitCast",
                                        "TensorScatter",
                                        "Cast",
                                        "CastLike",
                                        "CenterCropPad",
                                        "Compress",
                                        "Concat",
                                        "Constant",
                                        "DepthToSpace",
                                        "Expand",
                                        "EyeLike",
                                        "Flatten",
                                        "Gather",
                                        "GatherElements",
                                        "GatherND",
                                        "Identity",
                                        "If",
                                        "Loop",
                                        "OneHot",
                                        "Pad",
                                        "Reshape",
                                        "ReverseSequence",
                                        "Scan",
                                        "Shape",
                                        "Size",
                                        "Slice",
                                        "SpaceToDepth",
                                        "Split",
                                        "Squeeze",
                                        "Tile",
                                        "Transpose",
                                        "Trilu",
                                        "Unsqueeze"};

// The input whose type the output has; -1: the output is float, whatever the inputs are.
int type_source(const NodeData& node, size_t output) {
  if (node.op_type == "Where" || node.op_type == "DequantizeLinear") return 1;
  if (node.op_type == "LayerNormalization" && output > 0) return -1;
  if (node.op_type == "BatchNormalization" && output > 0) return 3;
  return 0;
}

}  // namespace

bool has_16_bits(ElementType type) {
  return type == ElementType::kFloat16 || type == ElementType::kBfloat16;
}

Result<TensorData> widened(const TensorData& tensor) {
  MANTISSA_ASSIGN(TensorData result, allocate(ElementType::kFloat, tensor.dims));
  const std::span<const uint16_t> in = numbers<uint16_t>(tensor);
  const auto convert = tensor.type == ElementType::kFloat16 ? from_float16 : from_bfloat16;
  std::transform(in.begin(), in.end(), writable<float>(result).begin(), convert);
  return result;
}

Result<TensorData> narrowed(const TensorData& tensor, ElementType type) {
  MANTISSA_ASSIGN(TensorData result, allocate(type, tensor.dims));
  const std::span<const float> in = numbers<float>(tensor);
  const auto convert = type == ElementType::kFloat16 ? to_float16 : to_bfloat16;
  std::transform(in.begin(), in.end(), writable<uint16_t>(result).begin(), convert);
  return result;
}

bool computes_halves(const NodeData& node, const std::vector<const EvaluatedValue*>& inputs) {
  if (std::find(std::begin(kMovers), std::end(kMovers), node.op_type) != std::end(kMovers)) {
    return false;
  }
  return std::any_of(inputs.begin(), inputs.end(), [](const EvaluatedValue* input) {
    return input != nullptr && input->kind == ValueKind::kTensor && has_16_bits(input->tensor.type);
  });
}

Status widen_inputs(std::vector<const EvaluatedValue*>& inputs,
                    std::deque<EvaluatedValue>& copies) {
  for (const EvaluatedValue*& input : inputs) {
    if (input == nullptr || !has_16_bits(input->tensor.type)) continue;
    EvaluatedValue copy = *input;
    copy.tensor.type = ElementType::kFloat;
    MANTISSA_RETURN_IF_ERROR(value_bytes(ElementType::kFloat, copy.tensor.dims));
    if (input->known) {
      MANTISSA_ASSIGN(const TensorData tensor, aligned(input->tensor));
      MANTISSA_ASSIGN(copy.tensor, widened(tensor));
    }
    input = &copies.emplace_back(std::move(copy));
  }
  return {};
}

Status narrow_outputs(const NodeData& node, const std::vector<const EvaluatedValue*>& inputs,
                      std::vector<EvaluatedValue>& outputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    EvaluatedValue& output = outputs[i];
    const int source = type_source(node, i);
    if (!output.shaped || output.tensor.type != ElementType::kFloat || source < 0 ||
        static_cast<size_t>(source) >= inputs.size() || inputs[source] == nullptr) {
      continue;
    }
    const ElementType type = inputs[source]->tensor.type;
    if (!has_16_bits(type)) continue;
    if (output.known) {
      MANTISSA_ASSIGN(output.tensor, narrowed(output.tensor, type));
    }
    output.tensor.type = type;
  }
  return {};
}

}  // namespace mantissa::onnx
