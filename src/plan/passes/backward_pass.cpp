#include <algorithm>
#include <map>

#include "ops/gradient_rows.h"
#include "ops/ops.h"
#include "plan/passes/compile_passes.h"

namespace mantissa {
namespace {

using Space = Operand::Space;

class BackwardPass {
 public:
  explicit BackwardPass(ProgramWriter& writer)
      : writer_(writer),
        graph_(writer.graph()),
        nodes_(writer.operands()),
        contributions_(graph_.values.size()) {}

  void write_node(int n) {
    if (writer_.sliced() && n == writer_.sliced()->loss) return;
    if (writer_.sliced() && n == writer_.sliced()->layer) return take_sliced_gradient(n);
    const Node& node = graph_.nodes[n];
    const GradientEmitter emitted =
        mantissa::gradient_of(*node.op, nodes_.rows(*node.op), writer_.values().fused_relu[n]);
    const std::vector<Operand> gradients = grad_outputs(node);
    if (gradients.empty() && !graph_.is_loss(n)) return;
    if (emitted.leaves_mask()) {
      contributions_to(node.inputs[0]).push_back({gradients[0], {}});
      return;
    }
    std::vector<const EmittedInstruction*> wanted;
    for (const EmittedInstruction& each : emitted.instructions()) {
      if (is_wanted(node, each)) wanted.push_back(&each);
    }
    if (input_comes_first(node, wanted, gradients)) std::swap(wanted[0], wanted[1]);
    int workspace = -1;
    const EmittedInstruction* weights = nullptr;
    for (const EmittedInstruction* each : wanted) {
      if (each->names(Role::kSum)) {
        weights = each;
        workspace = write_grad_weights(n, *each, gradients);
      } else {
        write_grad_input(n, *each, gradients, workspace);
      }
    }
    if (weights != nullptr && (writer_.computes_rows(n) || nodes_.falls_back_on_rows(node))) {
      write_update_by_rows(writer_, n, *weights, gradients);
    }
    if (nodes_.updates_at_once() && !graph_.is_loss(n)) write_updates(writer_, n);
  }

 private:
  // A reader's gradient of a value, and the exponent of the sum up to it.
  struct Contribution {
    Operand gradient;
    Exponent sum;
  };

  bool is_wanted(const Node& node, const EmittedInstruction& instruction) const {
    if (instruction.names(Role::kSum)) return nodes_.trains(node);
    return std::ranges::any_of(node.inputs,
                               [&](int input) { return nodes_.wants_gradient(input); });
  }

  bool input_comes_first(const Node& node, const std::vector<const EmittedInstruction*>& wanted,
                         const std::vector<Operand>& gradients) const {
    if (wanted.size() != 2 || !wanted[0]->names(Role::kSum)) return false;
    return nodes_.input_comes_first(node, *wanted[0], *wanted[1], bits_of(gradients[0]));
  }

  // As many as activations if no gradient comes back.
  int bits_of(const Operand& gradient) const {
    return gradient.exponent < 0 ? Exponent{}.bits : writer_.exponent_of(gradient).bits;
  }

  Exponent exponent(ExponentOwner owner, int n, int input, bool rounds, int bits) const {
    const Grid& grid = nodes_.grid_of(graph_.nodes[n].inputs[input]);
    Exponent row =
        gradient_exponent(writer_.slots(), owner, n, input, grid, rounds, writer_.format());
    row.bits = bits;
    return row;
  }

  std::vector<Contribution>& contributions_to(int value) {
    return contributions_[writer_.values().canonical[value]];
  }

  const std::string& name_of(int value) const {
    return graph_.values[writer_.values().canonical[value]].name;
  }

  // The gradient that an op, or a layer, passes on: rounded, if it was written for stochastic
  // rounding.
  Operand kept_gradient(int value, const Operand& written, bool is_layer) {
    const bool rounds = bits_of(written) > nodes_.kept_bits(is_layer);
    return rounds ? rounded_gradient(value, written) : written;
  }

