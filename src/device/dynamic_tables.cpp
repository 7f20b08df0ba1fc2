#include "device/dynamic_tables.h"

#include <map>

#include "device/text/c_text.h"
#include "runtime/decided_exponents.h"

namespace mantissa::device {
namespace {

// Calls visit(operand, exponent) for what a program writes with a predicted exponent.
template <typename Visit>
void for_each_decided(const Program& program, const Visit& visit) {
  for (const Instruction& instruction : program.instructions) {
    for (const Operand& operand : instruction.operands) {
      if (!writes(operand.access) || operand.exponent < 0 || instruction.again) continue;
      const Exponent& e = program.exponents[static_cast<size_t>(operand.exponent)];
      if (e.predictor >= 0) visit(operand, e);
    }
  }
}

}  // namespace

std::string rules_of(const Graph& graph, const Program& program, int64_t predictors) {
  const Format& format = program.options.format;
  std::vector<CMembers> rules(static_cast<size_t>(predictors), CMembers{{"bits", "0"}});
  for_each_decided(program, [&](const Operand&, const Exponent& e) {
    rules[static_cast<size_t>(e.predictor)] = {
        {"bits", c_number(e.bits)},
        {"limit", c_number(e.limit)},
        {"clipped_ppm", c_number(clipped_ppm(e, graph, format))},
        {"threshold", c_number(format.threshold)},
        {"decides_at_once", format.decides_by_op ? "false" : "true"}};
  });
  std::string text = "static const DevRule rules[" + std::to_string(predictors) + "] = {\n";
  for (const CMembers& rule : rules) text += "  " + c_structure(rule, 2) + ",\n";
  return text + "};\n";
}

std::vector<int64_t> needed_places(const Graph& graph, const Program& program) {
  const Format& format = program.options.format;
  const int64_t micro_batches = program.options.micro_batches;
  if (format.deciding_steps() == 0 || micro_batches == 1) return {};
  std::map<int64_t, int64_t> room;
  for_each_decided(program, [&](const Operand& operand, const Exponent& e) {
    const int64_t all = operand.shape.count() * micro_batches;
    const bool is_velocity = e.owner == ExponentOwner::kVelocity;  // there is one for a step
    room[e.predictor] = is_velocity ? 0 : all * clipped_ppm(e, graph, format) / 1'000'000 + 1;
  });
  std::vector<int64_t> places = {0};
  for (int64_t predictor = 0; predictor <= room.rbegin()->first; ++predictor) {
    places.push_back(places.back() + room[predictor]);
  }
  return places;
}

}  // namespace mantissa::device
