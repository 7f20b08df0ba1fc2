#include "plan/programs/instruction.h"

#include "ops/ops.h"

namespace mantissa {
namespace {

bool has(const Instruction& instruction, Role role, bool (*with)(Access)) {
  return std::ranges::any_of(instruction.of(role),
                             [&](const Operand& operand) { return with(operand.access); });
}

}  // namespace

bool updates_parameter(const Instruction& instruction) {
  return instruction.of(Role::kStatistics).empty() &&
         has(instruction, Role::kParameter, [](Access access) { return writes(access); });
}

SegmentKind kind_of(const Instruction& instruction) {
  const auto writes_any = [](Access access) { return writes(access); };
  const auto adds = [](Access access) {
    return access == Access::kAdds || access == Access::kAccumulates;
  };
  if (has(instruction, Role::kOutput, writes_any)) return SegmentKind::kForward;
  if (has(instruction, Role::kGradInput, writes_any)) {
    return instruction.op == &ops::kSumGradients ? SegmentKind::kGradOutput
                                                 : SegmentKind::kGradInput;
  }
  if (has(instruction, Role::kSum, adds)) return SegmentKind::kGradWeights;
  if (!instruction.of(Role::kStatistics).empty()) return SegmentKind::kStatistics;
  return SegmentKind::kUpdate;
}

std::string_view phase_name(const Instruction& instruction) {
  if (instruction.again) return "recompute";
  switch (kind_of(instruction)) {
    case SegmentKind::kForward:
      return "forward";
    case SegmentKind::kGradOutput:
    case SegmentKind::kGradInput:
      return "backward_input";
    case SegmentKind::kGradWeights:
      return "backward_weights";
    case SegmentKind::kStatistics:
      return "update_statistics";
    case SegmentKind::kUpdate:
      break;
  }
  return "update";
}

}  // namespace mantissa
