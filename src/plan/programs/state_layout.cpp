#include "plan/programs/state_layout.h"

#include "base/checked.h"
#include "graph/op.h"
#include "plan/programs/grids.h"

namespace mantissa {
namespace {

DataType element_type(Storage storage, const Grid& grid) {
  if (storage == Storage::kReal) return DataType::kDouble;
  if (grid.scaling == Scaling::kReal) return DataType::kFloat;
  if (storage == Storage::kFloat) return DataType::kFloat;
  if (storage == Storage::kInt32 || storage == Storage::kSum) return DataType::kInt32;
  return storage == Storage::kInt64 ? DataType::kInt64 : grid.storage();
}

// Equal parts of a parameter with an exponent each.
int64_t exponent_blocks(const Parameter& parameter, const Grid& grid) {
  return grid.blocks == Blocks::kChannel ? parameter.shape[0] : 1;
}

class LayoutBuilder {
 public:
  explicit LayoutBuilder(StateLayout& layout) : layout_(layout) {}

  // The numbers of a parameter that is not trained: blocks as their bytes.
  int add_fixed(const Parameter& parameter, const Grid& grid, StateGroup group) {
    if (parameter.storage == Storage::kBlocks) {
      Shape blocks;
      for (const int64_t dim :
           block_dims(parameter.blocks, parameter.shape[0], parameter.shape[1])) {
        blocks.dims[static_cast<size_t>(blocks.rank++)] = dim;
      }
      return add(parameter.name, DataType::kUint8, blocks, group);
    }
    return add(parameter.name, element_type(parameter.storage, grid), parameter.shape, group);
  }
  int add(std::string name, DataType type, const Shape& shape, StateGroup group) {
    StateTensor tensor{std::move(name), type, shape, group, layout_.bytes};
    layout_.bytes = round_up<int64_t>(layout_.bytes + tensor.bytes(), 64);
    layout_.tensors.push_back(std::move(tensor));
    return static_cast<int>(layout_.tensors.size()) - 1;
  }
  void set_bits(int tensor, int bits) { layout_.tensors[tensor].bits = bits; }

 private:
  StateLayout& layout_;
};

}  // namespace

int64_t StateLayout::weight_state_bytes() const {
  int64_t total = 0;
  for (const StateTensor& tensor : tensors) {
    if (tensor.group == StateGroup::kParameter || tensor.group == StateGroup::kOptimizer) {
      total += tensor.bytes();
    }
  }
  return total;
}

ExponentSlots exponent_slots(const Graph& graph) {
  ExponentSlots slots;
  for (const Value& value : graph.values) {
    const bool has_exponent = value.element == Element::kMantissa;
    slots.of_value.push_back(has_exponent ? static_cast<int>(slots.values++) : -1);
  }
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    slots.of_node.push_back(static_cast<int>(slots.gradients));
    for (const int input : graph.nodes[n].inputs) {
      slots.gradients += graph.values[input].element == Element::kMantissa ? 2 : 0;
    }
  }
  // The last node is the first of the backward pass: no sum ends with its gradient.
  if (!graph.losses.empty() && graph.losses.back() + 1 == static_cast<int>(graph.nodes.size())) {
    --slots.gradients;
  }
  return slots;
}

int64_t gradient_slots(const Graph& graph) { return exponent_slots(graph).gradients; }

int ExponentSlots::gradient(int node, int input) const { return of_node[node] + 2 * input; }

int64_t predictor_slots(const Graph& graph, const Format& format) {
  const ExponentSlots slots = exponent_slots(graph);
  if (format.is_dynamic())
    return slots.velocity_predictor(static_cast<int>(graph.parameters.size()));
  return format.headroom ? slots.gradients : 0;
}

int64_t ExponentSlots::value_predictor(int value) const { return gradients + of_value[value]; }

int64_t ExponentSlots::velocity_predictor(int parameter) const {
  return gradients + values + parameter;
}

bool is_guardable(const Graph& graph, const std::vector<std::vector<int>>& readers_of_values,
                  int value) {
  const int producer = graph.values[value].producer;
  if (producer < 0 || !may_leave_wide(*graph.nodes[producer].op)) return false;
  const std::vector<int>& readers = readers_of_values[value];
  return readers.size() == 1 &&
         graph.nodes[readers[0]].op->traits.takes == TakenExponents::kOfChannels;
}