  // A gradient of a value in g bits. If it has more, a further instruction rounds it to g.
  Operand rounded_gradient(int value, const Operand& gradient) {
    const Format& format = writer_.format();
    const Exponent& wide = writer_.exponent_of(gradient);
    if (wide.bits == format.gradient_bits || wide.rule == ExponentRule::kNone) return gradient;
    const bool is_sum = wide.owner == ExponentOwner::kGradientSum;
    const Exponent narrow =
        exponent(is_sum ? ExponentOwner::kRoundedSum : ExponentOwner::kRoundedGradient, wide.of,
                 wide.input, true, format.gradient_bits);
    Instruction round;
    round.op = format.nearest_gradients ? &ops::kRoundGradient : &ops::kRoundGradientStochastic;
    round.row = &nodes_.rows(*round.op).grad_input;
    round.name = name_of(value);
    round.add(gradient, Role::kInput, Access::kReads);
    const Operand rounded = writer_.gradient_operand(value, narrow);
    round.add(rounded, Role::kGradInput, Access::kWrites);
    writer_.emit(std::move(round));
    return rounded;
  }

  // The gradient of a value: its readers' contributions, summed if there are several.
  Operand gradient_of(int value, const std::string& name) {
    const std::vector<Contribution>& parts = contributions_to(value);
    if (parts.empty()) return {};
    Operand total = parts[0].gradient;
    for (size_t i = 1; i < parts.size(); ++i) {
      Instruction sum;
      sum.op = &ops::kSumGradients;
      sum.row = &nodes_.rows(*sum.op).grad_input;
      sum.name = name;
      sum.add(total, Role::kInput, Access::kReads);
      sum.add(parts[i].gradient, Role::kInput, Access::kReads);
      const Operand written = writer_.gradient_operand(value, parts[i].sum);
      sum.add(written, Role::kGradInput, Access::kWrites);
      writer_.emit(std::move(sum));
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
      any = any || gradients.back().exists();
    }
    return any ? gradients : std::vector<Operand>{};
  }

  // The sums of a parameter: a buffer of its own, or, for a further user, the first user's buffer.
  Operand sums_of(int n, int parameter, bool first) {
    const auto there = writer_.sums().find(parameter);
    if (there != writer_.sums().end()) return there->second;
    const Parameter& p = graph_.parameters[parameter];
    const DataType type = nodes_.weight_gradient_type(graph_.nodes[n], first);
    const bool measures = nodes_.sum_width(graph_.nodes[n], first) == SumWidth::kMeasured;
    const Operand sums = {.space = Space::kArena,
                          .is_measured = measures,
                          .type = type,
                          .index = writer_.add_buffer(p.name, BufferKind::kWeightGradient,
                                                      p.shape.count() * element_bytes(type)),
                          .exponent = writer_.add_sum_exponent(parameter, type, measures),
                          .shape = p.shape};
    writer_.sums()[parameter] = sums;
    return sums;
  }

  // Returns its workspace, or -1.
  int write_grad_weights(int n, const EmittedInstruction& emitted,
                         const std::vector<Operand>& gradients) {
    Instruction instruction = writer_.instruction_of(n, *emitted.row);
    const bool by_rows = writer_.computes_rows(n);
    const std::vector<int>& parameters = graph_.nodes[n].parameters;
    RowMemory memory = nodes_.memory_of(graph_.nodes[n]).grad_weights;
    if (by_rows) {
      if (parameters.size() == 1) return -1;
      instruction.multiply_adds = 0;
      memory.scratch_bytes = 0;
    }
    add_backward_operands(writer_, instruction, emitted, emitted.names(Role::kInput) && !by_rows,
                          gradients);
    const bool follows = writer_.sums().contains(parameters[0]);
    for (size_t i = 0; i < parameters.size(); ++i) {
      const bool left_to_update = i == 0 && by_rows;
      if (!graph_.parameters[parameters[i]].trained || left_to_update) continue;
      instruction.add(sums_of(n, parameters[i], i == 0), Role::kSum,
                      follows ? Access::kAdds : Access::kAccumulates);
    }
    writer_.add_row_memory(instruction, memory);
    const int workspace = instruction.first(Role::kWorkspace).index;
    writer_.emit(std::move(instruction));
    return workspace;
  }

