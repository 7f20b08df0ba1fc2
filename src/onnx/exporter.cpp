#include "onnx/exporter.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "base/checked.h"
#include "numerics/point_functions.h"
#include "numerics/rounding.h"
#include "onnx/export_builder.h"
#include "onnx/export_layers.h"
#include "ops/convolution_bytes.h"
#include "ops/convolution_shape.h"
#include "ops/ops.h"
#include "ops/pool_axes.h"
#include "ops/quantise_steps.h"

namespace mantissa::onnx {
namespace {

constexpr int kPixelExponent = -6;  // of normalise_input
constexpr int kSignedZero = 128;    // what stands for 0 where there are negative mantissas
constexpr int64_t kExactSums = int64_t{1} << 24;
constexpr int kMostInt4 = 7;
// Two products of bytes are added with saturation where a CPU has AVX2 without VNNI.
constexpr int kMostPair = 32767;

// A value as the model has it.
struct Exported {
  std::string name;  // a tensor of uint8
  int exponent = 0;
  int most = 127;         // the largest mantissa
  bool is_signed = true;  // 128 stands for 0, else 0
  bool is_real = false;   // float32 logits
  Shape image;            // of one example, before it was flattened: [H, W, C]
  int zero() const { return is_signed ? kSignedZero : 0; }
  int most_byte() const { return most + zero(); }
};

NodeAttribute ints(const char* name, std::vector<int64_t> values) {
  return {name, std::move(values)};
}

// Whether a rescaled layer applies one.
bool is_relu6(const Node& node) {
  const bool is_rescaled =
      node.op == &ops::kRescaledConvolution || node.op == &ops::kRescaledLinear;
  return is_rescaled && node.attributes.is_set("relu6");
}

const PointFunction* function_of(const Op* op) {
  if (op == &ops::kRelu6) return &kRelu6Function;
  if (op == &ops::kLeakyRelu) return &kLeakyReluFunction;
  if (op == &ops::kSigmoid) return &kSigmoidFunction;
  if (op == &ops::kTanh) return &kTanhFunction;
  if (op == &ops::kHardSigmoid) return &kHardSigmoidFunction;
  return op == &ops::kHardSwish ? &kHardSwishFunction : nullptr;
}

class Exporter {
 public:
  Exporter(const ExportedNetwork& network, ExportTarget target)
      : network_(network), graph_(*network.graph), target_(target) {}

  Result<ExportedModel> run() {
    find_unread_negatives();
    values_.resize(graph_.values.size());
    std::string reasons;
    for (int n = 0; n < std::ssize(graph_.nodes); ++n) {
      const Node& node = graph_.nodes[n];
      if (!reads_known(node)) continue;  // one reason is enough
      const Status status = export_node(n);
      if (status.ok()) continue;
      reasons += (reasons.empty() ? "" : "; ") +
                 ("node '" + node.name + "' (" + node.op->name + ") " + status.error().message);
    }
    if (!reasons.empty()) return invalid_input("cannot be exported: " + reasons);
    MANTISSA_RETURN_IF_ERROR(add_ends());
    return finish();
  }

 private:
  int exponent(int value) const { return network_.exponents[static_cast<size_t>(value)]; }
  int limit(int value) const { return network_.limits[static_cast<size_t>(value)]; }
  const Exported& input(const Node& node, size_t i = 0) const {
    return *values_[static_cast<size_t>(node.inputs[i])];
  }
  bool reads_known(const Node& node) const {
    return std::all_of(node.inputs.begin(), node.inputs.end(), [&](int value) {
      return graph_.values[value].producer < 0 || values_[static_cast<size_t>(value)].has_value();
    });
  }

  // Of a value that only ReLUs read, directly or behind maxima, negatives may be zeros.
  void find_unread_negatives() {
    const auto readers = readers_of(graph_);
    reads_negatives_.assign(graph_.values.size(), false);
    for (int value = static_cast<int>(graph_.values.size()) - 1; value >= 0; --value) {
      reads_negatives_[value] = graph_.is_output(value);
      for (const int reader : readers[value]) {
        const Node& node = graph_.nodes[reader];
        const bool passes = node.op == &ops::kMaxPool || node.op == &ops::kOverlappingMaxPool ||
                            node.op->traits.view;
        const bool minds =
            passes ? bool{reads_negatives_[node.outputs[0]]} : node.op != &ops::kRelu;
        if (minds) reads_negatives_[value] = true;
      }
    }
  }

