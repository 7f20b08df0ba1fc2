#include "infer/freeze.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>

#include "base/checked.h"
#include "data/batches/epoch_order.h"
#include "infer/tie_free.h"
#include "numerics/exponent.h"
#include "ops/attributes.h"
#include "ops/fp32.h"
#include "ops/norms/channel_affine.h"
#include "ops/norms/fold_affine.h"
#include "ops/ops.h"
#include "ops/value_histogram.h"

namespace mantissa {
namespace {

// Smallest exponent with at most kClippedPart of the counted values above it. If hardly any value
// is non-zero, none is clipped. If all are zero, the result is `of_zeros`: nothing says how large
// the value becomes on other data, and the finest exponent would clip all of it, and the biases of
// its readers.
int chosen_exponent(std::span<const int64_t> counts, int of_zeros) {
  int64_t total = 0;
  for (const int64_t count : counts) total += count;
  const int64_t others = total - counts[ops::kZerosBin];
  if (others == 0) return of_zeros;
  auto allowed = static_cast<int64_t>(std::floor(static_cast<double>(total) * kClippedPart));
  if (others <= allowed) allowed = 0;
  int64_t above = 0;
  int bin = kHistogramBins - 1;
  while (above + counts[bin] <= allowed) above += counts[bin--];
  return bin - 128;
}

bool counted(std::span<const int64_t> histogram) {
  return std::any_of(histogram.begin(), histogram.end(), [](int64_t n) { return n != 0; });
}

// Fixed exponents of all values, chosen in the order of the calibration program.
class Exponents {
 public:
  Exponents(const Graph& graph, const State& state, const Executor& executor)
      : state_(state),
        executor_(executor),
        values_(graph.values.size(), static_cast<int16_t>(zero_exponent(8))),
        channels_(graph.values.size()) {}

  int16_t value(int index) const { return values_[index]; }
  const std::vector<int8_t>& channels(int index) const { return channels_[index]; }

  // Chooses the exponent of an instruction's output, whose values were counted.
  void choose(const Instruction& instruction, const Tensor& output,
              std::span<const int64_t> histogram) {
    const int value = instruction.output().exponent;
    const size_t channels = executor_.channel_exponents(value).size();
    channels_[value].assign(channels, 0);
    if (has_own_grid(*instruction.op)) {
      values_[value] = *output.exponent;
      return;
    }
    if (!counted(histogram)) {  // passes its input's exponent on, the largest of several
      for (const Operand& each : instruction.outputs()) {
        values_[each.exponent] = largest_exponent(instruction.inputs());
      }
      return;
    }
    const std::vector<int> sums = sum_exponents(instruction);
    if (!output.is_guarded()) {
      int chosen = chosen_exponent(histogram, zero_exponent(output.bits));
      if (sums.size() > 1) chosen = std::max(chosen, *std::max_element(sums.begin(), sums.end()));
      values_[value] = static_cast<int16_t>(chosen);
      return;
    }
    std::vector<int> exponents;
    for (size_t c = 0; c < channels; ++c) {
      const int chosen =
          chosen_exponent(histogram.subspan(c * kHistogramBins, kHistogramBins), kExponentMin);
      exponents.push_back(std::max(chosen, sums[sums.size() > 1 ? c : 0]));
    }
    const int largest = *std::max_element(exponents.begin(), exponents.end());
    values_[value] = static_cast<int16_t>(largest);
    for (size_t c = 0; c < channels; ++c) {
      channels_[value][c] =
          static_cast<int8_t>(std::max(exponents[c] - largest, -kMostChannelShift));
    }
  }

 private:
  // The exponents of a convolution's sums, one or one per channel: a channel's exponent is not
  // below it, since there is nothing finer. Empty for others.
  std::vector<int> sum_exponents(const Instruction& instruction) const {
    if (!is_layer(*instruction.op)) return {};
    const int tensor = state_.layout().parameters[instruction.parameters()[0].index].exponent;
    const auto* weights = state_.data<int16_t>(tensor);
    std::vector<int> sums;
    for (int64_t c = 0; c < state_.layout().tensors[tensor].shape.count(); ++c) {
      sums.push_back(values_[instruction.inputs()[0].exponent] + weights[c]);
    }
    return sums;
  }

