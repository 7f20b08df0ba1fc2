#include "plan/state_layout.h"

#include "base/checked.h"
#include "graph/op.h"

namespace mantissa {
namespace {

DataType element_type(ParameterRole role, const Format& format) {
  switch (role) {
    case ParameterRole::kRunningMean:
    case ParameterRole::kRunningVariance:
      return DataType::kDouble;
    default:
      if (format.is_float()) return DataType::kFloat;
  }
  switch (role) {
    case ParameterRole::kMultiplier:
      return DataType::kInt32;
    case ParameterRole::kWideOffset:
      return DataType::kInt64;
    default:
      return mantissa_bits(role, format) <= 8 ? DataType::kInt8 : DataType::kInt16;
  }
}

class LayoutBuilder {
 public:
  explicit LayoutBuilder(StateLayout& layout) : layout_(layout) {}

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

int mantissa_bits(ParameterRole role, const Format& format) {
  if (role == ParameterRole::kWeights) return format.weight_bits;
  return role == ParameterRole::kBias ? format.bias_bits : 16;
}

int64_t exponent_blocks(const Parameter& parameter, const Format& format) {
  const bool by_channel = parameter.role == ParameterRole::kWeights && !format.tensor_blocks;
  return by_channel ? parameter.shape[0] : 1;
}

int64_t StateLayout::weight_state_bytes() const {
  int64_t total = 0;
  for (const StateTensor& tensor : tensors) {
    if (tensor.group == StateGroup::kParameter || tensor.group == StateGroup::kOptimizer) {
      total += tensor.bytes();
    }
  }
  return total;
}

int64_t gradient_slots(const Graph& graph) {
  return gradient_slot(graph, static_cast<int>(graph.nodes.size()), 0) + 1;
}

int64_t predictor_slots(const Graph& graph, const Format& format) {
  return format.is_dynamic()
             ? velocity_predictor_slot(graph, static_cast<int>(graph.parameters.size()))
         : format.headroom ? gradient_slots(graph)
                           : 0;
}

int64_t value_predictor_slot(const Graph& graph, int value) {
  return gradient_slots(graph) + value;
}

int64_t velocity_predictor_slot(const Graph& graph, int parameter) {
  return value_predictor_slot(graph, static_cast<int>(graph.values.size())) + parameter;
}

int gradient_slot(const Graph& graph, int node, int input) {
  int slot = 0;
  for (int before = 0; before < node; ++before) {
    slot += 2 * static_cast<int>(graph.nodes[before].inputs.size());
  }
  return slot + 2 * input;
}

bool is_guardable(const Graph& graph, int value) {
  const int producer = graph.values[value].producer;
  if (producer < 0 || !graph.nodes[producer].op->traits.may_leave_wide) return false;
  const std::vector<int> readers = graph.readers(value);
  return readers.size() == 1 && graph.nodes[readers[0]].op->traits.guards_input;
}

namespace {

// Mantissas, accumulators, moments and exponents of a parameter; in fp32 values and moments.
ParameterState add_trained(const Parameter& parameter, const Format& format, const Optimizer& row,
                           LayoutBuilder& builder) {
  const bool integer = !format.is_float();
  const auto add = [&](const std::string& suffix, DataType type, StateGroup group) {
    return builder.add(parameter.name + suffix, type, parameter.shape, group);
  };
  const auto add_exponent = [&](const std::string& suffix, StateGroup group, int64_t blocks = 1) {
    return integer ? builder.add(parameter.name + suffix, DataType::kInt16, Shape{blocks}, group)
                   : -1;
  };
  ParameterState state;
  state.mantissa = add("", element_type(parameter.role, format), StateGroup::kParameter);
  if (integer) builder.set_bits(state.mantissa, mantissa_bits(parameter.role, format));
  state.exponent =
      add_exponent(".exponent", StateGroup::kParameter, exponent_blocks(parameter, format));
  if (integer) state.accumulator = add(".accumulator", DataType::kInt16, StateGroup::kParameter);
  const int moment_bits = row.has_velocity ? format.update_bits : 16;
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

}  // namespace

StateLayout training_layout(const Graph& graph, const Format& format, OptimizerKind kind) {
  StateLayout layout;
  layout.lazy_shift = format.lazy_shift();
  LayoutBuilder builder(layout);
  for (const Parameter& parameter : graph.parameters) {
    if (is_trained(parameter.role)) {
      layout.parameters.push_back(add_trained(parameter, format, optimizer(kind), builder));
      continue;
    }
    ParameterState state;
    state.mantissa = builder.add(parameter.name, element_type(parameter.role, format),
                                 parameter.shape, StateGroup::kStatistics);
    layout.parameters.push_back(state);
  }
  if (format.is_float()) return layout;
  const auto values = static_cast<int64_t>(graph.values.size());
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
  for (const Parameter& parameter : graph.parameters) {
    ParameterState state;
    state.mantissa = builder.add(parameter.name, element_type(parameter.role, format),
                                 parameter.shape, StateGroup::kParameter);
    if (is_trained(parameter.role) && !format.is_float()) {
      builder.set_bits(state.mantissa, mantissa_bits(parameter.role, format));
    }
    if (parameter.role != ParameterRole::kWideOffset && !format.is_float()) {
      state.exponent =
          builder.add(parameter.name + ".exponent", DataType::kInt16,
                      Shape{exponent_blocks(parameter, format)}, StateGroup::kParameter);
    }
    layout.parameters.push_back(state);
  }
  if (format.is_float()) return layout;
  const auto values = static_cast<int64_t>(graph.values.size());
  layout.exponents =
      builder.add("exponents", DataType::kInt16, Shape{values}, StateGroup::kParameter);
  layout.guards = builder.add("guards", DataType::kUint8, Shape{values}, StateGroup::kParameter);
  for (int value = 0; value < values; ++value) {
    int tensor = -1;
    if (is_guardable(graph, value)) {
      tensor = builder.add(graph.values[value].name + ".channel_exponents", DataType::kInt8,
                           Shape{graph.values[value].shape.last()}, StateGroup::kParameter);
    }
    layout.channel_exponents.push_back(tensor);
  }
  return layout;
}

}  // namespace mantissa