  bool is_signed(int n) const {
    const Node& node = graph_.nodes[n];
    return reads_negatives_[node.outputs[0]] && !network_.applies_relu[n] && !is_relu6(node);
  }

  // The float32 tensor of a value.
  std::string real(const Exported& value, const std::string& reader) {
    const std::string name = value.name + "/" + reader;
    return to_.add("DequantizeLinear", name,
                   {value.name, to_.power(value.exponent), to_.byte(value.zero())});
  }

  // Quantises the float32 tensor of a node, and clips it to the mantissas that there are.
  Exported quantised(int n, const std::string& tensor, std::optional<bool> sign = std::nullopt) {
    const Node& node = graph_.nodes[n];
    const int value = node.outputs[0];
    Exported out{.name = graph_.values[value].name,
                 .exponent = exponent(value),
                 .most = limit(value),
                 .is_signed = sign.value_or(is_signed(n)),
                 .image = graph_.values[value].shape};
    if (is_relu6(node)) out.most = ops::largest_of_relu6(out.exponent, out.most);
    const std::string wide = to_.add("QuantizeLinear", out.name + "/unclipped",
                                     {tensor, to_.power(out.exponent), to_.byte(out.zero())});
    const int least = out.is_signed ? kSignedZero - out.most : 0;
    to_.add("Clip", out.name, {wide, to_.byte(least), to_.byte(out.most_byte())});
    return out;
  }

  Status export_node(int n) {
    const Node& node = graph_.nodes[n];
    const Op* op = node.op;
    if (graph_.is_loss(n)) return {};
    std::optional<Exported>& out = values_[static_cast<size_t>(node.outputs[0])];
    if (network_.skipped[n] && op->traits.is_relu) {
      out = input(node);
      return {};
    }
    if (op == &ops::kNormaliseInput) return set(out, pixels(n));
    if (op == &ops::kConvolution || op == &ops::kRescaledConvolution) return layer(n, true, out);
    if (op == &ops::kLinear || op == &ops::kRescaledLinear) return layer(n, false, out);
    if (op == &ops::kQuantise) return quantise(n, out);
    if (op == &ops::kIdentity) return set(out, input(node));
    if (op == &ops::kFlatten) return set(out, flattened(n));
    if (op == &ops::kRelu) return set(out, relu(n));
    if (op == &ops::kAdd) return add(n, out);
    if (op == &ops::kConcat) return set(out, concat(n));
    if (op == &ops::kMaxPool || op == &ops::kOverlappingMaxPool) return set(out, max_pool(n));
    if (op == &ops::kExactAveragePool) return average_pool(n, out);
    if (op == &ops::kRescaledGlobalAverage) return set(out, global_average(n));
    if (function_of(op) != nullptr) return set(out, by_table(n, *function_of(op)));
    return invalid_input("has no form that ONNX Runtime computes to the same bits");
  }

  static Status set(std::optional<Exported>& out, Exported value) {
    out = std::move(value);
    return {};
  }

  // Pixels less their means, in units of 1/64.
  Exported pixels(int n) {
    const Node& node = graph_.nodes[n];
    const int64_t channels = graph_.values[node.outputs[0]].shape.last();
    std::vector<float> means(static_cast<size_t>(channels), 0);
    const WholeList& list = node.attributes.list("means");
    std::copy(list.begin(), list.end(), means.begin());
    const std::string floats = to_.add("Cast", node.name + "/float", {"pixels"},
                                       {{"to", static_cast<int64_t>(ElementType::kFloat)}});
    const std::string mean =
        to_.numbers(node.name + "/means", ElementType::kFloat, {1, channels, 1, 1}, means);
    const std::string centred = to_.add("Sub", node.name + "/centred", {floats, mean});
    const std::string unit =
        to_.scalar(std::ldexp(1.0f, -kPixelExponent), node.name + "/pixels_per_unit");
    return quantised(n, to_.add("Div", node.name + "/units", {centred, unit}), true);
  }

