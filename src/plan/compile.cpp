// The compiler: network -> program. Emits the instructions of the forward and the backward pass and
// of the end of a step, finds lifetimes, packs the arena.
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "ops/gradient_rows.h"
#include "ops/ops.h"
#include "plan/network_format.h"
#include "plan/node_operands.h"

namespace mantissa {
namespace {

Program empty_program(const ProgramOptions& options) {
  Program program;
  program.options = options;
  return program;
}

class Compiler {
 public:
  Compiler(const Graph& graph, const ProgramOptions& options, const PlanningContext& planning)
      : graph_(graph),
        program_(empty_program(options)),
        values_(resolve_values(graph)),
        slots_(exponent_slots(graph)),
        nodes_(graph, values_, program_.options, planning) {
    buffer_of_value_.assign(graph_.values.size(), -1);
    contributions_.resize(graph_.values.size());
  }

  Result<Program> compile() {
    MANTISSA_RETURN_IF_ERROR(check_linear_values(graph_, format()));
    if (training()) MANTISSA_RETURN_IF_ERROR(check_inversion(graph_, format()));
    MANTISSA_RETURN_IF_ERROR(check_rows());
    MANTISSA_RETURN_IF_ERROR(check_parameters());
    MANTISSA_RETURN_IF_ERROR(check_losses());
    for (int node = 0; node < static_cast<int>(graph_.nodes.size()); ++node) {
      if (!is_left_out(node)) MANTISSA_RETURN_IF_ERROR(emit_forward(node));
    }
    for (const int output : graph_.outputs) program_.outputs.push_back(operand(output));
    if (training()) {
      forget_values();
      for (int node = static_cast<int>(graph_.nodes.size()) - 1; node >= 0; --node) {
        if (is_left_out(node)) continue;
        emit_backward(node);
        forget_values(Retention::kRecomputedEachTime);
      }
      emit_end_of_step();
    } else {
      for (const Operand& output : program_.outputs) touch(output);
      program_.first_step_instruction = static_cast<int>(program_.instructions.size());
    }
    finish();
    MANTISSA_RETURN_IF_ERROR(check_functions());
    return std::move(program_);
  }

 private:
  // A reader's gradient of a value, and the slot of the sum up to it.
  struct Contribution {
    Operand gradient;
    int sum_slot = -1;
  };

  bool is_left_out(int node) const {
    return values_.skipped[node] || (!program_.options.with_loss && graph_.is_loss(node));
  }
  bool updates_at_once() const { return nodes_.updates_at_once(); }
  const Format& format() const { return program_.options.format; }
  bool training() const { return program_.options.kind == ProgramKind::kTraining; }
  int now() const { return static_cast<int>(program_.instructions.size()); }

  int add_buffer(std::string name, BufferKind kind, int64_t bytes) {
    program_.buffers.push_back({std::move(name), kind, bytes, now(), now(), -1});
    return static_cast<int>(program_.buffers.size()) - 1;
  }

  void touch(int buffer, int instruction) {
    Buffer& b = program_.buffers[buffer];
    b.first = std::min(b.first, instruction);
    b.last = std::max(b.last, instruction);
  }

  void touch(const Operand& operand) {
    if (operand.space == Operand::Space::kArena) touch(operand.index, now());
  }

  // The forward data of a value, in the shape of that value; none of a real number.
  Operand operand(int value) {
    const Shape shape = nodes_.shape_of(value);
    const int root = values_.canonical[value];
    const Value& source = graph_.values[root];
    if (source.element == Element::kReal) return {};
    const bool has_exponent = source.element == Element::kMantissa;
    if (source.producer < 0) {
      const auto place = std::find(graph_.inputs.begin(), graph_.inputs.end(), root);
      return {Operand::Space::kInput,
              static_cast<int>(place - graph_.inputs.begin()),
              source.type,
              shape,
              has_exponent ? value : -1,
              false};
    }
    int& buffer = buffer_of_value_[root];
    if (buffer < 0) {
      buffer = add_buffer(graph_.values[root].name, BufferKind::kActivation,
                          shape.count() * element_bytes(nodes_.type_of(value)));
    }
    Operand result{
        Operand::Space::kArena,   buffer, nodes_.type_of(value), shape,
        has_exponent ? root : -1, false,  nodes_.bits_of(value), nodes_.exponent_limit_of(value)};
    touch(result);
    return result;
  }

