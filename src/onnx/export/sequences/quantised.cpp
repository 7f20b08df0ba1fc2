// Layers of few bits in networks of sequences. The results of `quantise` are multiples of its
// steps: before the layer, QuantizeLinear rounds to these. Scales after the layer are float32.
#include <cmath>
#include <cstring>

#include "onnx/export/sequences/operators.h"
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
  if (is_real(context.network.parameters[node.parameters[0]])) {
    return invalid_input("is in float: files in float have no few bits");
  }
  const auto number = [&](size_t i) -> ops::GridNumber {
    const ExportedParameter& from = context.network.parameters[node.parameters[i]];
    return {number_at<int16_t>(from, 0), from.exponents[0]};
  };
  const bool has_offset = node.attributes.is_set("offset");
  const int any_exponent = 0;  // the ends of the grid are the same for each of the input
  const ops::QuantiseSteps steps(node.attributes, number(0), any_exponent,
                                 has_offset ? number(1) : ops::GridNumber{});
  const auto exponent = static_cast<int>(node.attributes.whole("exponent"));
  const double unit = std::ldexp(1.0, exponent);
  ExportBuilder& to = context.builder;
  const std::string name = output_name(context, node);
  const std::string factor = to.scalar(
      static_cast<float>(static_cast<double>(steps.levels()) * unit / steps.range().to_double()),
      node.name + "/factor");
  const std::string scaled = to.add("Mul", name + "/scaled", {context.input(node).name, factor});
  const auto end = [&](int64_t step, const char* what) {
    return to.scalar(static_cast<float>(static_cast<double>(step) * unit), node.name + what);
  };
  SequenceValue result = context.input(node);
  result.name =
      to.add("Clip", name, {scaled, end(steps.low(), "/low"), end(steps.high(), "/high")});
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