  int16_t largest_exponent(std::span<const Operand> inputs) const {
    int16_t largest = kExponentMin;
    for (const Operand& input : inputs) {
      if (input.exponent >= 0) largest = std::max(largest, values_[input.exponent]);
    }
    return largest;
  }

  const State& state_;
  const Executor& executor_;
  std::vector<int16_t> values_;
  std::vector<std::vector<int8_t>> channels_;
};

// Runs the calibration program on all batches but a smaller one at the end.
Status run_on(
    OrderedBatches& batches, int64_t batch_size, Programs& programs,
    const std::function<void()>& ran = [] {}) {
  batches.go_to(0);
  for (Batch batch = batches.next(); batch.count == batch_size; batch = batches.next()) {
    MANTISSA_RETURN_IF_ERROR(programs.infer(batch));
    ran();
  }
  return {};
}

// The exponent of the network's result in 8 bits.
Result<int> result_exponent(OrderedBatches& batches, int64_t batch_size, Programs& programs) {
  constexpr int kBits = 8;
  std::array<int64_t, kHistogramBins> counts{};
  MANTISSA_RETURN_IF_ERROR(run_on(batches, batch_size, programs, [&] {
    const Tensor result = programs.outputs();
    for (int64_t i = 0; i < result.count(); ++i) {
      const uint64_t size = magnitude(result.as<int32_t>()[i]);
      const int shift = bit_length(size) - kBits < 0 ? 0 : needed_shift(size, kBits);
      const int bin = size == 0 ? ops::kZerosBin : *result.exponent + shift + 128;
      ++counts[static_cast<size_t>(std::clamp(bin, 0, kHistogramBins - 1))];
    }
  }));
  return chosen_exponent(counts, zero_exponent(kBits));
}

// Numbers of the histogram of an instruction's output, if there is one.
size_t histogram_count(const Tensor& output) {
  if (output.exponent == nullptr) return 0;
  return static_cast<size_t>(output.is_guarded() ? output.shape.last() : 1) * kHistogramBins;
}

// Chooses all exponents, of as many values at a time as their histograms fit `room`: at least one.
Status choose_all(const Program& calibration, std::span<int64_t> room, OrderedBatches& batches,
                  Programs& programs, Executor& executor, Exponents& exponents) {
  const int count = static_cast<int>(calibration.instructions.size());
  for (int first = 0, end = 0; first < count; first = end) {
    std::vector<std::span<int64_t>> histograms;
    for (size_t used = 0; end < count; ++end) {
      const size_t wanted = histogram_count(executor.context(end).output());
      if (used + wanted > room.size()) break;
      histograms.push_back(room.subspan(used, wanted));
      std::fill_n(histograms.back().data(), wanted, 0);
      if (wanted > 0) executor.set_histogram(end, histograms.back().data());
      used += wanted;
    }
    if (end == first) {
      return make_error(ErrorCode::kOverBudget, "calibration has no room for its counts");
    }
    MANTISSA_RETURN_IF_ERROR(run_on(batches, calibration.options.micro_batch_size, programs));
    for (int i = first; i < end; ++i) {
      const std::span<int64_t> histogram = histograms[i - first];
      if (histogram.empty()) continue;
      executor.set_histogram(i, nullptr);
      exponents.choose(calibration.instructions[i], executor.context(i).output(), histogram);
    }
  }
  return {};
}

void copy_tensor(const State& from, int a, State& to, int b) {
  const auto source = from.bytes(a);
  std::copy(source.begin(), source.end(), to.bytes(b).begin());
}

// Copies weights and biases, computes multipliers and offsets.
void fill_frozen_fp32(const Graph& graph, const State& trained, const Program& calibration,
                      const Executor& executor, FrozenNetwork& frozen) {
  const auto& to = frozen.state.layout().parameters;
  for (int i = 0; i < static_cast<int>(calibration.instructions.size()); ++i) {
    const int node = calibration.instructions[i].node;
    if (node < 0) continue;
    const auto& parameters = frozen.graph.nodes[node].parameters;
    if (graph.nodes[node].op->frozen == &ops::kScaleOffset) {
      ops::fp32::freeze_affine(executor.context(i),
                               frozen.state.data<float>(to[parameters[0]].mantissa),
                               frozen.state.data<float>(to[parameters[1]].mantissa));
      continue;
    }
    for (size_t k = 0; k < parameters.size(); ++k) {
      const int from = trained.layout().parameters[graph.nodes[node].parameters[k]].mantissa;
      copy_tensor(trained, from, frozen.state, to[parameters[k]].mantissa);
    }
  }
}

// Fills in a frozen network from the trained one, node by node. Parts that are the same in both
// have the same name.
class Filling {
 public:
  Filling(const Graph& graph, const State& trained, const Program& calibration,
          const Executor& executor, const Exponents& exponents, FrozenNetwork& frozen)
      : graph_(graph),
        trained_(trained),
        calibration_(calibration),
        executor_(executor),
        exponents_(exponents),
        frozen_(frozen) {
    for (const Node& node : frozen.graph.nodes) nodes_.emplace(node.name, &node);
    for (int v = 0; v < std::ssize(graph.values); ++v) values_.emplace(graph.values[v].name, v);
  }