  Error in_node(const Node& node, const std::string& what) const {
    return invalid_input(graph_.name + ", node '" + node.name + "' (" + node.op->name +
                         "): " + what);
  }

  void emit(Instruction instruction) { program_.instructions.push_back(std::move(instruction)); }

  void add_phase_memory(Instruction& instruction, const PhaseMemory& memory) {
    if (memory.workspace_bytes > 0) {
      instruction.workspace =
          add_buffer(instruction.name, BufferKind::kWorkspace, memory.workspace_bytes);
    }
    if (memory.scratch_bytes > 0) {
      instruction.scratch =
          add_buffer(instruction.name, BufferKind::kScratch, memory.scratch_bytes);
    }
  }

  Instruction instruction_of(int n, Phase phase) {
    const Node& node = graph_.nodes[n];
    Instruction instruction;
    instruction.phase = phase;
    instruction.op = node.op;
    instruction.node = n;
    instruction.name = node.name;
    instruction.relu = values_.fused_relu[n];
    for (const int parameter : node.parameters) instruction.parameters.push_back({parameter, -1});
    if (node.op->multiply_adds != nullptr) {
      instruction.multiply_adds = nodes_.with_shapes(
          node, [&](const OpShapes& shapes) { return node.op->multiply_adds(shapes); });
    }
    return instruction;
  }

  Instruction forward_instruction(int n, Phase phase, const OpMemory& memory) {
    const Node& node = graph_.nodes[n];
    Instruction instruction = instruction_of(n, phase);
    for (const int input : node.inputs) instruction.inputs.push_back(operand(input));
    for (const int output : node.outputs) instruction.outputs.push_back(operand(output));
    add_phase_memory(instruction, memory.forward);
    return instruction;
  }

  Status emit_forward(int n) {
    const Node& node = graph_.nodes[n];
    const OpFunctions op = nodes_.functions(node);
    if (op.forward == nullptr) return in_node(node, "does not compute in " + to_string(format()));
    if (op.check != nullptr) {
      const Status status = nodes_.with_shapes(node, op.check);
      if (!status.ok()) return in_node(node, status.error().message);
    }
    const bool counts = program_.options.exponents == ExponentMode::kCalibrate;
    if (counts && node.outputs.size() > 1 && !node.op->traits.keeps_exponent) {
      return in_node(node, "narrows several outputs; only one can be calibrated");
    }
    const OpMemory memory = nodes_.memory_of(node);
    Instruction instruction = forward_instruction(n, Phase::kForward, memory);
    for (const int output : node.outputs) producer_[values_.canonical[output]] = n;
    if (training() && memory.saved_bytes > 0) {
      instruction.saved = add_buffer(node.name, BufferKind::kSaved, memory.saved_bytes);
    }
    if (training() && memory.statistics_bytes > 0) {
      instruction.statistics = add_buffer(node.name, BufferKind::kStatistics,
                                          memory.statistics_bytes * program_.options.micro_batches);
    }
    forward_of_node_[n] = {instruction.saved, instruction.statistics};
    emit(std::move(instruction));
    return {};
  }

  // Where the forward pass has ended, or a node's backward instructions have: values that are not
  // kept are not there any more.
  void forget_values(std::optional<Retention> retention = {}) {
    const std::vector<Retention>& all = program_.options.retention;
    for (size_t value = 0; value < all.size(); ++value) {
      if (retention ? all[value] == *retention : all[value] != Retention::kKept) {
        buffer_of_value_[value] = -1;
      }
    }
  }

  // Computes values again that are not there, and before them what they are computed from: in the
  // order of the forward pass.
  void restore(const std::vector<int>& values) {
    std::set<int> producers;
    for (const int value : values) find_missing(value, producers);
    for (const int n : producers) {
      Instruction again =
          forward_instruction(n, Phase::kRecompute, nodes_.memory_of(graph_.nodes[n]));
      again.saved = forward_of_node_[n].saved;
      again.statistics = forward_of_node_[n].statistics;
      if (again.saved >= 0) touch(again.saved, now());
      emit(std::move(again));
    }
  }

