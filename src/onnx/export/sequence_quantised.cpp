// Layers of few bits in networks of sequences. What `quantise` gives is a multiple of its steps, to
// which QuantizeLinear rounds in front of the layer; scales behind the layer are float32.
#include <cmath>
#include <cstring>

#include "onnx/export/sequence_operators.h"
#include "ops/quantise_steps.h"

namespace mantissa::onnx {
namespace {

template <typename T>
T number_at(const ExportedParameter& parameter, int64_t i) {
  T number;
  std::memcpy(&number, parameter.numbers.data() + static_cast<size_t>(i) * sizeof(T), sizeof(T));
  return number;
}

}  // namespace

Result<SequenceValue> export_few_bits(SequenceContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  if (node.attributes.is_set("offset")) {
    return invalid_input("has a grid that begins below zero and is trained (lsqplus, wrpn)");
  }
  const ExportedParameter& range = context.network.parameters[node.parameters[0]];
  if (is_real(range)) return invalid_input("is in float: files in float have no few bits");
  const auto exponent = static_cast<int>(node.attributes.whole("exponent"));
  const auto levels = static_cast<double>(ops::quantise_levels(node.attributes));
  const double number =
      ops::range_of({number_at<int16_t>(range, 0), range.exponents[0]}).to_double();
  const double unit = std::ldexp(1.0, exponent);
  ExportBuilder& to = context.builder;
  const std::string name = output_name(context, node);
  const std::string factor =
      to.scalar(static_cast<float>(levels * unit / number), node.name + "/factor");
  const std::string scaled = to.add("Mul", name + "/scaled", {context.input(node).name, factor});
  const double low = node.attributes.is_set("signed") ? -levels : 0;
  SequenceValue result = context.input(node);
  result.name = to.add("Clip", name,
                       {scaled, to.scalar(static_cast<float>(low * unit), node.name + "/low"),
                        to.scalar(static_cast<float>(levels * unit), node.name + "/high")});
  return result;
}

Result<SequenceValue> export_rescaled_rows(SequenceContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  const int64_t channels = context.shape(node.outputs[0]).last();
  const ExportedParameter& multiplier = context.network.parameters[node.parameters[0]];
  const ExportedParameter& offset = context.network.parameters[node.parameters[1]];
  const auto input = static_cast<size_t>(node.inputs[0]);
  if (!is_real(multiplier) && context.network.by_channel[input]) {
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
                                      exponent - context.network.exponents[input])));
    summands.push_back(static_cast<float>(
        std::ldexp(static_cast<double>(number_at<int64_t>(offset, c)), exponent)));
  }
  ExportBuilder& to = context.builder;
  const auto constant = [&](const char* what, const std::vector<float>& numbers) {
    return to.numbers(node.name + what, ElementType::kFloat, {channels}, numbers);
  };
  const std::string name = output_name(context, node);
  const std::string scaled =
      to.add("Mul", name + "/scaled", {context.input(node).name, constant("/factors", factors)});
  SequenceValue result = context.input(node);
  result.name = to.add("Add", name, {scaled, constant("/summands", summands)});
  return result;
}

}  // namespace mantissa::onnx