  Result<std::string> weights(const Node& node, const LayerNumbers& numbers, bool is_dense,
                              const Exported& in, std::vector<int64_t> dims) {
    const std::string name = graph_.parameters[node.parameters[0]].name;
    // Weights of few bits fill 8 here. A file of 4-bit weights has them as they were.
    const int shift = target_ == ExportTarget::kPortable ? common_shift(numbers.weights) : 0;
    const int most_weight = numbers.most_weight >> shift;
    std::vector<int8_t> mantissas = numbers.weights;
    std::vector<float> scales = numbers.scales;
    for (int8_t& mantissa : mantissas) mantissa = static_cast<int8_t>(mantissa >> shift);
    for (float& scale : scales) scale = std::ldexp(scale, shift);
    const bool one_scale =
        std::all_of(scales.begin(), scales.end(), [&](float s) { return s == scales[0]; });
    const std::string scale =
        one_scale ? to_.scalar(scales[0], name + "/scale")
                  : to_.numbers(name + "/scales", ElementType::kFloat, {numbers.channels}, scales);
    std::vector<std::string> inputs = {name, scale};
    std::vector<NodeAttribute> attributes;
    if (!one_scale) attributes.push_back({"axis", int64_t{0}});
    const bool saturates = is_dense && 2 * in.most_byte() * most_weight > kMostPair;
    ElementType type = ElementType::kInt8;
    if (target_ == ExportTarget::kPortable && most_weight <= kMostInt4) {
      type = ElementType::kInt4;
      to_.numbers(name, type, std::move(dims), packed(mantissas));
    } else if (target_ == ExportTarget::kOnnxRuntime && saturates) {
      type = ElementType::kUint8;
      std::vector<uint8_t> shifted;
      for (const int weight : mantissas) {
        shifted.push_back(static_cast<uint8_t>(weight + kSignedZero));
      }
      to_.numbers(name, type, std::move(dims), shifted);
      notes_.push_back("layer '" + node.name +
                       "' has unsigned weights, so that CPUs without VNNI do not saturate");
    } else {
      to_.numbers(name, type, std::move(dims), mantissas);
    }
    inputs.push_back(weight_zeros(name, type, one_scale ? 0 : numbers.channels));
    return to_.add("DequantizeLinear", name + "/real", std::move(inputs), std::move(attributes));
  }

  // By how many bits all weights can be shifted to the right, exactly.
  static int common_shift(const std::vector<int8_t>& weights) {
    unsigned any = 0;
    for (const int8_t weight : weights) any |= static_cast<unsigned>(std::abs(int{weight}));
    return any == 0 ? 0 : std::countr_zero(any);
  }

  // The zero point, one or one for each channel: without one a Gemm is not computed in integers.
  std::string weight_zeros(const std::string& name, ElementType type, int64_t channels) {
    std::vector<int64_t> dims;
    if (channels > 0) dims.push_back(channels);
    const auto count = static_cast<size_t>(std::max<int64_t>(1, channels));
    const size_t bytes = type == ElementType::kInt4 ? divide_up<size_t>(count, 2) : count;
    const auto zero = static_cast<uint8_t>(type == ElementType::kUint8 ? kSignedZero : 0);
    return to_.numbers(name + "/zero", type, std::move(dims), std::vector<uint8_t>(bytes, zero));
  }

  // Two to a byte, the first in the low half.
  static std::vector<uint8_t> packed(const std::vector<int8_t>& weights) {
    std::vector<uint8_t> bytes(divide_up<size_t>(weights.size(), 2));
    for (size_t i = 0; i < weights.size(); ++i) {
      bytes[i / 2] |= static_cast<uint8_t>((weights[i] & 15) << (i % 2 * 4));
    }
    return bytes;
  }

  std::string bias(const Node& node, const LayerNumbers& numbers, const Exported& in) {
    const std::string name = node.name + ".bias";
    std::vector<float> scales = numbers.scales;
    for (float& scale : scales) scale = std::ldexp(scale, in.exponent);
    const bool one_scale =
        std::all_of(scales.begin(), scales.end(), [&](float scale) { return scale == scales[0]; });
    to_.numbers(name, ElementType::kInt32, {numbers.channels}, numbers.bias);
    if (one_scale) {
      return to_.add("DequantizeLinear", name + "/real",
                     {name, to_.scalar(scales[0], name + "/scale")});
    }
    return to_.add(
        "DequantizeLinear", name + "/real",
        {name, to_.numbers(name + "/scales", ElementType::kFloat, {numbers.channels}, scales)},
        {{"axis", int64_t{0}}});
  }

