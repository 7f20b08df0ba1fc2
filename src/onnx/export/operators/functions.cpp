// Functions of one value: of mantissas as tables of their results, which are exact everywhere; of
// rows those that are more than one of ONNX's operators, or have attributes.
#include <algorithm>
#include <cmath>
#include <functional>

#include "numerics/point_functions.h"
#include "numerics/rounding.h"
#include "onnx/export/operators.h"
#include "onnx/export/parameters.h"
#include "onnx/export/rows.h"
#include "onnx/export/wide.h"
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
  if (op == &ops::kGeluTanh) return &kGeluTanhFunction;
  if (op == &ops::kSilu) return &kSiluFunction;
  if (op == &ops::kElu) return &kEluFunction;
  if (op == &ops::kSoftplus) return &kSoftplusFunction;
  if (op == &ops::kMish) return &kMishFunction;
  return &kHardSwishFunction;
}

// A result before it is requantised, of a mantissa in a channel. |result| <= 2^62.
using Wide = std::function<int64_t(int64_t mantissa, int64_t channel)>;

// The node as a look-up, by value alone or by channel and value: out = wide * 2^-shift.
Result<Exported> look_up(ExportContext& context, int n, int64_t channels, const Wide& wide,
                         int shift) {
  constexpr int64_t kMostResults = int64_t{1} << 22;
  const Node& node = context.graph.nodes[n];
  const Exported& in = context.input(node);
  const int value = node.outputs[0];
  Exported out = exported_value(context.output_name(node), context.exponent(value),
                                context.limit(value), is_signed(context, n));
  const TableRange range = table_range(in);
  if (range.size() > kMostResults / channels) {
    return invalid_input("reads values of 16 bits in more channels than a table has room for");
  }
  std::vector<int64_t> mantissas;
  for (int64_t channel = 0; channel < channels; ++channel) {
    for (int64_t q = range.first; q <= range.last; ++q) {
      mantissas.push_back(saturate(rescale_rne(wide(q, channel), shift), out.most));
    }
  }
  look_up(context, node, channels, mantissas, out);
  return out;
}

// The results of a table as they are in the file.
std::string constant_of(ExportContext& context, const Node& node,
                        const std::vector<int64_t>& mantissas, const Exported& out) {
  ExportBuilder& to = context.builder;
  const std::string name = node.name + "/table";
  const std::vector<int64_t> dims = {std::ssize(mantissas)};
  if (out.form == Form::kWide) {
    std::vector<float> numbers;
    for (const int64_t mantissa : mantissas) {
      const auto whole = static_cast<float>(std::max<int64_t>(mantissa, out.least));
      numbers.push_back(std::ldexp(whole, out.exponent));
    }
    return to.numbers(name, ElementType::kFloat, dims, numbers);
  }
  std::vector<uint8_t> bytes;
  for (const int64_t mantissa : mantissas) {
    const int64_t byte = std::max<int64_t>(mantissa + out.zero, out.least_byte());
    bytes.push_back(static_cast<uint8_t>(byte));
  }
  return to.numbers(name, ElementType::kUint8, dims, bytes);
}

}  // namespace

std::string table_index(ExportContext& context, const Node& node) {
  ExportBuilder& to = context.builder;
  const Exported& in = context.input(node);
  const std::string name = node.name + "/index";
  if (in.form == Form::kBytes) return to.cast(name, in.name, ElementType::kInt32);
  const std::string units = to.add("Mul", name + "/units", {in.name, to.power(-in.exponent)});
  const std::string mantissas = to.cast(name + "/mantissas", units, ElementType::kInt32);
  const std::string first = to.numbers<int32_t>(name + "/first", ElementType::kInt32, {},
                                                {static_cast<int32_t>(in.least)});
  return to.add("Sub", name, {mantissas, first});
}

TableRange table_range(const Exported& in) {
  if (in.form == Form::kBytes) return {-in.zero, kBytes - 1 - in.zero};
  return {in.least, in.most};
}

