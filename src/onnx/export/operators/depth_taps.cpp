// Taps along the depth of volumes, whose images are a batch in the file.
#include <vector>

#include "onnx/export/operators.h"
#include "onnx/export/volumes.h"
#include "ops/attributes.h"
#include "ops/ops.h"
#include "ops/shapes/depth_taps.h"

namespace mantissa::onnx {

// Padding, each result's images by their places, and the taps behind their channel.
Result<Exported> export_depth_taps(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  const Shape in = context.shape(node.inputs[0]), result = context.shape(node.outputs[0]);
  const auto& a = node.attributes.as<ops::DepthTapsAttributes>();
  const int64_t pixels = in[1] * in[2];
  ExportBuilder& to = context.builder;
  Exported out = context.input(node);
  const std::string name = context.output_name(node);
  const std::string apart =
      to.add("Reshape", name + "/apart",
             {out.name, to.list(name + "/apart/shape", {-1, in[0], in[3], pixels})});
  // Zeros behind the last image that is read, and before the first.
  const int64_t last = (result[0] - 1) * a.stride + (a.kernel - 1) * a.dilation;
  const int64_t behind = std::max<int64_t>(0, last + 1 - a.padding - in[0]);
  const std::string zero = out.form == Form::kBytes ? to.byte(out.zero) : to.scalar(0, "zero");
  const std::string padded =
      to.add("Pad", name + "/padded",
             {apart, to.list(name + "/sides", {0, a.padding, 0, 0, 0, behind, 0, 0}), zero});
  std::vector<int64_t> places;
  for (int64_t d = 0; d < result[0]; ++d) {
    for (int64_t tap = 0; tap < a.kernel; ++tap) places.push_back(d * a.stride + tap * a.dilation);
  }
  const std::string at = to.numbers<int64_t>(name + "/places", ElementType::kInt64,
                                             {result[0], a.kernel}, places);
  const std::string taps = to.add("Gather", name + "/taps", {padded, at}, {{"axis", int64_t{1}}});
  const std::string turned =
      to.add("Transpose", name + "/turned", {taps}, {ints("perm", {0, 1, 3, 2, 4})});
  out.name = to.add("Reshape", name,
                    {turned, to.list(name + "/shape", {-1, result[3], in[1], in[2]})});
  return out;
}

}  // namespace mantissa::onnx
