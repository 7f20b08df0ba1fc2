// Programs as text.
#include "plan/programs/program.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <set>

#include "base/sizes.h"

namespace mantissa {
namespace {

std::string describe(const Program& program, int buffer) {
  const Buffer& b = program.buffers[buffer];
  return b.name + "@" + std::to_string(b.offset) + "+" + std::to_string(b.bytes);
}

std::string describe(const Program& program, const Operand& operand) {
  switch (operand.space) {
    case Operand::Space::kInput:
      return "input " + std::to_string(operand.index);
    case Operand::Space::kArena:
      return (program.buffers[operand.index].kind == BufferKind::kGradient ? "d:" : "") +
             describe(program, operand.index);
    default:
      return "";
  }
}

std::string exponent_line(const std::string& name, const std::string& bits,
                          const std::string& limit, std::string_view rule,
                          const std::string& predictor) {
  char line[192];
  std::snprintf(line, sizeof line, "%-52.52s %5s %6s  %-12s %s\n", name.c_str(), bits.c_str(),
                limit.c_str(), std::string(rule).c_str(), predictor.c_str());
  return line;
}

std::string describe(const Graph& graph, const Exponent& exponent) {
  return exponent_line(exponent_name(graph, exponent), std::to_string(exponent.bits),
                       exponent.limit == kExponentMax ? "-" : std::to_string(exponent.limit),
                       exponent_rule_name(exponent.rule),
                       is_predicted(exponent) ? std::to_string(exponent.predictor) : "-");
}

void append(std::string& text, const char* role, const std::string& what) {
  if (!what.empty()) text += std::string("  ") + role + " " + what;
}

}  // namespace

std::string_view phase_name(Phase phase) {
  constexpr std::array<std::string_view, 6> kNames = {
      "forward", "backward_weights", "backward_input", "update", "update_statistics", "recompute"};
  return kNames[static_cast<size_t>(phase)];
}

std::string_view buffer_kind_name(BufferKind kind) {
  constexpr std::array<std::string_view, 7> kNames = {
      "activations", "gradients", "weight gradients", "saved",
      "statistics",  "workspace", "kernel scratch"};
  return kNames[static_cast<size_t>(kind)];
}

const char* retention_name(Retention retention) {
  constexpr std::array<const char*, 3> kNames = {"kept", "computed again",
                                                 "computed again each time"};
  return kNames[static_cast<size_t>(retention)];
}

std::string to_string(const Program& program) {
  std::string text;
  for (int i = 0; i < static_cast<int>(program.instructions.size()); ++i) {
    const Instruction& instruction = program.instructions[i];
    char head[96];
    std::snprintf(head, sizeof head, "%4d %-17s %-21s ", i,
                  std::string(phase_name(instruction.phase)).c_str(), instruction.op->name);
    std::string line = head + instruction.name + (instruction.relu ? "+relu" : "");
    for (const Operand& input : instruction.inputs) {
      append(line, "in", describe(program, input));
    }
    for (const Operand& output : instruction.outputs) {
      append(line, "out", describe(program, output));
    }
    for (const Operand& gradient : instruction.grad_outputs) {
      append(line, "grad_out", describe(program, gradient));
    }
    for (const Operand& gradient : instruction.grad_inputs) {
      append(line, "grad_in", describe(program, gradient));
    }
    for (const ParameterOperand& parameter : instruction.parameters) {
      if (parameter.gradient_buffer < 0) continue;
      append(line, "sums", describe(program, parameter.gradient_buffer));
    }
    if (instruction.gradient_rows != nullptr) {
      line += "  " + std::to_string(instruction.rows_at_once) + " rows at a time";
      if (instruction.parameters[0].measures_sums) line += " where sums exceed 32 bits";
    }
    if (instruction.saved >= 0) append(line, "saved", describe(program, instruction.saved));
    if (instruction.statistics >= 0) {
      append(line, "statistics", describe(program, instruction.statistics));
    }
    if (instruction.workspace >= 0) append(line, "work", describe(program, instruction.workspace));
    if (instruction.scratch >= 0) append(line, "scratch", describe(program, instruction.scratch));
    if (instruction.multiply_adds > 0) {
      std::snprintf(head, sizeof head, "  %.1f MMAC",
                    static_cast<double>(instruction.multiply_adds) / 1e6);
      line += head;
    }
    text += line + "\n";
  }
  return text;
}

std::string exponents_to_string(const Graph& graph, const Program& program) {
  std::set<int> used, parameters;
  for (const Instruction& instruction : program.instructions) {
    for_each_operand(instruction, [&](const Operand& operand) { used.insert(operand.exponent); });
    for (const ParameterOperand& parameter : instruction.parameters) {
      used.insert({parameter.exponent, parameter.velocity});
      parameters.insert(parameter.parameter);
    }
  }
  used.erase(-1);
  std::string text = exponent_line("exponent", "bits", "limit", "rule", "predictor");
  for (const int row : used) text += describe(graph, program.exponents[row]);
  for (const int parameter : parameters) {
    const Grid& grid = program.parameter_grids[parameter];
    const bool is_real = graph.parameters[parameter].storage == Storage::kReal;
    if (is_real || grid.scaling == Scaling::kReal) continue;
    text += describe(graph, {.owner = ExponentOwner::kParameter,
                             .of = parameter,
                             .rule = ExponentRule::kUpdated,
                             .bits = grid.bits});
  }
  return text;
}

}  // namespace mantissa
