#include "onnx/export/volumes.h"

#include <algorithm>
#include <iterator>

#include "ops/attributes.h"
#include "ops/ops.h"

namespace mantissa::onnx {
namespace {

// Operators whose functions take volumes.
constexpr const Op* kOfVolumes[] = {&ops::kQuantiseInput,
                                    &ops::kConvolution,
                                    &ops::kRescaledConvolution,
                                    &ops::kTransposedConvolution,
                                    &ops::kScaleOffset,
                                    &ops::kQuantise,
                                    &ops::kRequantise,
                                    &ops::kAdd,
                                    &ops::kSubtract,
                                    &ops::kRelu,
                                    &ops::kRelu6,
                                    &ops::kLeakyRelu,
                                    &ops::kSigmoid,
                                    &ops::kTanh,
                                    &ops::kHardSigmoid,
                                    &ops::kHardSwish,
                                    &ops::kGelu,
                                    &ops::kSilu,
                                    &ops::kElu,
                                    &ops::kSoftplus,
                                    &ops::kMish,
                                    &ops::kPrelu,
                                    &ops::kScale,
                                    &ops::kMaxPool,
                                    &ops::kOverlappingMaxPool,
                                    &ops::kAveragePool,
                                    &ops::kExactAveragePool,
                                    &ops::kGlobalAveragePool,
                                    &ops::kRescaledGlobalAverage,
                                    &ops::kIdentity,
                                    &ops::kConcat,
                                    &ops::kFlatten,
                                    &ops::kReshape,
                                    &ops::kUpsample,
                                    &ops::kBilinearResize,
                                    &ops::kPad,
                                    &ops::kDepthTaps,
                                    &ops::kChannelShuffle};

std::string reshaped(ExportContext& context, const std::string& tensor, const std::string& name,
                     const std::vector<int64_t>& dims) {
  ExportBuilder& to = context.builder;
  return to.add("Reshape", name, {tensor, to.list(name + "/shape", dims)});
}

}  // namespace

std::string reason_against_volumes(const ExportContext& context, const Node& node) {
  const auto is_volume = [&](int value) { return ops::is_volume(context.shape(value)); };
  const bool has_any = std::any_of(node.inputs.begin(), node.inputs.end(), is_volume) ||
                       std::any_of(node.outputs.begin(), node.outputs.end(), is_volume);
  if (!has_any) return {};
  const bool is_maximum =
      node.op == &ops::kReduceMax || node.op == &ops::kReduceMean || node.op == &ops::kReduceSum;
  const bool over_all = is_maximum && node.attributes.as<ops::ReduceAttributes>().over ==
                                          ops::ReducedAxes::kPositions;
  const bool is_product = node.op == &ops::kMultiply && is_volume(node.inputs[1]) &&
                          context.shape(node.inputs[0]) == context.shape(node.inputs[1]);
  const bool is_known = over_all || is_product ||
                        std::find(std::begin(kOfVolumes), std::end(kOfVolumes), node.op) !=
                            std::end(kOfVolumes);
  return is_known ? "" : "has no form in ONNX files for volumes [D, H, W, C]";
}

std::string volume_as_image(ExportContext& context, const std::string& tensor, const Shape& volume,
                            int64_t rows, const std::string& name) {
  const int64_t pixels = volume[1] * volume[2], channels = volume[3];
  const std::string apart = reshaped(context, tensor, name + "/apart",
                                     {-1, volume[0], channels, pixels});
  const std::string turned =
      context.builder.add("Transpose", name + "/turned", {apart}, {ints("perm", {0, 2, 1, 3})});
  return reshaped(context, turned, name, {0, channels, rows, volume[0] * pixels / rows});
}

std::string image_as_volume(ExportContext& context, const std::string& tensor, const Shape& volume,
                            const std::string& name) {
  const int64_t pixels = volume[1] * volume[2], channels = volume[3];
  const std::string apart = reshaped(context, tensor, name + "/depths",
                                     {0, channels, volume[0], pixels});
  const std::string turned =
      context.builder.add("Transpose", name + "/images", {apart}, {ints("perm", {0, 2, 1, 3})});
  return reshaped(context, turned, name, {-1, channels, volume[1], volume[2]});
}

std::string volume_of_input(ExportContext& context, const std::string& tensor, const Shape& volume,
                            const std::string& name) {
  const std::string turned =
      context.builder.add("Transpose", name + "/turned", {tensor}, {ints("perm", {0, 2, 1, 3, 4})});
  return reshaped(context, turned, name, {-1, volume[3], volume[1], volume[2]});
}

std::string volume_as_result(ExportContext& context, const std::string& tensor,
                             const Shape& volume, const std::string& name) {
  const std::string apart = reshaped(context, tensor, name + "/apart",
                                     {-1, volume[0], volume[3], volume[1], volume[2]});
  return context.builder.add("Transpose", name, {apart}, {ints("perm", {0, 2, 1, 3, 4})});
}

Shape whole_shape(const Shape& shape) {
  if (ops::is_volume(shape)) return {shape[0] * shape[1], shape[2], shape[3]};
  return ops::as_image(shape);
}

Exported whole_input(ExportContext& context, const Node& node) {
  const Shape& shape = context.shape(node.inputs[0]);
  Exported in = context.input(node);
  if (!ops::is_volume(shape)) return in;
  in.name = volume_as_image(context, in.name, shape, shape[0] * shape[1], node.name + "/whole");
  return in;
}

}  // namespace mantissa::onnx