  void find_missing(int value, std::set<int>& producers) const {
    const int root = values_.canonical[value];
    if (graph_.values[root].producer < 0 || buffer_of_value_[root] >= 0) return;
    const int n = producer_.at(root);
    if (!producers.insert(n).second) return;
    for (const int input : graph_.nodes[n].inputs) find_missing(input, producers);
  }

  Status check_rows() const {
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      if (computes_rows(static_cast<int>(n)) && !nodes_.may_compute_rows(graph_.nodes[n])) {
        return in_node(graph_.nodes[n], "its update cannot compute the gradient by rows");
      }
    }
    return {};
  }

  // Ops that no node names, such as losses and updates, may lack an arithmetic as well.
  Status check_functions() const {
    for (const Instruction& instruction : program_.instructions) {
      if (runs(instruction.op->functions(format()), instruction.phase)) continue;
      return invalid_input(graph_.name + ": " + instruction.op->name + " does not compute in " +
                           to_string(format()));
    }
    return {};
  }

  static bool runs(const OpFunctions& op, Phase phase) {
    switch (phase) {
      case Phase::kForward:
      case Phase::kUpdate:
      case Phase::kRecompute:
        return op.forward != nullptr;
      case Phase::kBackwardWeights:
        return op.backward_weights != nullptr;
      case Phase::kBackwardInput:
        return op.backward_input != nullptr;
      case Phase::kUpdateStatistics:
        return op.update_statistics != nullptr;
    }
    return false;
  }

  // Training part of a node's parameters is possible where it does not matter which: the update of
  // the first may compute its gradient itself. Nodes that share a parameter share all of them.
  Status check_parameters() const {
    std::map<int, std::vector<int>> of_first;  // parameters of the node that uses one as its first
    for (const Node& node : graph_.nodes) {
      if (node.parameters.empty()) continue;
      const auto [known, is_new] = of_first.try_emplace(node.parameters[0], node.parameters);
      const bool is_shared_alike = is_new || known->second == node.parameters;
      if (!is_shared_alike) return in_node(node, "shares only some of another node's parameters");
      const bool trains = nodes_.trains(node);
      for (const int parameter : node.parameters) {
        const Parameter& p = graph_.parameters[parameter];
        if (p.storage == Storage::kReal || p.trained == trains || !training()) continue;
        return in_node(node, "trains only some of its parameters, not '" + p.name + "'");
      }
    }
    return {};
  }

  Status check_losses() const {
    if (training() && graph_.losses.empty()) {
      return invalid_input(graph_.name + ": there is no loss to train for");
    }
    for (const int loss : graph_.losses) {
      const int logits = graph_.nodes[loss].inputs[0];
      const int producer = graph_.values[logits].producer;
      if (producer < 0 || !graph_.nodes[producer].op->traits.may_leave_wide) {
        return invalid_input(graph_.name +
                             ": the logits must come from a linear or convolution node");
      }
      if (!values_.is_wide[values_.canonical[logits]]) {
        return invalid_input(graph_.name + ": the logits are read by another node");
      }
    }
    return {};
  }

  Operand gradient_operand(int value, int slot, int bits) {
    const Shape shape = nodes_.shape_of(value);
    const DataType type = nodes_.gradient_type(bits);
    const int buffer = add_buffer(graph_.values[values_.canonical[value]].name,
                                  BufferKind::kGradient, shape.count() * element_bytes(type));
    return {Operand::Space::kArena, buffer, type, shape, slot, true, bits};
  }

  // The gradient that an op, or a layer, hands on: rounded, if it was written for stochastic
  // rounding.
  Operand kept_gradient(int value, const Operand& written, bool is_layer) {
    return written.bits > nodes_.kept_bits(is_layer) ? rounded_gradient(value, written) : written;
  }

