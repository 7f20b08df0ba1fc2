#include "runtime/slots.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <set>

#include "numerics/exponent.h"
#include "ops/losses/loss_weight.h"
#include "ops/losses/slices/sliced_loss.h"
#include "plan/passes/resolved_values.h"

namespace mantissa {
namespace {

// Decisions of the op that a step need not repeat. For an update that computes rows of a gradient,
// the op of that gradient decides.
Prepared prepare(const Instruction& instruction, const OpContext& context) {
  if (instruction.gradient_rows != nullptr && instruction.gradient_rows->prepare != nullptr) {
    return instruction.gradient_rows->prepare(context);
  }
  const auto prepare = instruction.row->prepare;
  return prepare == nullptr ? nullptr : prepare(context);
}

class Resolver {
 public:
  Resolver(const Graph& graph, const Program& program, State& state, const ArenaPlaces& arena,
           ThreadPool& pool, const kernels::KernelTable& kernels, Slots& slots)
      : graph_(graph),
        program_(program),
        state_(state),
        arena_(arena),
        pool_(pool),
        kernels_(kernels),
        slots_(slots) {}

  std::byte* buffer(int index) const {
    return index < 0 ? nullptr : arena_.memory.data() + arena_.offsets[index];
  }

  Tensor operand(const Operand& operand, int instruction) const {
    Tensor tensor;
    tensor.type = operand.type;
    tensor.shape = operand.shape;
    tensor.saturated = &slots_.saturated[instruction];
    if (operand.in_arena()) tensor.data = buffer(operand.index);
    if (operand.row_exponents >= 0) {
      tensor.row_exponents =
          reinterpret_cast<int16_t*>(buffer(operand.index) + operand.row_exponents);
    }
    if (operand.exponent < 0) return tensor;
    set_exponent(operand.exponent, tensor);
    const bool is_value = program_.exponents[operand.exponent].owner == ExponentOwner::kValue;
    const int value = operand.exponent;
    if (is_value && program_.guarded_channels[value] > 0) {
      const StateLayout& layout = state_.layout();
      tensor.channel_exponent = slots_.channel_exponents[value].data();
      tensor.guarded = state_.data<uint8_t>(layout.guards) + layout.slots.of_value[value];
      tensor.guard_violated = &slots_.violated[value];
    }
    return tensor;
  }

  ParameterView parameter(const Operand& operand, int instruction) const {
    const StateLayout& layout = state_.layout();
    const Parameter& parameter = graph_.parameters[operand.index];
    const ParameterState& tensors = layout.parameters[operand.index];
    ParameterView view;
    view.mantissa = state_tensor(tensors.mantissa, tensors.exponent, instruction);
    view.mantissa.shape = parameter.shape;  // the state has blocks as bytes
    view.mantissa.bits = program_.parameter_grids[operand.index].bits;
    view.accumulator = state_tensor(tensors.accumulator, -1, instruction);
    for (size_t i = 0; i < view.moments.size(); ++i) {
      const MomentState& moment = tensors.moments[i];
      view.moments[i] = state_tensor(moment.mantissa, moment.exponent, instruction);
      view.moments[i].bits = static_cast<int>(8 * element_bytes(view.moments[i].type));
    }
    view.lazy_shift = layout.lazy_shift;
    view.grid = program_.parameter_grids[operand.index].weights;
    view.decays = parameter.decays;
    view.rate_factor = parameter.rate_factor;
    view.rounds_stochastically = !program_.options.format.nearest_updates;
    view.index = operand.index;
    return view;
  }

  void add_sums(const Operand& operand, ParameterView& view) const {
    view.gradient.data = buffer(operand.index);
    view.gradient.type = operand.type;
    view.gradient.shape = operand.shape;
    const int tensor = state_.layout().parameters[view.index].gradient_exponent;
    if (tensor >= 0) view.fixed_exponent = state_.data<int16_t>(tensor);
    const bool is_fixed = program_.exponents[operand.exponent].rule == ExponentRule::kFixed;
    view.gradient.exponent = is_fixed ? view.fixed_exponent : &slots_.exponents[operand.exponent];
    if (operand.is_measured) view.narrow_sums = &slots_.narrow_sums[view.index];
  }

