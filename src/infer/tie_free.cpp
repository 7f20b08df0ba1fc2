#include "infer/tie_free.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "networks/tie_free_graph.h"
#include "numerics/exponent.h"
#include "numerics/float_product.h"
#include "numerics/real.h"
#include "ops/attributes.h"
#include "ops/ops.h"
#include "ops/pixels.h"
#include "ops/quantise_steps.h"
#include "plan/passes/resolved_values.h"

namespace mantissa {
namespace {

constexpr int kMostWeight = 63;
constexpr int kMostInput = 128;  // the largest magnitude of a mantissa
// The right shifts of sums under which all ways of rounding agree. Up to kMostExactShift, sums
// beyond 2^23 are clipped by any way; further ones need smaller sums.
constexpr int kLeastShift = -7, kMostExactShift = 15, kMostShift = 24;
constexpr int64_t kExactSums = int64_t{1} << 23, kMostSum = int64_t{1} << 30;
constexpr int kMostAddShift = 6;  // of the inputs of a sum, above its own exponent
constexpr int kInputExponent = ops::kPixelExponent + 1;  // the least: 9 bits become 8

// A layer in real numbers: an output is the sum of weight * scale * input, plus bias.
struct RealChannel {
  Real scale, bias;
  std::optional<int> unit = {};  // of a scale that is a power of two
};
struct RealLayer {
  std::vector<int8_t> weights;  // [channels][row]
  std::vector<RealChannel> channels;
  int64_t row() const { return std::ssize(weights) / std::ssize(channels); }
};

// Weights of a channel in units of 2^unit.
int64_t in_units(int64_t weight, const Real& scale, int unit) {
  return to_fixed_point(Real(weight) * scale, -unit, int64_t{1} << 40);
}

// The unit in which a channel's weights have 7 bits: their own, as in training, or else the least;
// kExponentMin if all are zero.
int weight_unit(std::span<const int8_t> weights, const RealChannel& channel) {
  int most = 0;
  for (const int8_t weight : weights) most = std::max(most, std::abs(int{weight}));
  const Real& scale = channel.scale;
  if (most == 0 || scale.is_zero()) return kExponentMin;
  if (channel.unit && most <= kMostWeight) return *channel.unit;
  constexpr int kLowest = -100;
  int unit = std::max(kLowest, -fixed_point_shift(Real(most) * abs(scale), 7) - 2);
  while (in_units(most, abs(scale), unit) > kMostWeight) ++unit;
  return unit;
}

template <typename T>
std::span<const T> numbers(const State& state, int tensor) {
  return {state.data<T>(tensor),
          static_cast<size_t>(state.layout().tensors[static_cast<size_t>(tensor)].shape.count())};
}

class TieFreeFilling {
 public:
  TieFreeFilling(const FrozenNetwork& from, TieFreeGraph graph, FrozenNetwork& to)
      : from_(from),
        to_(to),
        map_(std::move(graph)),
        of_from_(resolve_values(from.graph)),
        of_to_(resolve_values(to.graph)),
        exponents_(to.graph.values.size(), kExponentMin) {}

  Status run(int result_exponent) {
    take_exponents(result_exponent);
    layers_.resize(to_.graph.nodes.size());
    for (int n = 0; n < std::ssize(to_.graph.nodes); ++n) {
      if (is_layer(*to_.graph.nodes[n].op) && to_.graph.nodes[n].op != &ops::kWiden) {
        layers_[n] = real_layer(n);
      }
    }
    MANTISSA_RETURN_IF_ERROR(settle_exponents());
    MANTISSA_RETURN_IF_ERROR(check_grids());
    for (int n = 0; n < std::ssize(to_.graph.nodes); ++n) {
      if (layers_[n].channels.empty()) continue;
      MANTISSA_RETURN_IF_ERROR(fill_layer(n));
    }
    const StateLayout& own = to_.state.layout();
    for (int v = 0; v < std::ssize(to_.graph.values); ++v) {
      const int slot = own.slots.of_value[v];
      if (slot < 0 || to_.graph.values[v].producer < 0) continue;
      to_.state.data<int16_t>(own.exponents)[slot] = static_cast<int16_t>(exponent(v));
    }
    return {};
  }

 private:
  int& exponent(int value) { return exponents_[of_to_.canonical[value]]; }

  int exponent_before(int value) const {
    const StateLayout& layout = from_.state.layout();
    const int slot = layout.slots.of_value[of_from_.canonical[value]];
    return from_.state.data<int16_t>(layout.exponents)[slot];
  }

  void take_exponents(int result_exponent) {
    for (int v = 0; v < std::ssize(from_.graph.values); ++v) {
      const int value = map_.value_of[v];
      if (value < 0) continue;
      const bool is_wide = of_from_.is_wide[of_from_.canonical[v]];
      exponent(value) = is_wide ? result_exponent : exponent_before(v);
    }
  }

