#include "train/freeze.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/checked.h"
#include "data/epoch_order.h"
#include "numerics/exponent.h"
#include "ops/batch_norm.h"
#include "ops/fp32/fp32.h"
#include "ops/ops.h"

namespace mantissa {
namespace {

// Smallest exponent with at most kClippedPart of the counted values above it.
int chosen_exponent(std::span<const int64_t> counts) {
  int64_t total = 0;
  for (const int64_t count : counts) total += count;
  const auto allowed = static_cast<int64_t>(std::floor(static_cast<double>(total) * kClippedPart));
  int64_t above = 0;
  int bin = kHistogramBins - 1;
  while (bin > 0 && above + counts[bin] <= allowed) above += counts[bin--];
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
    if (instruction.op->traits.has_own_grid) {
      values_[value] = *output.exponent;
      return;
    }
    if (!counted(histogram)) {  // passes its input's exponent on, the largest of several
      for (const Operand& each : instruction.outputs) {
        values_[each.exponent] = largest_exponent(instruction.inputs);
      }
      return;
    }
    const std::vector<int> sums = sum_exponents(instruction);
    if (!output.is_guarded()) {
      int chosen = chosen_exponent(histogram);
      if (sums.size() > 1) chosen = std::max(chosen, *std::max_element(sums.begin(), sums.end()));
      values_[value] = static_cast<int16_t>(chosen);
      return;
    }
    std::vector<int> exponents;
    for (size_t c = 0; c < channels; ++c) {
      const int chosen = chosen_exponent(histogram.subspan(c * kHistogramBins, kHistogramBins));
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
  // below it, since there is nothing finer. Empty for instructions without weights.
  std::vector<int> sum_exponents(const Instruction& instruction) const {
    if (instruction.parameters.empty()) return {};
    const int tensor = state_.layout().parameters[instruction.parameters[0].parameter].exponent;
    const auto* weights = state_.data<int16_t>(tensor);
    std::vector<int> sums;
    for (int64_t c = 0; c < state_.layout().tensors[tensor].shape.count(); ++c) {
      sums.push_back(values_[instruction.inputs[0].exponent] + weights[c]);
    }
    return sums;
  }

  int16_t largest_exponent(std::span<const Operand> inputs) const {
    int16_t largest = kExponentMin;
    for (const Operand& input : inputs) largest = std::max(largest, values_[input.exponent]);
    return largest;
  }

  const State& state_;
  const Executor& executor_;
  std::vector<int16_t> values_;
  std::vector<std::vector<int8_t>> channels_;
};

// Runs the calibration program on all batches but a smaller one at the end.
Status run_on(OrderedBatches& batches, int64_t batch_size, Programs& programs) {
  batches.go_to(0);
  for (Batch batch = batches.next(); batch.count == batch_size; batch = batches.next()) {
    MANTISSA_RETURN_IF_ERROR(programs.infer(batch));
  }
  return {};
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
      const size_t wanted = histogram_count(executor.context(end).output);
      if (used + wanted > room.size()) break;
      histograms.push_back(room.subspan(used, wanted));
      std::fill_n(histograms.back().data(), wanted, 0);
      executor.set_histogram(end, wanted > 0 ? histograms.back().data() : nullptr);
      used += wanted;
    }
    if (end == first) {
      return make_error(ErrorCode::kOverBudget, "calibration has no room for its counts");
    }
    MANTISSA_RETURN_IF_ERROR(run_on(batches, calibration.options.micro_batch_size, programs));
    for (int i = first; i < end; ++i) {
      executor.set_histogram(i, nullptr);
      const std::span<int64_t> histogram = histograms[i - first];
      if (histogram.empty()) continue;
      exponents.choose(calibration.instructions[i], executor.context(i).output, histogram);
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
      ops::fp32::freeze_batch_norm(executor.context(i),
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

// Copies weights and biases, computes multipliers and offsets, stores exponents and guards.
void fill_frozen(const Graph& graph, const State& trained, const Program& calibration,
                 const Executor& executor, const Exponents& exponents, FrozenNetwork& frozen) {
  const StateLayout &from = trained.layout(), &to = frozen.state.layout();
  for (int i = 0; i < static_cast<int>(calibration.instructions.size()); ++i) {
    const Instruction& instruction = calibration.instructions[i];
    if (instruction.node < 0) continue;
    const auto& old_parameters = graph.nodes[instruction.node].parameters;
    const auto& new_parameters = frozen.graph.nodes[instruction.node].parameters;
    if (instruction.op->frozen == &ops::kScaleOffset) {
      const int multiplier = new_parameters[0], offset = new_parameters[1];
      *frozen.state.data<int16_t>(to.parameters[multiplier].exponent) =
          static_cast<int16_t>(ops::freeze_batch_norm(
              executor.context(i), frozen.state.data<int32_t>(to.parameters[multiplier].mantissa),
              frozen.state.data<int64_t>(to.parameters[offset].mantissa)));
      continue;
    }
    for (size_t k = 0; k < old_parameters.size(); ++k) {
      const ParameterState &a = from.parameters[old_parameters[k]],
                           &b = to.parameters[new_parameters[k]];
      copy_tensor(trained, a.mantissa, frozen.state, b.mantissa);
      copy_tensor(trained, a.exponent, frozen.state, b.exponent);
    }
  }
  copy_tensor(trained, from.guards, frozen.state, to.guards);
  for (int value = 0; value < static_cast<int>(graph.values.size()); ++value) {
    const int slot = to.slots.of_value[value];
    if (slot < 0) continue;
    frozen.state.data<int16_t>(to.exponents)[slot] = exponents.value(value);
    const int tensor = to.channel_exponents[value];
    if (tensor < 0) continue;
    const auto& channels = exponents.channels(value);
    std::copy(channels.begin(), channels.end(), frozen.state.data<int8_t>(tensor));
  }
}

// In the arena: behind what the program needs.
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

Graph freeze_graph(const Graph& graph) {
  Graph frozen = graph;
  frozen.parameters.clear();
  std::map<int, int> moved;  // parameters of the graph to those of the frozen one
  const auto add = [&](Node& node, Parameter parameter) {
    node.parameters.push_back(static_cast<int>(frozen.parameters.size()));
    frozen.parameters.push_back(std::move(parameter));
  };
  for (Node& node : frozen.nodes) {
    const std::vector<int> old = std::exchange(node.parameters, {});
    if (node.op->frozen != nullptr) {
      replace_op(node, *node.op->frozen);
      if (node.op->parameters == nullptr) continue;
      for (Parameter& parameter : node.op->parameters(
               node.attributes, std::span(&graph.values[node.inputs[0]].shape, 1))) {
        parameter.name = node.name + "." + parameter.name;
        add(node, std::move(parameter));
      }
      continue;
    }
    for (const int parameter : old) {
      const auto known = moved.find(parameter);
      if (known != moved.end()) {
        node.parameters.push_back(known->second);
        continue;
      }
      add(node, graph.parameters[parameter]);
      moved[parameter] = node.parameters.back();
    }
  }
  return frozen;
}

Status freeze(const Graph& graph, State& state, const Program& calibration, const Machine& machine,
              OrderedBatches& batches, FrozenNetwork& frozen) {
  Programs programs(graph, state, machine);
  Executor& executor = programs.add(calibration);
  if (frozen.description.format.is_float()) {
    fill_frozen_fp32(graph, state, calibration, executor, frozen);
    return {};
  }
  const int64_t at = histograms_at(calibration);
  auto* histograms = reinterpret_cast<int64_t*>(machine.arena.data() + at);
  const auto room = static_cast<size_t>(std::max<int64_t>(0, std::ssize(machine.arena) - at) /
                                        int64_t{sizeof(int64_t)});
  Exponents exponents(graph, state, executor);
  MANTISSA_RETURN_IF_ERROR(
      choose_all(calibration, {histograms, room}, batches, programs, executor, exponents));
  for (int value = 0; value < static_cast<int>(graph.values.size()); ++value) {
    executor.set_exponents(value, exponents.value(value), exponents.channels(value));
  }
  fill_frozen(graph, state, calibration, executor, exponents, frozen);
  return {};
}

std::vector<uint32_t> calibration_examples(int64_t all, uint64_t seed, int64_t count) {
  const std::vector<uint32_t> order = epoch_order(seed, UINT32_MAX, all);
  return {order.begin(), order.begin() + count};
}

}  // namespace mantissa