  // Tensors of a role, in the order of the operands.
  std::vector<Tensor> tensors(const Instruction& instruction, Role role, int index) const {
    std::vector<Tensor> all;
    for (const Operand& each : instruction.of(role)) all.push_back(operand(each, index));
    return all;
  }

  // Parameters, each with its sums and its velocity's predictor if they are operands, too.
  std::vector<ParameterView> parameters(const Instruction& instruction, int index) const {
    std::vector<ParameterView> views;
    for (const Operand& each : instruction.parameters()) views.push_back(parameter(each, index));
    const auto view_of = [&](int parameter) -> ParameterView& {
      return *std::ranges::find(views, parameter, &ParameterView::index);
    };
    for (const Operand& sums : instruction.sums()) {
      add_sums(sums, view_of(program_.exponents[sums.exponent].of));
    }
    for (const Operand& velocity : instruction.of(Role::kVelocity)) {
      const Exponent& exponent = program_.exponents[velocity.exponent];
      view_of(velocity.index).moments[0].predictor = predictor_of(exponent);
    }
    if (instruction.rows_at_once > 0) {
      views[0].gradient_rows = instruction.gradient_rows;
      views[0].rows_at_once = instruction.rows_at_once;
    }
    return views;
  }

  // The memory of a role of which there is one at most.
  std::span<std::byte> memory(const Instruction& instruction, Role role) const {
    const Operand& operand = instruction.first(role);
    if (!operand.exists()) return {};
    return {buffer(operand.index), static_cast<size_t>(operand.bytes())};
  }

  OpBuffers memory_of(const Instruction& instruction) const {
    return {.saved = memory(instruction, Role::kSaved).data(),
            .statistics = memory(instruction, Role::kStatistics).data(),
            .workspace = memory(instruction, Role::kWorkspace).data(),
            .workspace_is_left = instruction.first(Role::kWorkspace).access == Access::kReads};
  }

  OpMode mode_of(const Instruction& instruction) const {
    return {.relu = instruction.relu,
            .exponents = program_.options.exponents,
            .half_up = !program_.options.format.even_ties,
            .recomputes = instruction.again,
            .follows_other_uses = instruction.first(Role::kSum).access == Access::kAdds};
  }

  OpStep step_of(const Instruction& instruction) const {
    OpStep step{.micro_batches = program_.options.micro_batches,
                .scalars = &slots_.scalars,
                .totals = &slots_.totals};
    const auto loss = std::find(graph_.losses.begin(), graph_.losses.end(), instruction.node);
    if (loss != graph_.losses.end()) step.loss = &slots_.losses[loss - graph_.losses.begin()];
    return step;
  }

  // At least one.
  std::vector<Attributes> attributes_of(const Instruction& instruction) const {
    if (instruction.node < 0) return {Attributes()};
    const Node& node = graph_.nodes[instruction.node];
    std::vector<Attributes> attributes = {node.attributes};
    if (instruction.op == &ops::kSlicedCrossEntropy) {
      const ResolvedValues values = resolve_values(graph_);
      const int layer = values.producer[values.canonical[node.inputs[0]]];
      attributes.push_back(graph_.nodes[layer].attributes);
    }
    return attributes;
  }

  void resolve(int index, ResolvedInstruction& resolved) const {
    const Instruction& instruction = program_.instructions[index];
    resolved.inputs = tensors(instruction, Role::kInput, index);
    resolved.outputs = tensors(instruction, Role::kOutput, index);
    resolved.grad_outputs = tensors(instruction, Role::kGradOutput, index);
    resolved.grad_inputs = tensors(instruction, Role::kGradInput, index);
    resolved.parameters = parameters(instruction, index);
    resolved.attributes = attributes_of(instruction);
    resolved.context = {
        .inputs = resolved.inputs,
        .outputs = resolved.outputs,
        .grad_outputs = resolved.grad_outputs,
        .grad_inputs = resolved.grad_inputs,
        .parameters = resolved.parameters,
        .node = {instruction.op, instruction.node, resolved.attributes.data()},
        .mode = mode_of(instruction),
        .memory = memory_of(instruction),
        .kernel = {{.pool = &pool_, .scratch = memory(instruction, Role::kScratch)}, &kernels_},
        .step = step_of(instruction)};
    resolved.prepared = prepare(instruction, resolved.context);
    resolved.context.kernel.prepared = resolved.prepared.get();
    resolved.narrowed = narrowed(instruction, resolved);
  }