  RealLayer real_layer(int n) const {
    const Node& own = to_.graph.nodes[n];
    const Node& node = from_.graph.nodes[map_.origin[n]];
    const Shape& shape = to_.graph.parameters[own.parameters[0]].shape;
    RealLayer layer;
    layer.channels.resize(static_cast<size_t>(shape[0]));
    if (node.parameters.empty()) {  // a mean
      layer.weights.assign(static_cast<size_t>(shape.count()), 1);
      const Real part = Real(1) / Real(shape.count() / shape[0]);
      for (RealChannel& channel : layer.channels) channel.scale = part;
      return layer;
    }
    if (node.op == &ops::kQuantise) {
      layer.weights.assign(static_cast<size_t>(shape.count()), 1);
      for (RealChannel& channel : layer.channels) channel.scale = grid_scale(node);
      return layer;
    }
    const auto tensor = [&](size_t i) {
      return from_.state.layout().parameters[node.parameters[i]];
    };
    const auto weights = numbers<int8_t>(from_.state, tensor(0).mantissa);
    layer.weights.assign(weights.begin(), weights.end());
    const bool is_rescaled = node.parameters.size() == 3;
    for (int64_t c = 0; c < shape[0]; ++c) {
      layer.channels[c] = is_rescaled ? rescaled_channel(node, c) : plain_channel(node, c);
    }
    return layer;
  }

  // Of real numbers to the grid's numbers.
  Real grid_scale(const Node& node) const {
    const auto& grid = node.attributes.as<ops::QuantiseAttributes>();
    const ParameterState& range = from_.state.layout().parameters[node.parameters[0]];
    const Real real = ops::range_of(
        {*from_.state.data<int16_t>(range.mantissa), *from_.state.data<int16_t>(range.exponent)});
    return ldexp(Real(ops::quantise_levels(grid)) / real, grid.exponent);
  }

  RealChannel rescaled_channel(const Node& node, int64_t c) const {
    const auto& parameters = from_.state.layout().parameters;
    const int out = exponent_before(node.outputs[0]), in = exponent_before(node.inputs[0]);
    const Real multiplier(
        double{from_.state.data<float>(parameters[node.parameters[2]].mantissa)[c]});
    const Real bias(int64_t{from_.state.data<int32_t>(parameters[node.parameters[1]].mantissa)[c]});
    return {ldexp(multiplier, out - in), ldexp(bias * multiplier, out)};
  }

  RealChannel plain_channel(const Node& node, int64_t c) const {
    const auto& parameters = from_.state.layout().parameters;
    const ParameterState& weights = parameters[node.parameters[0]];
    const auto exponents = numbers<int16_t>(from_.state, weights.exponent);
    const int unit = exponents[exponents.size() > 1 ? c : 0];
    RealChannel channel{ldexp(Real(1), unit), Real(), unit};
    if (node.parameters.size() < 2) return channel;
    const ParameterState& bias = parameters[node.parameters[1]];
    const auto& tensor = from_.state.layout().tensors[bias.mantissa];
    const int64_t mantissa = tensor.type == DataType::kInt8
                                 ? from_.state.data<int8_t>(bias.mantissa)[c]
                                 : from_.state.data<int16_t>(bias.mantissa)[c];
    channel.bias = ldexp(Real(mantissa), *from_.state.data<int16_t>(bias.exponent));
    return channel;
  }

  std::span<const int8_t> row(const RealLayer& layer, int64_t c) const {
    return std::span(layer.weights).subspan(c * layer.row(), layer.row());
  }

  // Raises exponents until all rules hold.
  Status settle_exponents() {
    for (bool is_settled = false; !is_settled;) {
      is_settled = true;
      for (int n = 0; n < std::ssize(to_.graph.nodes); ++n) {
        if (to_.graph.is_loss(n) || of_to_.skipped[n]) continue;
        if (raise(n)) is_settled = false;
      }
      for (const int e : exponents_) {
        if (e > kExponentMax / 2) return invalid_input("an exponent is too large for sums of it");
      }
    }
    return {};
  }

  // A grid's largest mantissa is right at its own exponent.
  Status check_grids() {
    for (int n = 0; n < std::ssize(to_.graph.nodes); ++n) {
      const Node& node = from_.graph.nodes[map_.origin[n]];
      if (layers_[n].channels.empty() || node.op != &ops::kQuantise) continue;
      const int own = node.attributes.as<ops::QuantiseAttributes>().exponent;
      if (exponent(to_.graph.nodes[n].outputs[0]) == own) continue;
      return invalid_input("node '" + node.name +
                           "': its grid would need another exponent in the form without ties");
    }
    return {};
  }

  bool raise_to(int value, int least) {
    if (exponent(value) >= least) return false;
    exponent(value) = least;
    return true;
  }