  Status layer(int n, bool is_image, std::optional<Exported>& out) {
    const Node& node = graph_.nodes[n];
    const Exported& in = input(node);
    const Shape& of_input = graph_.values[node.inputs[0]].shape;
    if (!is_image && of_input.rank != 1) return invalid_input("reads more than one vector");
    MANTISSA_ASSIGN(
        LayerNumbers numbers,
        layer_numbers(network_, node, {in.exponent, exponent(node.outputs[0]), in.most}));
    if (!numbers.is_rescaled && numbers.most_sum >= kExactSums) {
      notes_.push_back("layer '" + node.name + "' may have sums of 2^24 and more (" +
                       std::to_string(numbers.most_sum) + "), which float32 rounds");
    }
    const Shape& shape = graph_.parameters[node.parameters[0]].shape;
    const bool is_logits = graph_.is_output(node.outputs[0]) && !numbers.is_rescaled;
    if (is_logits && std::adjacent_find(numbers.scales.begin(), numbers.scales.end(),
                                        std::not_equal_to<>()) != numbers.scales.end()) {
      return invalid_input("makes logits from weights with an exponent for each channel");
    }
    std::string result;
    if (is_image) {
      MANTISSA_ASSIGN(result, convolution(node, numbers, in, shape));
    } else {
      if (in.image.rank == 3) {
        to_channels_first(numbers, in.image[0] * in.image[1], in.image[2]);
      }
      MANTISSA_ASSIGN(result, linear(node, numbers, in, shape, is_logits));
    }
    if (is_logits) {
      return set(out, {.name = result, .is_real = true, .image = Shape{shape[0]}});
    }
    return set(out, quantised(n, result));
  }

  Result<std::string> convolution(const Node& node, const LayerNumbers& numbers, const Exported& in,
                                  const Shape& shape) {
    const Attributes& a = node.attributes;
    const int64_t groups = a.whole("groups");
    const auto [vertical, horizontal] = ops::convolution_axes(a);
    const bool is_depthwise = shape[3] == 1 && groups > 1;
    MANTISSA_ASSIGN(const std::string from, weights(node, numbers, !is_depthwise, in,
                                                    {shape[0], shape[3], shape[1], shape[2]}));
    std::vector<std::string> inputs = {real(in, node.name), from};
    if (!numbers.bias.empty()) inputs.push_back(bias(node, numbers, in));
    const int64_t dilation = shape[1] > 1 || shape[2] > 1 ? a.whole("dilation") : 1;
    return to_.add(
        "Conv", node.name + "/real", std::move(inputs),
        {ints("kernel_shape", {shape[1], shape[2]}),
         ints("strides", {vertical.stride, horizontal.stride}),
         ints("pads", {vertical.padding, horizontal.padding, vertical.padding, horizontal.padding}),
         ints("dilations", {dilation, dilation}),
         {"group", groups}});
  }

  Result<std::string> linear(const Node& node, const LayerNumbers& numbers, const Exported& in,
                             const Shape& shape, bool is_logits) {
    MANTISSA_ASSIGN(const std::string from, weights(node, numbers, true, in, {shape[0], shape[1]}));
    std::vector<std::string> inputs = {real(in, node.name), from};
    if (!numbers.bias.empty()) inputs.push_back(bias(node, numbers, in));
    return to_.add("Gemm", is_logits ? "logits" : node.name + "/real", std::move(inputs),
                   {{"transB", int64_t{1}}});
  }

  // The image stays known: who reads the vector orders its weights as the image lies here.
  Exported flattened(int n) {
    const Node& node = graph_.nodes[n];
    Exported out = input(node);
    out.name = to_.add("Flatten", graph_.values[node.outputs[0]].name, {out.name});
    out.image = graph_.values[node.inputs[0]].shape;
    return out;
  }