 private:
  void set_exponent(int row, Tensor& tensor) const {
    const Exponent& exponent = program_.exponents[row];
    tensor.bits = exponent.bits;
    tensor.exponent_limit = exponent.limit;
    tensor.key = exponent.key;
    tensor.exponent = &slots_.exponents[row];
    tensor.predictor = predictor_of(exponent);
  }

  // None if the rule uses none. But in dynamic fixed point all that have a place are decided.
  ExponentPredictor predictor_of(const Exponent& exponent) const {
    const bool decides = program_.options.exponents == ExponentMode::kDecided;
    if (exponent.predictor < 0) return {};
    const auto at = static_cast<size_t>(exponent.predictor);
    int16_t* const predicted = state_.data<int16_t>(state_.layout().predictors) + at;
    if (!decides) return {predicted, &slots_.measured[at]};
    DecidedExponents& decided = slots_.decided;
    Decision& decision = decided.decisions[at];
    decision.bits = exponent.bits;
    decision.exponent_limit = exponent.limit;
    decision.rule.clipped_ppm = clipped_ppm(exponent, graph_, program_.options.format);
    return {.predicted = predicted,
            .needed = decided.needed.empty() ? nullptr : &decided.needed[at],
            .bits = &decided.written[at],
            .rule = &decision.rule};
  }

  // Mantissas that the instruction rounds.
  int64_t narrowed(const Instruction& instruction, const ResolvedInstruction& resolved) const {
    if (instruction.again) return 0;
    const bool keeps = passes_mantissas(*instruction.op) || has_own_grid(*instruction.op);
    int64_t count = 0;
    for (const Operand& operand : instruction.operands) {
      if (!writes(operand.access) || operand.exponent < 0) continue;
      const ExponentRule rule = program_.exponents[operand.exponent].rule;
      const bool rounded_value = operand.role == Role::kOutput && !keeps &&
                                 rule != ExponentRule::kNone && operand.type != DataType::kInt32;
      const bool rounded_gradient = operand.role == Role::kGradInput && rounds(rule);
      if (rounded_value || rounded_gradient) count += operand.shape.count();
    }
    if (!updates_parameter(instruction)) return count;
    const Tensor& weights = resolved.parameters[0].mantissa;
    return weights.type == DataType::kFloat ? 0 : weights.count();
  }

  Tensor state_tensor(int tensor, int exponent, int instruction) const {
    Tensor view;
    if (tensor < 0) return view;
    view.data = state_.bytes(tensor).data();
    view.type = state_.layout().tensors[tensor].type;
    view.shape = state_.layout().tensors[tensor].shape;
    view.saturated = &slots_.saturated[instruction];
    if (exponent >= 0) {
      view.exponent = state_.data<int16_t>(exponent);
      view.blocks = state_.layout().tensors[exponent].shape.count();
    }
    return view;
  }