void look_up(ExportContext& context, const Node& node, int64_t channels,
             const std::vector<int64_t>& mantissas, const Exported& out) {
  ExportBuilder& to = context.builder;
  const std::string table = constant_of(context, node, mantissas, out);
  std::string index = table_index(context, node);
  if (channels > 1) {
    const auto step = static_cast<int32_t>(table_range(context.input(node)).size());
    std::vector<int32_t> offsets;
    for (int channel = 0; channel < channels; ++channel) offsets.push_back(channel * step);
    std::vector<int64_t> dims = {channels};
    if (context.shape(node.outputs[0]).rank > 1) dims.insert(dims.end(), {1, 1});
    index = to.add("Add", node.name + "/place",
                   {index, to.numbers(node.name + "/offsets", ElementType::kInt32, dims, offsets)});
  }
  to.add("Gather", out.name, {table, index});
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

Result<Exported> export_scale(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  const auto& factor = node.attributes.as<ops::ScaleAttributes>();
  return look_up(
      context, n, 1, [&](int64_t q, int64_t) { return q * factor.mantissa; },
      context.exponent(node.outputs[0]) - (context.input(node).exponent + factor.exponent));
}

Result<Exported> export_row_scale(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  ExportBuilder& to = context.builder;
  const auto& own = node.attributes.as<ops::ScaleAttributes>();
  const auto factor =
      static_cast<float>(std::ldexp(static_cast<double>(own.mantissa), own.exponent));
  return with_form(context, node,
                   to.add("Mul", context.output_name(node),
                          {context.input(node).name, to.scalar(factor, node.name + "/factor")}));
}

// Values that cannot be negative stay as they are.
Result<Exported> export_relu(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  Exported out = context.input(node);
  if (!out.is_signed()) return out;
  ExportBuilder& to = context.builder;
  if (out.form == Form::kWide) {
    out.name = to.add("Relu", context.output_name(node), {out.name});
    out.least = 0;
    return out;
  }
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

Result<Exported> export_row_gelu_tanh(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  return with_form(context, node,
                   context.builder.add("Gelu", context.output_name(node),
                                       {context.input(node).name},
                                       {{"approximate", std::string("tanh")}}));
}

namespace {

// The same of values of 16 bits, in float64.
Result<Exported> scale_in_double(ExportContext& context, int n) {
  constexpr double kMostExact = 0x1p53;
  const Node& node = context.graph.nodes[n];
  const ExportedParameter& multiplier = context.numbers(node.parameters[0]);
  const ExportedParameter& offset = context.numbers(node.parameters[1]);
  const Exported& in = context.input(node);
  const Shape& shape = context.shape(node.outputs[0]);
  std::vector<double> factors, summands;
  double most = 0;
  for (int64_t c = 0; c < shape.last(); ++c) {
    const auto factor = static_cast<double>(number_at<int32_t>(multiplier, c));
    summands.push_back(static_cast<double>(number_at<int64_t>(offset, c)));
    factors.push_back(std::ldexp(factor, -in.exponent));
    most = std::max(most, std::abs(factor) * in.most + std::abs(summands.back()));
  }
  if (most >= kMostExact) add_near(context, node, "has products beyond float64");
  ExportBuilder& to = context.builder;
  std::vector<int64_t> dims = {shape.last()};
  if (shape.rank > 1) dims.insert(dims.end(), {1, 1});
  const auto constant = [&](const char* what, const std::vector<double>& numbers) {
    return to.numbers(node.name + what, ElementType::kDouble, dims, numbers);
  };
  const std::string scaled =
      to.add("Mul", node.name + "/scaled",
             {as_double(context, in.name), constant("/factors", factors)});
  const std::string sums =
      to.add("Add", node.name + "/sums", {scaled, constant("/summands", summands)});
  return quantised(context, n,
                   rounded_product(context, sums, std::ldexp(1.0, multiplier.exponents[0]),
                                   context.exponent(node.outputs[0]), node.name + "/real"));
}

}  // namespace

// A batch norm with no layer before it: a multiplier of 31 bits and an offset for each channel.
Result<Exported> export_scale_offset(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  if (context.input(node).form == Form::kWide) return scale_in_double(context, n);
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