  // A gradient of a value in g bits, to which a further instruction rounds it where it has more.
  Operand rounded_gradient(int value, const Operand& gradient) {
    if (gradient.bits == format().gradient_bits || format().is_float()) return gradient;
    rounds_gradients_ = true;
    Instruction round;
    round.phase = Phase::kBackwardInput;
    round.op = format().nearest_gradients ? &ops::kRoundGradient : &ops::kRoundGradientStochastic;
    round.name = graph_.values[values_.canonical[value]].name;
    round.inputs = {gradient};
    touch(gradient);
    const int slot = gradient.slot + static_cast<int>(slots_.gradients);
    round.grad_inputs = {gradient_operand(value, slot, format().gradient_bits)};
    const Operand rounded = round.grad_inputs[0];
    emit(std::move(round));
    return rounded;
  }

  // The gradient of a value: its readers' contributions, summed where there are several.
  Operand gradient_of(int value, const std::string& name) {
    std::vector<Contribution>& parts = contributions_[values_.canonical[value]];
    if (parts.empty()) return {};
    Operand total = parts[0].gradient;
    for (size_t i = 1; i < parts.size(); ++i) {
      Instruction sum;
      sum.phase = Phase::kBackwardInput;
      sum.op = &ops::kSumGradients;
      sum.name = name;
      sum.inputs = {total, parts[i].gradient};
      for (const Operand& input : sum.inputs) touch(input);
      const Operand written =
          gradient_operand(value, parts[i].sum_slot, nodes_.written_bits(false));
      sum.grad_inputs = {written};
      emit(std::move(sum));
      total = kept_gradient(value, written, false);
    }
    total.shape = nodes_.shape_of(value);
    return total;
  }

  // Gradients of a node's outputs; nothing if no gradient comes back.
  std::vector<Operand> grad_outputs(const Node& node) {
    std::vector<Operand> gradients;
    bool any = false;
    for (const int output : node.outputs) {
      const bool wanted = nodes_.wants_gradient(output);
      gradients.push_back(wanted ? gradient_of(output, node.name) : Operand{});
      any = any || gradients.back().space != Operand::Space::kNone;
    }
    return any ? gradients : std::vector<Operand>{};
  }

  void emit_backward(int n) {
    const Node& node = graph_.nodes[n];
    const bool has_input = nodes_.functions(node).backward_input != nullptr &&
                           std::any_of(node.inputs.begin(), node.inputs.end(),
                                       [&](int input) { return nodes_.wants_gradient(input); });
    if (graph_.is_loss(n)) {
      if (has_input) emit_backward_input(n, {});
      return;
    }
    const std::vector<Operand> gradients = grad_outputs(node);
    if (gradients.empty()) return;
    if (node.op->traits.leaves_mask_to_producer) {
      contributions_[values_.canonical[node.inputs[0]]].push_back({gradients[0], -1});
      return;
    }
    const bool has_weights =
        nodes_.functions(node).backward_weights != nullptr && nodes_.trains(node);
    const bool input_first =
        has_weights && has_input && nodes_.input_comes_first(node, gradients[0].bits);
    if (input_first) emit_backward_input(n, gradients);
    if (has_weights) emit_backward_weights(n, gradients);
    if (has_input && !input_first) emit_backward_input(n, gradients);
    if (has_weights && (computes_rows(n) || nodes_.falls_back_on_rows(node))) {
      emit_update_by_rows(n, gradients);
    }
    if (updates_at_once()) emit_updates(n);
  }

  void add_backward_operands(Instruction& instruction, bool reads_input,
                             const std::vector<Operand>& gradients) {
    const Node& node = graph_.nodes[instruction.node];
    const OpTraits& traits = node.op->traits;
    const bool reads_output =
        traits.reads_output || (traits.reads_output_if_relu && instruction.relu);
    std::vector<int> reads;
    if (reads_input) reads = node.inputs;
    if (reads_output) reads.insert(reads.end(), node.outputs.begin(), node.outputs.end());
    restore(reads);
    instruction.grad_outputs = gradients;
    for (const Operand& gradient : gradients) touch(gradient);
    for (const int input : node.inputs) {
      Operand view{.shape = nodes_.shape_of(input)};
      instruction.inputs.push_back(reads_input ? operand(input) : view);
    }
    if (reads_output) {
      for (const int output : node.outputs) instruction.outputs.push_back(operand(output));
    }
    instruction.saved = forward_of_node_[instruction.node].saved;
    if (instruction.saved >= 0) touch(instruction.saved, now());
  }