namespace {

// Mantissas, accumulators, moments and exponents of a parameter; in fp32 values and moments.
ParameterState add_trained(const Parameter& parameter, const Grid& grid, int update_bits,
                           const Optimizer& row, LayoutBuilder& builder) {
  const bool integer = grid.scaling == Scaling::kExponent;
  const auto add = [&](const std::string& suffix, DataType type, StateGroup group) {
    return builder.add(parameter.name + suffix, type, parameter.shape, group);
  };
  const auto add_exponent = [&](const std::string& suffix, StateGroup group, int64_t blocks = 1) {
    return integer ? builder.add(parameter.name + suffix, DataType::kInt16, Shape{blocks}, group)
                   : -1;
  };
  ParameterState state;
  state.mantissa = add("", element_type(parameter.storage, grid), StateGroup::kParameter);
  if (integer) builder.set_bits(state.mantissa, grid.bits);
  state.exponent =
      add_exponent(".exponent", StateGroup::kParameter, exponent_blocks(parameter, grid));
  if (integer) state.accumulator = add(".accumulator", DataType::kInt16, StateGroup::kParameter);
  const int moment_bits = row.has_velocity ? update_bits : 16;
  const DataType moment_type = !integer            ? DataType::kFloat
                               : moment_bits <= 16 ? DataType::kInt16
                                                   : DataType::kInt32;
  for (size_t i = 0; i < row.moments.size() && row.moments[i] != nullptr; ++i) {
    const std::string suffix = std::string(".") + row.moments[i];
    state.moments[i].mantissa = add(suffix, moment_type, StateGroup::kOptimizer);
    state.moments[i].first_exponent = row.moment_exponent - (moment_bits - 16);
    state.moments[i].exponent = add_exponent(suffix + ".exponent", StateGroup::kOptimizer);
  }
  state.gradient_exponent = add_exponent(".gradient.exponent", StateGroup::kPredictor);
  return state;
}

// Mantissas and their exponent; or statistics.
ParameterState add_untrained(const Parameter& parameter, const Grid& grid, LayoutBuilder& builder) {
  ParameterState state;
  const bool is_statistic = parameter.storage == Storage::kReal;
  state.mantissa = builder.add_fixed(
      parameter, grid, is_statistic ? StateGroup::kStatistics : StateGroup::kParameter);
  if (is_statistic || grid.scaling == Scaling::kReal) return state;
  if (parameter.storage != Storage::kBlocks) builder.set_bits(state.mantissa, grid.bits);
  state.exponent = builder.add(parameter.name + ".exponent", DataType::kInt16,
                               Shape{exponent_blocks(parameter, grid)}, StateGroup::kParameter);
  return state;
}

void keep_grid(const Parameter& parameter, ParameterState& state) {
  state.grid_exponent = parameter.grid_exponent;
  state.grid = parameter.grid;
}

}  // namespace

StateLayout training_layout(const Graph& graph, const Format& format, OptimizerKind kind) {
  StateLayout layout;
  layout.lazy_shift = format.lazy_shift();
  LayoutBuilder builder(layout);
  const Grids all = grids(graph, format);
  for (size_t i = 0; i < graph.parameters.size(); ++i) {
    const Parameter& parameter = graph.parameters[i];
    layout.parameters.push_back(parameter.trained
                                    ? add_trained(parameter, all.parameters[i], format.update_bits,
                                                  optimizer(kind), builder)
                                    : add_untrained(parameter, all.parameters[i], builder));
    if (all.parameters[i].weights.bits > 0) keep_grid(parameter, layout.parameters.back());
  }
  if (all.gradient.scaling == Scaling::kReal) return layout;
  layout.slots = exponent_slots(graph);
  const int64_t values = layout.slots.values;
  const int64_t predictors = predictor_slots(graph, format);
  if (predictors > 0) {
    layout.predictors =
        builder.add("predictors", DataType::kInt16, Shape{predictors}, StateGroup::kPredictor);
  }
  if (format.is_dynamic()) {
    layout.bits = builder.add("bits", DataType::kInt64, Shape{predictors, kBitStatisticsWords},
                              StateGroup::kPredictor);
  }
  layout.guards = builder.add("guards", DataType::kUint8, Shape{values}, StateGroup::kPredictor);
  return layout;
}

StateLayout frozen_layout(const Graph& graph, const Format& format) {
  StateLayout layout;
  LayoutBuilder builder(layout);
  const Grids all = grids(graph, format);
  for (size_t i = 0; i < graph.parameters.size(); ++i) {
    const Parameter& parameter = graph.parameters[i];
    const Grid& grid = all.parameters[i];
    const bool is_integer = grid.scaling == Scaling::kExponent;
    ParameterState state;
    state.mantissa = builder.add_fixed(parameter, grid, StateGroup::kParameter);
    const bool is_mantissa = parameter.storage <= Storage::kMantissa16;
    const bool has_exponent = is_mantissa || parameter.storage == Storage::kInt32 ||
                              parameter.storage == Storage::kBlocks;
    if (is_mantissa && is_integer) {
      builder.set_bits(state.mantissa, grid.bits);
    }
    if (has_exponent && is_integer) {
      state.exponent = builder.add(parameter.name + ".exponent", DataType::kInt16,
                                   Shape{exponent_blocks(parameter, grid)}, StateGroup::kParameter);
    }
    if (grid.weights.bits > 0) keep_grid(parameter, state);
    layout.parameters.push_back(state);
  }
  if (all.gradient.scaling == Scaling::kReal) return layout;
  layout.slots = exponent_slots(graph);
  const int64_t values = layout.slots.values;
  layout.exponents =
      builder.add("exponents", DataType::kInt16, Shape{values}, StateGroup::kParameter);
  layout.guards = builder.add("guards", DataType::kUint8, Shape{values}, StateGroup::kParameter);
  const auto readers = readers_of(graph);
  for (int value = 0; value < static_cast<int>(graph.values.size()); ++value) {
    int tensor = -1;
    if (is_guardable(graph, readers, value)) {
      tensor = builder.add(graph.values[value].name + ".channel_exponents", DataType::kInt8,
                           Shape{graph.values[value].shape.last()}, StateGroup::kParameter);
    }
    layout.channel_exponents.push_back(tensor);
  }
  return layout;
}

}  // namespace mantissa