  const Graph& graph_;
  const Program& program_;
  State& state_;
  const ArenaPlaces& arena_;
  ThreadPool& pool_;
  const kernels::KernelTable& kernels_;
  Slots& slots_;
};

void find_decisions(const Program& program, std::span<const int> instructions, Slots& slots) {
  std::set<int> predictors, guarded_values;
  const auto note = [&](int row) {
    if (row < 0) return;
    const Exponent& exponent = program.exponents[row];
    if (exponent.predictor >= 0) predictors.insert(exponent.predictor);
    const bool is_value = exponent.owner == ExponentOwner::kValue;
    if (is_value && program.guarded_channels[row] > 0) guarded_values.insert(row);
  };
  for (const int i : instructions) {
    const Instruction& instruction = program.instructions[i];
    for (const Operand& operand : instruction.operands) {
      if (writes(operand.access) && !instruction.again) note(operand.exponent);
    }
  }
  slots.predictors.assign(predictors.begin(), predictors.end());
  slots.guarded_values.assign(guarded_values.begin(), guarded_values.end());
}

// Steps in several parts do not clip: none has a norm of all gradients.
void add(const StepTotals& other, StepTotals& totals) {
  totals.re_executions += other.re_executions;
  totals.mispredictions += other.mispredictions;
  totals.guard_violations += other.guard_violations;
  totals.norm_channels_left_out += other.norm_channels_left_out;
  totals.gradient_overflow |= other.gradient_overflow;
  totals.exponent_overflow |= other.exponent_overflow;
  totals.kernel_failed |= other.kernel_failed;
}

}  // namespace

void allocate_slots(const Graph& graph, const Program& program, const State& state, Slots& slots) {
  const size_t values = graph.values.size();
  slots.exponents.assign(program.exponents.size(), 0);
  std::fill_n(slots.exponents.begin(), values, static_cast<int16_t>(zero_exponent(8)));
  slots.narrow_sums.assign(graph.parameters.size(), 0);
  slots.measured.assign(static_cast<size_t>(gradient_slots(graph)), kUnmeasured);
  if (program.options.exponents == ExponentMode::kDecided) {
    const Format& format = program.options.format;
    slots.decided =
        DecidedExponents(predictor_slots(graph, format), format, program.options.micro_batches);
  }
  std::vector<int> inputs = graph.inputs;
  inputs.insert(inputs.end(), program.options.given.begin(), program.options.given.end());
  slots.batch.assign(inputs.size(), nullptr);
  slots.read_inputs.assign(inputs.size(), "");
  for (const Instruction& instruction : program.instructions) {
    for (const Operand& input : instruction.inputs()) {
      if (input.space != Operand::Space::kInput) continue;
      slots.read_inputs[input.index] = graph.values[inputs[input.index]].name;
    }
  }
  for (const int loss : graph.losses) {
    const Node& node = graph.nodes[loss];
    slots.loss_units.push_back(ops::counted_unit(node));
  }
  for (const int input : graph.inputs) {
    if (graph.values[input].element != Element::kNumber) continue;
    slots.exponents[input] = static_cast<int16_t>(graph.values[input].exponent);
  }
  slots.violated.assign(values, 0);
  slots.channel_exponents.resize(values);
  slots.saturated.assign(program.instructions.size(), 0);
  const StateLayout& layout = state.layout();
  for (size_t value = 0; value < values; ++value) {
    const auto channels = static_cast<size_t>(program.guarded_channels[value]);
    slots.channel_exponents[value].assign(channels, 0);
    if (layout.exponents < 0) continue;
    const int slot = layout.slots.of_value[value];
    if (slot >= 0) slots.exponents[value] = state.data<int16_t>(layout.exponents)[slot];
    const int tensor = layout.channel_exponents[value];
    if (tensor >= 0) {
      std::copy_n(state.data<int8_t>(tensor), channels, slots.channel_exponents[value].begin());
    }
  }
}

void resolve_operands(const Graph& graph, const Program& program, State& state,
                      const ArenaPlaces& arena, ThreadPool& pool,
                      const kernels::KernelTable& kernels, std::span<const int> instructions,
                      Slots& slots) {
  const Resolver resolver(graph, program, state, arena, pool, kernels, slots);
  find_decisions(program, instructions, slots);
  slots.instructions.resize(program.instructions.size());
  for (const int i : instructions) resolver.resolve(i, slots.instructions[i]);
}

void clear_counts(const Program& program, int64_t step, Slots& slots) {
  slots.totals = {};
  slots.losses = {};
  slots.requantised = 0;
  std::fill(slots.saturated.begin(), slots.saturated.end(), 0);
  std::fill(slots.measured.begin(), slots.measured.end(), kUnmeasured);
  slots.decided.start_step(program.options.format, step);
  std::fill(slots.violated.begin(), slots.violated.end(), uint8_t{0});
}

void add_counts(const Slots& other, Slots& slots) {
  add(other.totals, slots.totals);
  for (size_t i = 0; i < slots.losses.size(); ++i) {
    slots.losses[i] += other.losses[i];
  }
  slots.requantised += other.requantised;
  std::ranges::transform(slots.saturated, other.saturated, slots.saturated.begin(), std::plus());
  const auto larger = [](int16_t a, int16_t b) { return std::max(a, b); };
  std::ranges::transform(slots.measured, other.measured, slots.measured.begin(), larger);
  const auto either = [](uint8_t a, uint8_t b) { return static_cast<uint8_t>(a | b); };
  std::ranges::transform(slots.violated, other.violated, slots.violated.begin(), either);
  slots.decided += other.decided;
}

std::vector<StateRange> changed_state(const Program& program, const StateLayout& layout,
                                      std::span<const int> instructions) {
  std::set<int> tensors;
  for (const int i : instructions) {
    for (const Operand& operand : program.instructions[i].parameters()) {
      const ParameterState& of = layout.parameters[operand.index];
      tensors.insert({of.mantissa, of.exponent, of.accumulator, of.gradient_exponent});
      for (const MomentState& moment : of.moments) {
        tensors.insert({moment.mantissa, moment.exponent});
      }
    }
  }
  std::vector<StateRange> ranges;
  for (const int t : tensors) {
    if (t >= 0) ranges.push_back({layout.tensors[t].offset, layout.tensors[t].bytes()});
  }
  const auto add_element = [&](int tensor, int64_t index, int64_t bytes) {
    if (tensor >= 0) ranges.push_back({layout.tensors[tensor].offset + index * bytes, bytes});
  };
  Slots decisions;
  find_decisions(program, instructions, decisions);
  for (const int slot : decisions.predictors) {
    add_element(layout.predictors, slot, sizeof(int16_t));
    add_element(layout.bits, slot, sizeof(BitStatistics));
  }
  for (const int value : decisions.guarded_values) {
    const int slot = layout.slots.of_value[value];
    if (slot >= 0) add_element(layout.guards, slot, 1);
  }
  return ranges;
}

namespace {

// Calls visit(bytes) for everything that a step counts.
template <typename AnySlots, typename Visit>
void for_each_count(AnySlots& slots, const Visit& visit) {
  visit(std::as_writable_bytes(std::span(&slots.totals, 1)));
  visit(std::as_writable_bytes(std::span(slots.losses)));
  visit(std::as_writable_bytes(std::span(&slots.requantised, 1)));
  visit(std::as_writable_bytes(std::span(slots.saturated)));
  visit(std::as_writable_bytes(std::span(slots.measured)));
  visit(std::as_writable_bytes(std::span(slots.violated)));
  visit(std::as_writable_bytes(std::span(slots.decided.needed)));
  visit(std::as_writable_bytes(std::span(slots.decided.written)));
}

}  // namespace

std::vector<std::byte> write_counts(const Slots& slots) {
  std::vector<std::byte> bytes;
  // They are only read.
  for_each_count(const_cast<Slots&>(slots), [&](std::span<std::byte> counts) {
    const size_t begin = bytes.size();
    bytes.resize(begin + counts.size());
    if (!counts.empty()) std::memcpy(bytes.data() + begin, counts.data(), counts.size());
  });
  return bytes;
}

Status read_counts(std::span<const std::byte> counts, Slots& slots) {
  Slots other;
  other.saturated.resize(slots.saturated.size());
  other.measured.resize(slots.measured.size());
  other.violated.resize(slots.violated.size());
  other.decided.needed.resize(slots.decided.needed.size());
  other.decided.written.resize(slots.decided.written.size());
  size_t wanted = 0;
  for_each_count(other, [&](std::span<std::byte> to) { wanted += to.size(); });
  if (wanted != counts.size()) return failed("a process counts another program's step");
  for_each_count(other, [&](std::span<std::byte> to) {
    std::ranges::copy(counts.first(to.size()), to.begin());
    counts = counts.subspan(to.size());
  });
  add_counts(other, slots);
  return {};
}

}  // namespace mantissa