  // Whether the update of the node's first parameter computes its gradient.
  bool computes_rows(int n) const {
    const std::vector<int>& parameters = graph_.nodes[n].parameters;
    const std::vector<bool>& by_rows = program_.options.by_rows;
    return !by_rows.empty() && !parameters.empty() && by_rows[parameters[0]];
  }

  void emit_backward_weights(int n, const std::vector<Operand>& gradients) {
    Instruction instruction = instruction_of(n, Phase::kBackwardWeights);
    const bool by_rows = computes_rows(n);
    PhaseMemory memory = nodes_.memory_of(graph_.nodes[n]).backward_weights;
    if (by_rows) {
      if (instruction.parameters.size() == 1) return;
      instruction.multiply_adds = 0;
      memory.scratch_bytes = 0;
    }
    add_backward_operands(instruction, instruction.op->traits.weights_read_input && !by_rows,
                          gradients);
    instruction.follows_other_uses = gradients_.count(instruction.parameters[0].parameter) > 0;
    instruction.clears_gradients = !instruction.follows_other_uses;
    for (ParameterOperand& operand : instruction.parameters) {
      const Parameter& parameter = graph_.parameters[operand.parameter];
      const bool first = &operand == instruction.parameters.data();
      if (!parameter.trained || (first && by_rows)) continue;
      if (instruction.follows_other_uses) {
        operand = gradients_[operand.parameter];
        touch(operand.gradient_buffer, now());
        continue;
      }
      operand.gradient_type = nodes_.weight_gradient_type(graph_.nodes[n], first);
      operand.measures_sums = nodes_.sum_width(graph_.nodes[n], first) == SumWidth::kMeasured;
      operand.gradient_buffer =
          add_buffer(parameter.name, BufferKind::kWeightGradient,
                     parameter.shape.count() * element_bytes(operand.gradient_type));
      gradients_[operand.parameter] = operand;
    }
    add_phase_memory(instruction, memory);
    emit(std::move(instruction));
  }

  // Reads what backward_weights would have read, and needs memory for a few rows only; or what it
  // did read, and takes the memory for sums that are too wide to be there.
  void emit_update_by_rows(int n, const std::vector<Operand>& gradients) {
    const int parameter = graph_.nodes[n].parameters[0];
    const RowsAtOnce rows = nodes_.rows_at_once(graph_.nodes[n]);
    const auto there = gradients_.extract(parameter);
    Instruction update = instruction_of(n, Phase::kUpdate);
    add_backward_operands(update, true, gradients);
    update.multiply_adds *= there.empty() ? ops::kReadsOfGradient : 0;
    update.op = optimizer(program_.options.optimizer).update;
    update.name = graph_.parameters[parameter].name;
    update.relu = false;
    update.gradient_rows = graph_.nodes[n].op->gradient_rows;
    update.rows_at_once = rows.rows;
    if (there.empty()) {
      update.parameters = {{parameter,
                            add_buffer(update.name, BufferKind::kWeightGradient, rows.sum_bytes),
                            DataType::kInt32}};
    } else {
      update.parameters = {there.mapped()};
      touch(there.mapped().gradient_buffer, now());
    }
    add_phase_memory(update, {.scratch_bytes = rows.scratch_bytes});
    emit(std::move(update));
  }

  void emit_backward_input(int n, std::vector<Operand> gradients) {
    const Node& node = graph_.nodes[n];
    const bool is_layer = node.op->traits.is_layer;
    if (is_layer) gradients[0] = rounded_gradient(node.outputs[0], gradients[0]);
    Instruction instruction = instruction_of(n, Phase::kBackwardInput);
    add_backward_operands(instruction, node.op->traits.input_reads_input, gradients);
    const int gradient_bits = instruction.grad_output().bits;
    Operand shared;
    for (int i = 0; i < static_cast<int>(node.inputs.size()); ++i) {
      const int value = node.inputs[i];
      Operand part;
      if (nodes_.wants_gradient(value)) {
        const bool reuse = node.op->traits.shares_grad_inputs && shared.index >= 0;
        const int bits = nodes_.grad_input_bits(node, gradient_bits);
        part = reuse ? shared : gradient_operand(value, slots_.gradient(n, i), bits);
        if (shared.index < 0) shared = part;
      }
      instruction.grad_inputs.push_back(part);
    }
    add_phase_memory(instruction, nodes_.memory_of(node).backward_input);
    const std::vector<Operand> parts = instruction.grad_inputs;
    emit(std::move(instruction));
    for (int i = 0; i < static_cast<int>(node.inputs.size()); ++i) {
      if (parts[i].space == Operand::Space::kNone) continue;
      const int value = node.inputs[i];
      contributions_[values_.canonical[value]].push_back(
          {kept_gradient(value, parts[i], is_layer), slots_.gradient(n, i) + 1});
    }
  }