  void write_grad_input(int n, const EmittedInstruction& emitted, std::vector<Operand> gradients,
                        int left_workspace) {
    const Node& node = graph_.nodes[n];
    const NamedOperands& written = *emitted.find(Role::kGradInput);
    const bool is_layer = written.width == GradientWidth::kLayer;
    const NamedOperands* const read = emitted.find(Role::kGradOutput);
    if (read != nullptr && read->width == GradientWidth::kLayer) {
      gradients[0] = rounded_gradient(node.outputs[0], gradients[0]);
    }
    Instruction instruction = writer_.instruction_of(n, *emitted.row);
    add_backward_operands(writer_, instruction, emitted, emitted.names(Role::kInput), gradients);
    const int bits = gradients.empty() ? 0 : bits_of(gradients[0]);
    const std::vector<Operand> parts = grad_inputs(n, written, bits);
    for (const Operand& part : parts) {
      instruction.add(part, Role::kGradInput, part.exists() ? Access::kWrites : Access::kNone);
    }
    RowMemory memory = nodes_.memory_of(node).grad_input;
    if (emitted.names(Role::kWorkspace) && left_workspace >= 0) {
      instruction.add(writer_.memory_operand(left_workspace), Role::kWorkspace, Access::kReads);
      memory.workspace_bytes = 0;
    }
    writer_.add_row_memory(instruction, memory);
    writer_.emit(std::move(instruction));
    for (size_t i = 0; i < parts.size(); ++i) {
      if (parts[i].exists()) contribute(n, static_cast<int>(i), parts[i], is_layer);
    }
  }

  // Adds a gradient that a node gives to one of its inputs.
  void contribute(int n, int input, const Operand& written, bool is_layer) {
    const int value = graph_.nodes[n].inputs[input];
    const Operand kept = kept_gradient(value, written, is_layer);
    const Exponent sum =
        exponent(ExponentOwner::kGradientSum, n, input, true, nodes_.written_bits(false));
    contributions_to(value).push_back({kept, sum});
  }

  // The gradient of a layer's input that came with the slices of its logits.
  void take_sliced_gradient(int n) {
    if (writer_.sliced_gradient().exists()) contribute(n, 0, writer_.sliced_gradient(), true);
  }

  // Buffers of a node's gradients of its inputs: one for all of them, or one each.
  std::vector<Operand> grad_inputs(int n, const NamedOperands& written, int gradient_bits) {
    const Node& node = graph_.nodes[n];
    const int bits = nodes_.grad_input_bits(written.width, gradient_bits);
    const bool rounds = written.width != GradientWidth::kPassed;
    std::vector<Operand> parts;
    Operand shared;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      Operand part;
      if (nodes_.wants_gradient(node.inputs[i])) {
        const bool reuse = written.is_shared && shared.exists();
        part = reuse ? shared
                     : writer_.gradient_operand(node.inputs[i],
                                                exponent(ExponentOwner::kGradient, n,
                                                         static_cast<int>(i), rounds, bits));
        if (!shared.exists()) shared = part;
      }
      parts.push_back(part);
    }
    return parts;
  }

  ProgramWriter& writer_;
  const Graph& graph_;
  const NodeOperands& nodes_;
  std::vector<std::vector<Contribution>> contributions_;  // by canonical value
};

}  // namespace

void add_backward_operands(ProgramWriter& writer, Instruction& instruction,
                           const EmittedInstruction& emitted, bool reads_input,
                           const std::vector<Operand>& gradients) {
  const Node& node = writer.node(instruction.node);
  const bool reads_output = emitted.names(Role::kOutput);
  std::vector<int> reads;
  if (reads_input) reads = node.inputs;
  if (reads_output) reads.insert(reads.end(), node.outputs.begin(), node.outputs.end());
  restore_values(writer, reads);
  for (const Operand& gradient : gradients) {
    instruction.add(gradient, Role::kGradOutput,
                    gradient.exists() ? Access::kReads : Access::kNone);
  }
  for (const int input : node.inputs) {
    if (reads_input) {
      instruction.add(writer.operand(input), Role::kInput, Access::kReads);
    } else {
      instruction.add({.shape = writer.operands().shape_of(input)}, Role::kInput, Access::kNone);
    }
  }
  if (reads_output) {
    for (const int output : node.outputs) {
      instruction.add(writer.operand(output), Role::kOutput, Access::kReads);
    }
  }
  const int saved = writer.left_by(instruction.node).saved;
  if (saved >= 0 && emitted.names(Role::kSaved))
    instruction.add(writer.memory_operand(saved), Role::kSaved, Access::kReads);
}

void write_backward(ProgramWriter& writer) {
  writer.forget_values();
  BackwardPass pass(writer);
  for (int n = writer.node_count() - 1; n >= 0; --n) {
    if (writer.is_left_out(n)) continue;
    writer.begin_layer(n);
    pass.write_node(n);
    writer.forget_values(Retention::kRecomputedEachTime);
  }
}

}  // namespace mantissa