  // Copies weights and biases, computes multipliers and offsets, stores exponents and guards.
  void run() {
    for (const Node& node : graph_.nodes) {
      const auto found = nodes_.find(node.name);
      if (found != nodes_.end() && !is_affine(node)) copy_parameters(node, *found->second);
    }
    for (int i = 0; i < std::ssize(calibration_.instructions); ++i) {
      const Instruction& instruction = calibration_.instructions[i];
      if (instruction.node < 0 || !is_affine(graph_.nodes[instruction.node])) continue;
      const Node& node = graph_.nodes[instruction.node];
      const auto found = nodes_.find(node.name);
      found != nodes_.end() ? scale_offset(i, *found->second) : fold(i, node);
    }
    store_exponents();
  }

 private:
  static bool is_affine(const Node& node) { return node.op->frozen == &ops::kScaleOffset; }

  const ParameterState& from(int parameter) const {
    return trained_.layout().parameters[parameter];
  }
  const ParameterState& to(int parameter) const {
    return frozen_.state.layout().parameters[parameter];
  }

  // A rescaled layer has no bias of its own.
  void copy_parameters(const Node& node, const Node& frozen) {
    const bool is_rescaled =
        frozen.op == &ops::kRescaledConvolution || frozen.op == &ops::kRescaledLinear;
    const size_t count = is_rescaled ? 1 : node.parameters.size();
    for (size_t k = 0; k < count; ++k) {
      const ParameterState &a = from(node.parameters[k]), &b = to(frozen.parameters[k]);
      copy_tensor(trained_, a.mantissa, frozen_.state, b.mantissa);
      copy_exponents(a.exponent, b.exponent);
    }
    constexpr int kWholeBits = 8;
    if (!is_rescaled) return;
    const int bits = trained_.layout().tensors[from(node.parameters[0]).mantissa].bits;
    if (bits < kWholeBits) fill_bytes(to(frozen.parameters[0]));
  }

  // A grid that stays has one exponent, and the frozen weights perhaps one for each channel.
  void copy_exponents(int from, int to) {
    const int64_t count = frozen_.state.layout().tensors[to].shape.count();
    if (trained_.layout().tensors[from].shape.count() == count) {
      return copy_tensor(trained_, from, frozen_.state, to);
    }
    std::fill_n(frozen_.state.data<int16_t>(to), count, *trained_.data<int16_t>(from));
  }