  void emit_updates(int n) {
    for (const int parameter : graph_.nodes[n].parameters) {
      // The first node that uses it comes last in the backward pass.
      if (gradients_.count(parameter) == 0 || values_.first_user[parameter] != n) continue;
      const ParameterOperand& operand = gradients_[parameter];
      Instruction update;
      update.phase = Phase::kUpdate;
      update.op = optimizer(program_.options.optimizer).update;
      update.name = graph_.parameters[parameter].name;
      update.parameters = {operand};
      touch(operand.gradient_buffer, now());
      emit(std::move(update));
    }
  }

  void emit_gradient_norm() {
    Instruction norm;
    norm.phase = Phase::kUpdate;
    norm.op = &ops::kGradientNorm;
    norm.name = "all";
    for (const auto& [parameter, operand] : gradients_) {
      norm.parameters.push_back(operand);
      touch(operand.gradient_buffer, now());
    }
    emit(std::move(norm));
  }

  void emit_end_of_step() {
    program_.first_step_instruction = now();
    const int nodes = static_cast<int>(graph_.nodes.size());
    if (program_.options.clips) emit_gradient_norm();
    for (int n = nodes - 1; !updates_at_once() && n >= 0; --n) emit_updates(n);
    for (int n = 0; n < nodes; ++n) {
      if (nodes_.functions(graph_.nodes[n]).update_statistics == nullptr || values_.skipped[n])
        continue;
      Instruction update = instruction_of(n, Phase::kUpdateStatistics);
      update.multiply_adds = 0;
      update.statistics = forward_of_node_[n].statistics;
      touch(update.statistics, now());
      emit(std::move(update));
    }
  }

  // What outlives a micro-batch lives for the whole step if there are several.
  void finish() {
    const int last = std::max(0, now() - 1);
    for (Buffer& buffer : program_.buffers) {
      const bool whole_step =
          program_.options.micro_batches > 1 &&
          (buffer.kind == BufferKind::kWeightGradient || buffer.kind == BufferKind::kStatistics);
      if (whole_step) buffer.first = 0, buffer.last = last;
    }
    program_.live_bytes = largest_live_set(program_.buffers);
    program_.arena_bytes = pack_arena(program_.buffers, program_.options.arena_limit_bytes);
    program_.gradient_slots = slots_.gradients * (rounds_gradients_ ? 2 : 1);
    const auto readers = readers_of(graph_);
    for (int value = 0; value < static_cast<int>(graph_.values.size()); ++value) {
      program_.guarded_channels.push_back(!format().is_float() &&
                                                  is_guardable(graph_, readers, value)
                                              ? graph_.values[value].shape.last()
                                              : 0);
    }
  }

  struct NodeBuffers {
    int saved = -1;
    int statistics = -1;
  };

  const Graph& graph_;
  Program program_;
  ResolvedValues values_;
  ExponentSlots slots_;
  NodeOperands nodes_;
  bool rounds_gradients_ = false;     // some gradient has a second form, with a slot of its own
  std::vector<int> buffer_of_value_;  // -1: not there
  std::map<int, int> producer_;       // of canonical values: node
  std::vector<std::vector<Contribution>> contributions_;  // gradients of a value, by its readers
  std::map<int, NodeBuffers> forward_of_node_;
  std::map<int, ParameterOperand> gradients_;  // by parameter
};

}  // namespace

Result<Program> compile(const Graph& graph, const ProgramOptions& options,
                        const PlanningContext& planning) {
  return Compiler(graph, options, planning).compile();
}

}  // namespace mantissa
