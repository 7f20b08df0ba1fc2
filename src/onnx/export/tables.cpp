// Functions of one value, as tables of 256 bytes: their results are exact everywhere.
#include <algorithm>
#include <functional>

#include "numerics/point_functions.h"
#include "numerics/rounding.h"
#include "onnx/export/operators.h"
#include "ops/ops.h"

namespace mantissa::onnx {
namespace {

constexpr int kBytes = 256;

const PointFunction* function_of(const Op* op) {
  if (op == &ops::kRelu6) return &kRelu6Function;
  if (op == &ops::kLeakyRelu) return &kLeakyReluFunction;
  if (op == &ops::kSigmoid) return &kSigmoidFunction;
  if (op == &ops::kTanh) return &kTanhFunction;
  if (op == &ops::kHardSigmoid) return &kHardSigmoidFunction;
  return &kHardSwishFunction;
}

// A result before it is requantised, of a mantissa in a channel. |result| <= 2^62.
using Wide = std::function<int64_t(int64_t mantissa, int64_t channel)>;

// The node as a look-up, by value alone or by channel and value: out = wide * 2^-shift.
Exported look_up(ExportContext& context, int n, int64_t channels, const Wide& wide, int shift) {
  const Node& node = context.graph.nodes[n];
  const Exported& in = context.input(node);
  const int value = node.outputs[0];
  Exported out = exported_value(context.output_name(node), context.exponent(value),
                                context.limit(value), is_signed(context, n));
  std::vector<uint8_t> table;
  for (int64_t channel = 0; channel < channels; ++channel) {
    for (int byte = 0; byte < kBytes; ++byte) {
      const int64_t narrow = saturate(rescale_rne(wide(byte - in.zero, channel), shift), out.most);
      table.push_back(static_cast<uint8_t>(std::max<int64_t>(narrow + out.zero, out.least_byte())));
    }
  }
  look_up(context, node, channels, table, out);
  return out;
}

template <typename T>
T number_at(std::span<const std::byte> bytes, int64_t i) {
  return reinterpret_cast<const T*>(bytes.data())[i];
}

}  // namespace

void look_up(ExportContext& context, const Node& node, int64_t channels,
             const std::vector<uint8_t>& table, const Exported& out) {
  ExportBuilder& to = context.builder;
  const std::string bytes =
      to.numbers(node.name + "/table", ElementType::kUint8, {std::ssize(table)}, table);
  std::string index = to.add("Cast", node.name + "/index", {context.input(node).name},
                             {{"to", static_cast<int64_t>(ElementType::kInt32)}});
  if (channels > 1) {
    std::vector<int32_t> offsets;
    for (int channel = 0; channel < channels; ++channel) offsets.push_back(channel * kBytes);
    std::vector<int64_t> dims = {channels};
    if (context.shape(node.outputs[0]).rank == 3) dims.insert(dims.end(), {1, 1});
    index = to.add("Add", node.name + "/place",
                   {index, to.numbers(node.name + "/offsets", ElementType::kInt32, dims, offsets)});
  }
  to.add("Gather", out.name, {bytes, index});
}

Result<Exported> export_function_of_value(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  const PointFunction& function = *function_of(node.op);
  Fraction slope;
  if (node.op == &ops::kLeakyRelu) {
    const Attributes lower = lowered(node);
    slope = {lower.whole("numerator"), lower.whole("denominator")};
  }
  const int in = context.input(node).exponent;
  return look_up(
      context, n, 1, [&](int64_t q, int64_t) { return function.value(q, in, slope); },
      context.exponent(node.outputs[0]) - function.wide_exponent(in));
}

// A batch norm with no layer before it: a multiplier of 31 bits and an offset for each channel.
Result<Exported> export_scale_offset(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  const ExportedParameter& multiplier =
      context.network.parameters[static_cast<size_t>(node.parameters[0])];
  const ExportedParameter& offset =
      context.network.parameters[static_cast<size_t>(node.parameters[1])];
  const auto wide = [&](int64_t q, int64_t channel) {
    return q * number_at<int32_t>(multiplier.numbers, channel) +
           number_at<int64_t>(offset.numbers, channel);
  };
  return look_up(context, n, context.shape(node.outputs[0]).last(), wide,
                 context.exponent(node.outputs[0]) - multiplier.exponents[0]);
}

}  // namespace mantissa::onnx
