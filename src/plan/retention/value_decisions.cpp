#include "plan/retention/value_decisions.h"

#include <algorithm>
#include <cstdio>
#include <limits>

#include "base/sizes.h"
#include "plan/retention/recompute_model.h"

namespace mantissa {
namespace {

const char* reason(const ValueDecision& decision, const RecomputeModel::Value& value) {
  if (!value.may_go) return value.stays ? "another stage has it too" : "the loss reads it";
  if (decision.is_kept) {
    if (!value.read_backward) return "others are computed from it";
    return decision.keep_us <= decision.compute_us ? "loading it is faster"
                                                   : "what it is computed from is not there";
  }
  if (decision.recomputations == 0) return "the backward pass does not need it";
  if (!value.read_backward) return "others are computed from it";
  return decision.compute_us < decision.keep_us ? "computing it is faster" : "memory is short";
}

const char* literal_reason(const ValueDecision& decision, const RecomputeModel::Value& value,
                           const std::vector<Retention>& choice) {
  if (!value.may_go || !value.read_backward) return reason(decision, value);
  if (!decision.is_kept) return "loading its input and computing it is faster";
  const bool can_go = std::all_of(value.inputs.begin(), value.inputs.end(),
                                  [&](int input) { return choice[input] == Retention::kKept; });
  return can_go ? "loading it is faster" : "what it is computed from is not there";
}

}  // namespace

std::vector<ValueDecision> value_decisions(const RecomputeModel& model,
                                           const std::vector<Retention>& choice,
                                           const Program& program, bool is_literal) {
  std::vector<int> recomputations(program.guarded_channels.size(), 0);  // by value of the graph
  for (const Instruction& instruction : program.instructions) {
    if (instruction.again) ++recomputations[instruction.output().exponent];
  }
  std::vector<ValueDecision> decisions;
  for (size_t v = 0; v < choice.size(); ++v) {
    const RecomputeModel::Value& value = model.values()[v];
    ValueDecision decision{
        .name = value.name,
        .bytes = value.bytes,
        .tier_bytes = value.read_backward ? model.tier_bytes(value) : 0,
        .keep_us = 1e-3 * value.keep_ns,
        .compute_us = 1e-3 * (is_literal ? value.near_compute_ns : value.compute_ns),
        .recomputations = recomputations[value.value],
        .is_kept = choice[v] == Retention::kKept};
    decision.decision =
        decision.is_kept || decision.recomputations > 0 ? retention_name(choice[v]) : "-";
    decision.reason =
        is_literal ? literal_reason(decision, value, choice) : reason(decision, value);
    decisions.push_back(std::move(decision));
  }
  return decisions;
}

std::string to_string(const std::vector<ValueDecision>& decisions) {
  char line[256];
  std::snprintf(line, sizeof line, "%-32s %11s %11s %9s %12s %6s  %-24s %s\n", "value", "size",
                "lies in", "keep us", "compute us", "again", "decision", "why");
  std::string text = line;
  for (const ValueDecision& d : decisions) {
    const std::string tier = d.tier_bytes == 0 ? "-"
                             : d.tier_bytes == std::numeric_limits<int64_t>::max()
                                 ? "memory"
                                 : format_bytes(d.tier_bytes);
    std::snprintf(line, sizeof line, "%-32s %11s %11s %9.1f %12.1f %6d  %-24s %s\n",
                  (d.name + (d.is_gradient ? " (gradient)" : "")).c_str(),
                  format_bytes(d.bytes).c_str(), tier.c_str(), d.keep_us, d.compute_us,
                  d.recomputations, d.decision, d.reason);
    text += line;
  }
  return text;
}

}  // namespace mantissa