  // Few bits for a layer. The float32 step that gives the same mantissas for every input is near
  // the quotient of range and levels; a quotient that is rounded twice may need its neighbour.
  Status quantise(int n, std::optional<Exported>& out) {
    const Node& node = graph_.nodes[n];
    const Exported& in = input(node);
    const ExportedParameter& range = network_.parameters[static_cast<size_t>(node.parameters[0])];
    int16_t mantissa = 0;
    std::memcpy(&mantissa, range.numbers.data(), sizeof mantissa);
    const ops::QuantiseSteps steps(node.attributes, mantissa, range.exponents[0], in.exponent);
    const auto agrees = [&](float step) {
      for (int q = in.is_signed ? -in.most : 0; q <= in.most; ++q) {
        const float quotient =
            std::nearbyint(std::ldexp(static_cast<float>(q), in.exponent) / step);
        const auto found =
            std::clamp(quotient, static_cast<float>(steps.low()), static_cast<float>(steps.high()));
        if (found != static_cast<float>(steps.step(q))) return false;
      }
      return true;
    };
    const auto nearest =
        static_cast<float>(steps.range().to_double() / static_cast<double>(steps.high()));
    const std::array candidates = {nearest, std::nextafter(nearest, 0.0f),
                                   std::nextafter(nearest, 2 * nearest)};
    const auto step = std::find_if(candidates.begin(), candidates.end(), agrees);
    if (step == candidates.end()) {
      return invalid_input("has a range that no float32 scale gives to the same bits");
    }
    const int value = node.outputs[0];
    out = Exported{.name = graph_.values[value].name,
                   .exponent = static_cast<int>(node.attributes.whole("exponent")),
                   .most = static_cast<int>(steps.high()),
                   .is_signed = steps.low() < 0,
                   .image = in.image};
    const std::string wide = to_.add(
        "QuantizeLinear", out->name + "/unclipped",
        {real(in, node.name), to_.scalar(*step, node.name + "/step"), to_.byte(out->zero())});
    const int least = out->is_signed ? kSignedZero - out->most : 0;
    to_.add("Clip", out->name, {wide, to_.byte(least), to_.byte(out->most_byte())});
    return {};
  }

  // Of values that are not negative here already, nothing.
  Exported relu(int n) {
    const Node& node = graph_.nodes[n];
    Exported out = input(node);
    if (!out.is_signed) return out;
    out.name = to_.add("Clip", graph_.values[node.outputs[0]].name,
                       {out.name, to_.byte(kSignedZero), to_.byte(out.most_byte())});
    return out;
  }

  Status add(int n, std::optional<Exported>& out) {
    constexpr int kMostDistance = 16;  // from there on one of the two is rounded first
    const Node& node = graph_.nodes[n];
    if (std::abs(input(node, 0).exponent - input(node, 1).exponent) > kMostDistance) {
      return invalid_input("adds values whose units differ by more than 2^16");
    }
    std::vector<std::string> inputs;
    for (size_t i = 0; i < 2; ++i) {
      inputs.push_back(real(input(node, i), node.name + "/" + std::to_string(i)));
    }
    return set(out, quantised(n, to_.add("Add", node.name + "/real", std::move(inputs))));
  }

  Exported concat(int n) {
    const Node& node = graph_.nodes[n];
    std::vector<std::string> inputs;
    bool any_signed = false;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      inputs.push_back(real(input(node, i), node.name + "/" + std::to_string(i)));
      any_signed = any_signed || input(node, i).is_signed;
    }
    return quantised(
        n, to_.add("Concat", node.name + "/real", std::move(inputs), {{"axis", int64_t{1}}}),
        any_signed && is_signed(n));
  }

  static std::vector<NodeAttribute> windows(const Attributes& a, bool ceil = false) {
    const auto [vertical, horizontal] = ops::pool_axes(a);
    return {
        ints("kernel_shape", {vertical.window, horizontal.window}),
        ints("strides", {vertical.stride, horizontal.stride}),
        ints("pads", {vertical.padding, horizontal.padding, vertical.padding, horizontal.padding}),
        {"ceil_mode", int64_t{ceil ? 1 : 0}}};
  }

  // Bytes have the order of mantissas: nothing is quantised.
  Exported max_pool(int n) {
    const Node& node = graph_.nodes[n];
    Exported out = input(node);
    out.name = to_.add("MaxPool", graph_.values[node.outputs[0]].name, {out.name},
                       windows(node.attributes, node.op == &ops::kOverlappingMaxPool &&
                                                    node.attributes.is_set("ceil")));
    out.image = graph_.values[node.outputs[0]].shape;
    return out;
  }

