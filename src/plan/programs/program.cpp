#include "plan/programs/program.h"

#include <array>
#include <cstdio>
#include <set>

namespace mantissa {
namespace {

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
