// Functions of one value: of bytes as tables of 256 bytes, whose results are exact everywhere; of
// rows those that are more than one of ONNX's operators, or have attributes.
#include <algorithm>
#include <cmath>
#include <functional>

#include "numerics/point_functions.h"
#include "numerics/rounding.h"
#include "onnx/export/operators.h"
#include "onnx/export/parameters.h"
#include "onnx/export/rows.h"
#include "ops/attributes.h"
#include "ops/ops.h"
#include "ops/pointwise/prelu.h"

namespace mantissa::onnx {
namespace {

constexpr int kBytes = 256;

const PointFunction* function_of(const Op* op) {
  if (op == &ops::kRelu6) return &kRelu6Function;
  if (op == &ops::kLeakyRelu) return &kLeakyReluFunction;
  if (op == &ops::kSigmoid) return &kSigmoidFunction;
  if (op == &ops::kTanh) return &kTanhFunction;
  if (op == &ops::kHardSigmoid) return &kHardSigmoidFunction;
  if (op == &ops::kGelu) return &kGeluFunction;
  if (op == &ops::kSilu) return &kSiluFunction;
  if (op == &ops::kElu) return &kEluFunction;
  if (op == &ops::kSoftplus) return &kSoftplusFunction;
  if (op == &ops::kMish) return &kMishFunction;
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

}  // namespace

void look_up(ExportContext& context, const Node& node, int64_t channels,
             const std::vector<uint8_t>& table, const Exported& out) {
  ExportBuilder& to = context.builder;
  const std::string bytes =
      to.numbers(node.name + "/table", ElementType::kUint8, {std::ssize(table)}, table);
  std::string index = to.cast(node.name + "/index", context.input(node).name, ElementType::kInt32);
  if (channels > 1) {
    std::vector<int32_t> offsets;
    for (int channel = 0; channel < channels; ++channel) offsets.push_back(channel * kBytes);
    std::vector<int64_t> dims = {channels};
    if (context.shape(node.outputs[0]).rank > 1) dims.insert(dims.end(), {1, 1});
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
    slope = node.attributes.as<ops::LeakyReluAttributes>().fraction;
  }
  if (node.op == &ops::kElu) slope = node.attributes.as<ops::EluAttributes>().fraction;
  const int in = context.input(node).exponent;
  return look_up(
      context, n, 1, [&](int64_t q, int64_t) { return function.value(q, in, slope); },
      context.exponent(node.outputs[0]) - function.wide_exponent(in));
}

Result<Exported> export_prelu(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  const ExportedParameter& slope = context.numbers(node.parameters[0]);
  const bool shared = node.attributes.as<ops::PreluAttributes>().shared;
  const int unit = ops::prelu_unit(slope.exponents[0]);
  const auto wide = [&](int64_t q, int64_t channel) {
    return q * ops::prelu_factor(q, number_at<int16_t>(slope, channel), slope.exponents[0]);
  };
  return look_up(context, n, shared ? 1 : context.shape(node.outputs[0]).last(), wide,
                 context.exponent(node.outputs[0]) - (context.input(node).exponent + unit));
}

Result<Exported> export_row_prelu(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  const std::string slope = real_parameter(context, node.parameters[0]);
  return with_form(context, node,
                   context.builder.add("PRelu", context.output_name(node),
                                       {context.input(node).name, slope}));
}

Result<Exported> export_row_elu(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  const double alpha = node.attributes.as<ops::EluAttributes>().alpha;
  return with_form(context, node,
                   context.builder.add("Elu", context.output_name(node), {context.input(node).name},
                                       {{"alpha", static_cast<float>(alpha)}}));
}

// Values that cannot be negative stay as they are.
Result<Exported> export_relu(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  Exported out = context.input(node);
  if (!out.is_signed()) return out;
  ExportBuilder& to = context.builder;
  out.name = to.add("Clip", context.output_name(node),
                    {out.name, to.byte(out.zero), to.byte(out.most_byte())});
  return out;
}

Result<Exported> export_row_hard_sigmoid(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  return with_form(
      context, node,
      context.builder.add("HardSigmoid", context.output_name(node), {context.input(node).name},
                          {{"alpha", 1.0F / 6}, {"beta", 0.5F}}));
}

Result<Exported> export_row_leaky_relu(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  const Fraction& slope = node.attributes.as<ops::LeakyReluAttributes>().fraction;
  const auto alpha = static_cast<float>(static_cast<double>(slope.numerator) /
                                        static_cast<double>(slope.denominator));
  return with_form(context, node,
                   context.builder.add("LeakyRelu", context.output_name(node),
                                       {context.input(node).name}, {{"alpha", alpha}}));
}

Result<Exported> export_row_relu6(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  ExportBuilder& to = context.builder;
  const std::string zero = to.scalar(0, "zero"), six = to.scalar(6, "six");
  return with_form(
      context, node,
      to.add("Clip", context.output_name(node), {context.input(node).name, zero, six}));
}

Result<Exported> export_row_silu(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  ExportBuilder& to = context.builder;
  const std::string& in = context.input(node).name;
  const std::string gate = to.add("Sigmoid", node.name + "/gate", {in});
  return with_form(context, node, to.add("Mul", context.output_name(node), {in, gate}));
}

// A batch norm with no layer before it: a multiplier of 31 bits and an offset for each channel.
Result<Exported> export_scale_offset(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  const ExportedParameter& multiplier = context.numbers(node.parameters[0]);
  const ExportedParameter& offset = context.numbers(node.parameters[1]);
  const auto wide = [&](int64_t q, int64_t channel) {
    return q * number_at<int32_t>(multiplier, channel) + number_at<int64_t>(offset, channel);
  };
  return look_up(context, n, context.shape(node.outputs[0]).last(), wide,
                 context.exponent(node.outputs[0]) - multiplier.exponents[0]);
}

Result<Exported> export_row_scale_offset(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  const int64_t channels = context.shape(node.outputs[0]).last();
  const ExportedParameter& multiplier = context.numbers(node.parameters[0]);
  const ExportedParameter& offset = context.numbers(node.parameters[1]);
  if (!is_real(multiplier) && context.network.by_channel[static_cast<size_t>(node.inputs[0])]) {
    return invalid_input("reads values with an exponent for each channel");
  }
  std::vector<float> factors, summands;
  for (int64_t c = 0; c < channels; ++c) {
    if (is_real(multiplier)) {
      factors.push_back(number_at<float>(multiplier, c));
      summands.push_back(number_at<float>(offset, c));
      continue;
    }
    // The integers are for mantissas of the input.
    const int exponent = multiplier.exponents[0];
    factors.push_back(
        static_cast<float>(std::ldexp(static_cast<double>(number_at<int32_t>(multiplier, c)),
                                      exponent - context.exponent(node.inputs[0]))));
    summands.push_back(static_cast<float>(
        std::ldexp(static_cast<double>(number_at<int64_t>(offset, c)), exponent)));
  }
  ExportBuilder& to = context.builder;
  const auto constant = [&](const char* what, const std::vector<float>& numbers) {
    return to.numbers(node.name + what, ElementType::kFloat, {channels}, numbers);
  };
  const std::string name = context.output_name(node);
  const std::string scaled =
      to.add("Mul", name + "/scaled", {context.input(node).name, constant("/factors", factors)});
  Exported result = context.input(node);
  result.name = to.add("Add", name, {scaled, constant("/summands", summands)});
  return result;
}

}  // namespace mantissa::onnx