  // Multiplies weights by the largest power of two that 8 bits allow. The bias of a rescaled layer
  // is a whole number of products. With weights of 2 bits, half a product is a large part of the
  // sums, so rounding the bias would cost too much.
  void fill_bytes(const ParameterState& weights) {
    const std::span<std::byte> bytes = frozen_.state.bytes(weights.mantissa);
    auto* const mantissas = frozen_.state.data<int8_t>(weights.mantissa);
    const auto count = static_cast<int64_t>(bytes.size());
    int most = 0;
    for (int64_t i = 0; i < count; ++i) most = std::max(most, std::abs(int{mantissas[i]}));
    const int shift = most == 0 ? 0 : fill_shift(most);
    for (int64_t i = 0; i < count; ++i) {
      mantissas[i] = static_cast<int8_t>(mantissas[i] * (1 << shift));
    }
    const int64_t blocks = frozen_.state.layout().tensors[weights.exponent].shape.count();
    auto* const exponents = frozen_.state.data<int16_t>(weights.exponent);
    for (int64_t b = 0; b < blocks; ++b) exponents[b] = static_cast<int16_t>(exponents[b] - shift);
  }
  static int fill_shift(int most) {
    int shift = 0;
    while (most << (shift + 1) <= INT8_MAX) ++shift;
    return shift;
  }

  void scale_offset(int instruction, const Node& frozen) {
    const ParameterState &multiplier = to(frozen.parameters[0]), &offset = to(frozen.parameters[1]);
    *frozen_.state.data<int16_t>(multiplier.exponent) = static_cast<int16_t>(ops::freeze_affine(
        executor_.context(instruction), frozen_.state.data<int32_t>(multiplier.mantissa),
        frozen_.state.data<int64_t>(offset.mantissa)));
  }

  // A batch norm or rescale into the layer before it.
  void fold(int instruction, const Node& norm) {
    const Node& layer = graph_.nodes[graph_.values[norm.inputs[0]].producer];
    const Node& frozen = *nodes_.at(layer.name);
    const ParameterState& weights = to(frozen.parameters[0]);
    const auto* exponents = frozen_.state.data<int16_t>(weights.exponent);
    const int64_t blocks = frozen_.state.layout().tensors[weights.exponent].shape.count();
    const ParameterState &bias = to(frozen.parameters[1]), &multiplier = to(frozen.parameters[2]);
    const int64_t channels = frozen_.state.layout().tensors[bias.mantissa].shape.count();
    // A ReLU6 has an exponent of its own; a ReLU is part of the batch norm's instruction.
    const int output = frozen.attributes.as<ops::LayerAttributes>().relu6
                           ? values_.at(frozen_.graph.values[frozen.outputs[0]].name)
                           : calibration_.instructions[instruction].output().exponent;
    for (int64_t c = 0; c < channels; ++c) {
      const ops::LayerChannel channel{
          .channel = c,
          .sum_exponent = exponents_.value(layer_input(layer)) + exponents[blocks > 1 ? c : 0],
          .bias = layer_bias(layer, c)};
      const ops::RescaledChannel folded =
          ops::fold_affine(executor_.context(instruction), channel, exponents_.value(output));
      frozen_.state.data<float>(multiplier.mantissa)[c] = folded.multiplier;
      frozen_.state.data<int32_t>(bias.mantissa)[c] = folded.bias;
      if (folded.is_constant) clear_channel(to(frozen.parameters[0]).mantissa, c, channels);
    }
  }

  // The row of the exponent of the value that the layer's instruction reads.
  int layer_input(const Node& layer) const {
    for (const Instruction& each : calibration_.instructions) {
      if (each.node >= 0 && &graph_.nodes[each.node] == &layer) return each.inputs()[0].exponent;
    }
    return layer.inputs[0];
  }

  Real layer_bias(const Node& layer, int64_t channel) const {
    if (layer.parameters.size() < 2) return {};
    const ParameterState& bias = from(layer.parameters[1]);
    const auto exponent = *trained_.data<int16_t>(bias.exponent);
    const DataType type = trained_.layout().tensors[bias.mantissa].type;
    const int64_t mantissa = type == DataType::kInt8 ? trained_.data<int8_t>(bias.mantissa)[channel]
                             : type == DataType::kInt16
                                 ? trained_.data<int16_t>(bias.mantissa)[channel]
                                 : trained_.data<int32_t>(bias.mantissa)[channel];
    return ldexp(Real(mantissa), exponent);
  }

  void clear_channel(int tensor, int64_t channel, int64_t channels) {
    const int64_t size = frozen_.state.layout().tensors[tensor].shape.count() / channels;
    std::fill_n(frozen_.state.data<int8_t>(tensor) + channel * size, size, int8_t{0});
  }

