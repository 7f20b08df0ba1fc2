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

void append(std::string& text, std::string_view role, const std::string& what) {
  if (!what.empty()) text += "  " + std::string(role) + " " + what;
}

}  // namespace

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
                  std::string(phase_name(instruction)).c_str(), instruction.op->name);
    std::string line = head + instruction.name + (instruction.relu ? "+relu" : "");
    for (const Operand& operand : instruction.operands) {
      append(line, role_name(operand.role), describe(program, operand));
    }
    if (instruction.gradient_rows != nullptr) {
      line += "  " + std::to_string(instruction.rows_at_once) + " rows at a time";
      if (instruction.sums()[0].is_measured) line += " where sums exceed 32 bits";
    }
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
    for (const Operand& operand : instruction.operands) {
      used.insert(operand.exponent);
      if (operand.role == Role::kParameter) parameters.insert(operand.index);
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
