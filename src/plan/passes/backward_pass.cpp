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
    const Node& node = graph_.nodes[n];
    const bool has_input = nodes_.rows(node).grad_input &&
                           std::any_of(node.inputs.begin(), node.inputs.end(),
                                       [&](int input) { return nodes_.wants_gradient(input); });
    if (graph_.is_loss(n)) {
      if (has_input) write_backward_input(n, {});
      return;
    }
    const std::vector<Operand> gradients = grad_outputs(node);
    if (gradients.empty()) return;
    if (node.op->traits.leaves_mask_to_producer) {
      contributions_to(node.inputs[0]).push_back({gradients[0], {}});
      return;
    }
    const bool has_weights = nodes_.rows(node).grad_weights && nodes_.trains(node);
    const bool input_first =
        has_weights && has_input && nodes_.input_comes_first(node, bits_of(gradients[0]));
    if (input_first) write_backward_input(n, gradients);
    const int workspace = has_weights ? write_backward_weights(n, gradients) : -1;
    if (has_input && !input_first) write_backward_input(n, gradients, workspace);
    if (has_weights && (writer_.computes_rows(n) || nodes_.falls_back_on_rows(node))) {
      write_update_by_rows(writer_, n, gradients);
    }
    if (nodes_.updates_at_once()) write_updates(writer_, n);
  }

 private:
  // A reader's gradient of a value, and the exponent of the sum up to it.
  struct Contribution {
    Operand gradient;
    Exponent sum;
  };

  // As many as activations if no gradient comes back.
  int bits_of(const Operand& gradient) const {
    return gradient.exponent < 0 ? Exponent{}.bits : writer_.exponent_of(gradient).bits;
  }

  Exponent exponent(ExponentOwner owner, int n, int input, const Op& op, int bits) const {
    Exponent row = gradient_exponent(writer_.slots(), owner, n, input, op, writer_.format());
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
    if (wide.bits == format.gradient_bits || format.is_float()) return gradient;
    const bool is_sum = wide.owner == ExponentOwner::kGradientSum;
    const Exponent narrow =
        exponent(is_sum ? ExponentOwner::kRoundedSum : ExponentOwner::kRoundedGradient, wide.of,
                 wide.input, ops::kRoundGradient, format.gradient_bits);
    Instruction round;
    round.op = format.nearest_gradients ? &ops::kRoundGradient : &ops::kRoundGradientStochastic;
    round.row = &round.op->rows(format).grad_input;
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
      sum.row = &sum.op->rows(writer_.format()).grad_input;
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

  // Returns the workspace that is left to backward_input, or -1.
  int write_backward_weights(int n, const std::vector<Operand>& gradients) {
    Instruction instruction = writer_.instruction_of(n, nodes_.rows(graph_.nodes[n]).grad_weights);
    const bool by_rows = writer_.computes_rows(n);
    const std::vector<int>& parameters = graph_.nodes[n].parameters;
    RowMemory memory = nodes_.memory_of(graph_.nodes[n]).grad_weights;
    if (by_rows) {
      if (parameters.size() == 1) return -1;
      instruction.multiply_adds = 0;
      memory.scratch_bytes = 0;
    }
    add_backward_operands(writer_, instruction,
                          instruction.op->traits.weights_read_input && !by_rows, gradients);
    const bool follows = writer_.sums().contains(parameters[0]);
    for (size_t i = 0; i < parameters.size(); ++i) {
      const bool left_to_update = i == 0 && by_rows;
      if (!graph_.parameters[parameters[i]].trained || left_to_update) continue;
      instruction.add(sums_of(n, parameters[i], i == 0), Role::kSum,
                      follows ? Access::kAdds : Access::kAccumulates);
    }
    writer_.add_row_memory(instruction, memory);
    const int left =
        instruction.op->traits.leaves_workspace ? instruction.first(Role::kWorkspace).index : -1;
    writer_.emit(std::move(instruction));
    return left;
  }

  void write_backward_input(int n, std::vector<Operand> gradients, int left_workspace = -1) {
    const Node& node = graph_.nodes[n];
    const bool is_layer = node.op->traits.is_layer;
    if (is_layer) gradients[0] = rounded_gradient(node.outputs[0], gradients[0]);
    Instruction instruction = writer_.instruction_of(n, nodes_.rows(node).grad_input);
    add_backward_operands(writer_, instruction, node.op->traits.input_reads_input, gradients);
    const int bits = gradients.empty() ? 0 : bits_of(gradients[0]);
    const std::vector<Operand> parts = grad_inputs(n, bits);
    for (const Operand& part : parts) {
      instruction.add(part, Role::kGradInput, part.exists() ? Access::kWrites : Access::kNone);
    }
    RowMemory memory = nodes_.memory_of(node).grad_input;
    if (left_workspace >= 0) {
      instruction.add(writer_.memory_operand(left_workspace), Role::kWorkspace, Access::kReads);
      memory.workspace_bytes = 0;
    }
    writer_.add_row_memory(instruction, memory);
    writer_.emit(std::move(instruction));
    for (size_t i = 0; i < parts.size(); ++i) {
      if (!parts[i].exists()) continue;
      const int value = node.inputs[i];
      const Operand kept = kept_gradient(value, parts[i], is_layer);
      const Exponent sum = exponent(ExponentOwner::kGradientSum, n, static_cast<int>(i),
                                    ops::kSumGradients, nodes_.written_bits(false));
      contributions_to(value).push_back({kept, sum});
    }
  }

  // Buffers of a node's gradients of its inputs: one for all of them, or one each.
  std::vector<Operand> grad_inputs(int n, int gradient_bits) {
    const Node& node = graph_.nodes[n];
    const int bits = nodes_.grad_input_bits(node, gradient_bits);
    std::vector<Operand> parts;
    Operand shared;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      Operand part;
      if (nodes_.wants_gradient(node.inputs[i])) {
        const bool reuse = node.op->traits.shares_grad_inputs && shared.index >= 0;
        part = reuse ? shared
                     : writer_.gradient_operand(node.inputs[i],
                                                exponent(ExponentOwner::kGradient, n,
                                                         static_cast<int>(i), *node.op, bits));
        if (shared.index < 0) shared = part;
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

void add_backward_operands(ProgramWriter& writer, Instruction& instruction, bool reads_input,
                           const std::vector<Operand>& gradients) {
  const Node& node = writer.node(instruction.node);
  const OpTraits& traits = node.op->traits;
  const bool reads_output =
      traits.reads_output || (traits.reads_output_if_relu && instruction.relu);
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
  if (saved >= 0) instruction.add(writer.memory_operand(saved), Role::kSaved, Access::kReads);
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