  void store_exponents() {
    const StateLayout &old = trained_.layout(), &own = frozen_.state.layout();
    for (int v = 0; v < std::ssize(frozen_.graph.values); ++v) {
      const int slot = own.slots.of_value[v];
      if (slot < 0) continue;
      const int value = values_.at(frozen_.graph.values[v].name);
      frozen_.state.data<int16_t>(own.exponents)[slot] = exponents_.value(value);
      frozen_.state.data<uint8_t>(own.guards)[slot] =
          trained_.data<uint8_t>(old.guards)[old.slots.of_value[value]];
      const int tensor = own.channel_exponents[v];
      if (tensor < 0) continue;
      const auto& channels = exponents_.channels(value);
      std::copy(channels.begin(), channels.end(), frozen_.state.data<int8_t>(tensor));
    }
  }

  const Graph& graph_;
  const State& trained_;
  const Program& calibration_;
  const Executor& executor_;
  const Exponents& exponents_;
  FrozenNetwork& frozen_;
  std::map<std::string, const Node*> nodes_;  // of the frozen network
  std::map<std::string, int> values_;         // of the trained one
};

// In the arena, after the program's own memory.
int64_t histograms_at(const Program& calibration) {
  return round_up<int64_t>(calibration.arena_bytes, 64);
}

}  // namespace

int64_t freeze_bytes(const Program& calibration) {
  const std::vector<int64_t>& channels = calibration.guarded_channels;
  const int64_t most = channels.empty() ? 0 : *std::max_element(channels.begin(), channels.end());
  const int64_t histograms = std::ssize(channels) + most;
  return histograms_at(calibration) + histograms * kHistogramBins * int64_t{sizeof(int64_t)};
}

Status freeze(const Graph& graph, State& state, const Program& calibration, const Machine& machine,
              OrderedBatches& batches, FrozenNetwork& frozen) {
  Programs programs(graph, state, machine);
  Executor& executor = programs.add(calibration);
  const Format& format = frozen.description.format;
  if (format.is_float()) {
    fill_frozen_fp32(graph, state, calibration, executor, frozen);
    return {};
  }
  const int64_t at = histograms_at(calibration);
  auto* histograms = reinterpret_cast<int64_t*>(machine.arena.data() + at);
  const auto room = static_cast<size_t>(std::max<int64_t>(0, std::ssize(machine.arena) - at) /
                                        int64_t{sizeof(int64_t)});
  Exponents exponents(graph, state, executor);
  // Rows with their own exponents need no calibration.
  if (!format.has_row_exponents()) {
    MANTISSA_RETURN_IF_ERROR(
        choose_all(calibration, {histograms, room}, batches, programs, executor, exponents));
  }
  const bool is_tie_free = frozen.description.form == FrozenForm::kTieFree;
  int of_result = 0;
  if (is_tie_free) {
    MANTISSA_ASSIGN(of_result,
                    result_exponent(batches, calibration.options.micro_batch_size, programs));
  }
  for (int value = 0; value < static_cast<int>(graph.values.size()); ++value) {
    executor.set_exponents(value, exponents.value(value), exponents.channels(value));
  }
  if (!is_tie_free) {
    Filling(graph, state, calibration, executor, exponents, frozen).run();
    return {};
  }
  Graph rescaled_graph = freeze_graph(graph, FrozenForm::kRescaled);
  MANTISSA_ASSIGN(State rescaled_state, State::create(frozen_layout(rescaled_graph, format)));
  FrozenNetwork rescaled{frozen.description, std::move(rescaled_graph), std::move(rescaled_state)};
  rescaled.description.form = FrozenForm::kRescaled;
  Filling(graph, state, calibration, executor, exponents, rescaled).run();
  return fill_tie_free(rescaled, of_result, frozen);
}

std::vector<uint32_t> calibration_examples(int64_t all, uint64_t seed, int64_t count) {
  const std::vector<uint32_t> order = epoch_order(seed, UINT32_MAX, all);
  return {order.begin(), order.begin() + count};
}

}  // namespace mantissa
