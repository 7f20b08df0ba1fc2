#include "plan/program_writer.h"

#include <algorithm>

namespace mantissa {
namespace {

Program empty_program(const ProgramOptions& options) {
  Program program;
  program.options = options;
  return program;
}

}  // namespace

ProgramWriter::ProgramWriter(const Graph& graph, const ProgramOptions& options,
                             const PlanningContext& planning)
    : graph_(graph),
      program_(empty_program(options)),
      values_(resolve_values(graph)),
      slots_(exponent_slots(graph)),
      nodes_(graph, values_, program_.options, planning),
      buffer_of_value_(graph.values.size(), -1),
      left_by_node_(graph.nodes.size()) {}

bool ProgramWriter::is_left_out(int n) const {
  return values_.skipped[n] || (!options().with_loss && graph_.is_loss(n));
}

bool ProgramWriter::computes_rows(int n) const {
  const std::vector<int>& parameters = node(n).parameters;
  const std::vector<bool>& by_rows = options().by_rows;
  return !by_rows.empty() && !parameters.empty() && by_rows[parameters[0]];
}

Instruction ProgramWriter::instruction_of(int n, Phase phase) const {
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

Instruction ProgramWriter::forward_instruction(int n, Phase phase) {
  const Node& node = graph_.nodes[n];
  Instruction instruction = instruction_of(n, phase);
  for (const int input : node.inputs) instruction.inputs.push_back(operand(input));
  for (const int output : node.outputs) instruction.outputs.push_back(operand(output));
  add_phase_memory(instruction, nodes_.memory_of(node).forward);
  return instruction;
}

Operand ProgramWriter::operand(int value) {
  const Shape shape = nodes_.shape_of(value);
  const int root = values_.canonical[value];
  const Value& source = graph_.values[root];
  if (source.element == Element::kReal) return {};
  const bool has_exponent = source.element == Element::kMantissa;
  if (source.producer < 0) {
    const auto place = std::find(graph_.inputs.begin(), graph_.inputs.end(), root);
    return {.space = Operand::Space::kInput,
            .index = static_cast<int>(place - graph_.inputs.begin()),
            .type = source.type,
            .shape = shape,
            .slot = has_exponent ? value : -1};
  }
  int& buffer = buffer_of_value_[root];
  if (buffer < 0) {
    buffer = add_buffer(source.name, BufferKind::kActivation,
                        shape.count() * element_bytes(nodes_.type_of(value)));
  }
  return {.space = Operand::Space::kArena,
          .index = buffer,
          .type = nodes_.type_of(value),
          .shape = shape,
          .slot = has_exponent ? root : -1,
          .bits = nodes_.bits_of(value),
          .exponent_limit = nodes_.exponent_limit_of(value)};
}

Operand ProgramWriter::gradient_operand(int value, int slot, int bits) {
  const Shape shape = nodes_.shape_of(value);
  const DataType type = nodes_.gradient_type(bits);
  const int buffer = add_buffer(graph_.values[values_.canonical[value]].name,
                                BufferKind::kGradient, shape.count() * element_bytes(type));
  return {.space = Operand::Space::kArena,
          .index = buffer,
          .type = type,
          .shape = shape,
          .slot = slot,
          .gradient = true,
          .bits = bits};
}

int ProgramWriter::add_buffer(std::string name, BufferKind kind, int64_t bytes) {
  program_.buffers.push_back({.name = std::move(name), .kind = kind, .bytes = bytes});
  return static_cast<int>(program_.buffers.size()) - 1;
}

void ProgramWriter::add_phase_memory(Instruction& instruction, const PhaseMemory& memory) {
  if (memory.workspace_bytes > 0) {
    instruction.workspace =
        add_buffer(instruction.name, BufferKind::kWorkspace, memory.workspace_bytes);
  }
  if (memory.scratch_bytes > 0) {
    instruction.scratch = add_buffer(instruction.name, BufferKind::kScratch, memory.scratch_bytes);
  }
}

bool ProgramWriter::is_there(int value) const {
  const int root = values_.canonical[value];
  return graph_.values[root].producer < 0 || buffer_of_value_[root] >= 0;
}

void ProgramWriter::forget_values(std::optional<Retention> retention) {
  const std::vector<Retention>& all = options().retention;
  for (size_t value = 0; value < all.size(); ++value) {
    if (retention ? all[value] == *retention : all[value] != Retention::kKept) {
      buffer_of_value_[value] = -1;
    }
  }
}

}  // namespace mantissa