  Status average_pool(int n, std::optional<Exported>& out) {
    const Node& node = graph_.nodes[n];
    if (node.attributes.is_set("ceil")) {
      return invalid_input("has windows that end beyond the image (ceil)");
    }
    std::vector<NodeAttribute> attributes = windows(node.attributes);
    attributes.push_back(
        {"count_include_pad", int64_t{node.attributes.is_set("count_padding") ? 1 : 0}});
    return set(out, quantised(n,
                              to_.add("AveragePool", node.name + "/real",
                                      {real(input(node), node.name)}, std::move(attributes)),
                              input(node).is_signed));
  }

  Exported global_average(int n) {
    const Node& node = graph_.nodes[n];
    Exported out = quantised(
        n, to_.add("GlobalAveragePool", node.name + "/real", {real(input(node), node.name)}),
        input(node).is_signed);
    out.name = to_.add("Flatten", out.name + "/vector", {out.name});
    return out;
  }

  // A look-up of 256 bytes.
  Exported by_table(int n, const PointFunction& function) {
    const Node& node = graph_.nodes[n];
    const Exported& in = input(node);
    Fraction slope;
    if (node.op == &ops::kLeakyRelu) {
      const Attributes lower = lowered(node);
      slope = {lower.whole("numerator"), lower.whole("denominator")};
    }
    const int value = node.outputs[0],
              shift = exponent(value) - function.wide_exponent(in.exponent);
    Exported out{.name = graph_.values[value].name,
                 .exponent = exponent(value),
                 .most = limit(value),
                 .image = graph_.values[value].shape};
    std::vector<uint8_t> table(256);
    for (int byte = 0; byte < 256; ++byte) {
      const int64_t wide = function.value(byte - in.zero(), in.exponent, slope);
      table[static_cast<size_t>(byte)] =
          static_cast<uint8_t>(saturate(rescale_rne(wide, shift), out.most) + out.zero());
    }
    const std::string bytes = to_.numbers(node.name + "/table", ElementType::kUint8, {256}, table);
    const std::string index = to_.add("Cast", node.name + "/index", {in.name},
                                      {{"to", static_cast<int64_t>(ElementType::kInt32)}});
    to_.add("Gather", out.name, {bytes, index});
    return out;
  }

  Status add_ends() {
    const Shape& image = graph_.values[graph_.inputs[0]].shape;
    if (graph_.values[graph_.inputs[0]].type != DataType::kUint8 || image.rank != 3) {
      return invalid_input("cannot be exported: it reads no pictures");
    }
    to_.graph.inputs.push_back({"pixels",
                                ElementType::kUint8,
                                true,
                                {{-1, "N"}, {image[2], ""}, {image[0], ""}, {image[1], ""}}});
    const Exported& logits = *values_[static_cast<size_t>(graph_.outputs[0])];
    if (!logits.is_real) {
      to_.add("DequantizeLinear", "logits",
              {logits.name, to_.power(logits.exponent), to_.byte(logits.zero())});
    }
    to_.graph.outputs.push_back(
        {"logits", ElementType::kFloat, true, {{-1, "N"}, {graph_.classes(), ""}}});
    return {};
  }

  ExportedModel finish() {
    ExportedModel result;
    const bool is_portable = target_ == ExportTarget::kPortable;
    result.model.ir_version = is_portable ? 10 : 8;
    result.model.opsets = {{"", is_portable ? 21 : 17}};
    result.model.producer_name = "mantissa";
    result.model.graph = std::move(to_.graph);
    result.model.graph.name = graph_.name;
    result.notes = std::move(notes_);
    return result;
  }

  const ExportedNetwork& network_;
  const Graph& graph_;
  ExportTarget target_;
  ExportBuilder to_;
  std::vector<std::optional<Exported>> values_;
  std::vector<bool> reads_negatives_;  // by value
  std::vector<std::string> notes_;
};

}  // namespace

Result<ExportedModel> export_network(const ExportedNetwork& network, ExportTarget target) {
  return Exporter(network, target).run();
}

}  // namespace mantissa::onnx