  // Whether an exponent of the node's values had to change.
  bool raise(int n) {
    const Node& node = to_.graph.nodes[n];
    const int out = node.outputs[0];
    if (node.op == &ops::kNormaliseInput) return raise_to(out, kInputExponent);
    if (node.op == &ops::kAddHalfUp) return raise_sum(n);
    if (!layers_[n].channels.empty()) {
      bool changes = false;
      for (int64_t c = 0; c < std::ssize(layers_[n].channels); ++c) {
        const int unit = weight_unit(row(layers_[n], c), layers_[n].channels[c]);
        changes |= raise_to(out, exponent(node.inputs[0]) + unit + kLeastShift - 1);
      }
      return changes;
    }
    bool changes = false;  // hands mantissas on
    for (const int input : node.inputs) changes |= raise_to(out, exponent(input));
    for (const int input : node.inputs) changes |= raise_to(input, exponent(out));
    return changes;
  }

  bool raise_sum(int n) {
    const Node& node = to_.graph.nodes[n];
    const int a = node.inputs[0], b = node.inputs[1], out = node.outputs[0];
    bool changes = raise_to(out, std::max(exponent(a), exponent(b)) - kMostAddShift);
    if (of_to_.fused_relu[n]) return changes;
    // Signed sums are equal everywhere if nothing is rounded.
    changes |= raise_to(a, exponent(out));
    return raise_to(b, exponent(out)) || changes;
  }

  // A channel's weights and bias in a unit, the shift of their sums, and whether the form has that.
  struct Channel {
    std::vector<int8_t> weights;
    int64_t bias = 0;
    int shift = 0;
    bool fits = false;
  };

  Channel channel_in(const RealLayer& layer, int64_t c, int unit, int in, int out) const {
    Channel channel;
    const RealChannel& real = layer.channels[c];
    int64_t sum = 0, most = 0;
    for (const int8_t weight : row(layer, c)) {
      const int64_t mantissa = in_units(weight, real.scale, unit);
      most = std::max<int64_t>(most, std::abs(mantissa));
      channel.weights.push_back(
          static_cast<int8_t>(2 * std::clamp<int64_t>(mantissa, -kMostWeight, kMostWeight)));
      sum += std::abs(2 * mantissa) * kMostInput;
    }
    channel.shift = out - in - unit + 1;
    const int64_t bias = to_fixed_point(real.bias, -(in + unit), kMostSum);
    // Sums that are shifted are odd, so that none is halfway between two mantissas.
    channel.bias = 2 * bias + (channel.shift >= 2 ? 1 : 0);
    sum += std::abs(channel.bias);
    channel.fits = most <= kMostWeight && sum < kMostSum && channel.shift >= kLeastShift &&
                   channel.shift <= kMostShift &&
                   (channel.shift <= kMostExactShift || sum < kExactSums);
    return channel;
  }

  Status fill_layer(int n) {
    const Node& node = to_.graph.nodes[n];
    const RealLayer& layer = layers_[n];
    const int in = exponent(node.inputs[0]), out = exponent(node.outputs[0]);
    const auto tensor = [&](size_t i) {
      return to_.state.layout().parameters[node.parameters[i]].mantissa;
    };
    for (int64_t c = 0; c < std::ssize(layer.channels); ++c) {
      constexpr int kShiftOfConstants = 8;
      int unit = weight_unit(row(layer, c), layer.channels[c]);
      // Larger units, whose sums are shifted less, until the sums fit.
      unit = std::max(unit, out - in + 1 - kMostShift);
      if (unit == kExponentMin) unit = out - in - kShiftOfConstants;
      Channel channel = channel_in(layer, c, unit, in, out);
      while (!channel.fits && channel.shift > kLeastShift) {
        channel = channel_in(layer, c, ++unit, in, out);
      }
      if (!channel.fits) {
        return invalid_input("node '" + node.name + "': the numbers of channel " +
                             std::to_string(c) + " have no form without ties");
      }
      std::copy(channel.weights.begin(), channel.weights.end(),
                to_.state.data<int8_t>(tensor(0)) + c * layer.row());
      to_.state.data<int32_t>(tensor(1))[c] = static_cast<int32_t>(channel.bias);
      to_.state.data<float>(tensor(2))[c] = float_from(1, -channel.shift);
    }
    return {};
  }

  const FrozenNetwork& from_;
  FrozenNetwork& to_;
  TieFreeGraph map_;
  ResolvedValues of_from_, of_to_;
  std::vector<int> exponents_;     // by canonical value
  std::vector<RealLayer> layers_;  // by node; without channels: no layer
};

}  // namespace

Status fill_tie_free(const FrozenNetwork& rescaled, int result_exponent, FrozenNetwork& frozen) {
  MANTISSA_ASSIGN(TieFreeGraph graph, tie_free_graph(rescaled.graph));
  return TieFreeFilling(rescaled, std::move(graph), frozen).run(result_exponent);
}

}  // namespace mantissa
