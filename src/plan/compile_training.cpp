#include "plan/compile_training.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>

#include "base/sizes.h"
#include "plan/exact_retention.h"
#include "plan/retention.h"

namespace mantissa {
namespace {

constexpr std::array<std::string_view, 4> kModeNames = {"auto", "none", "all", "literal"};
constexpr std::array<std::string_view, 2> kPlannerNames = {"search", "exact"};

// Offsets leave gaps, so that the arena may be a little larger than what lives at once.
constexpr int kTries = 8;

class TrainingCompiler {
 public:
  TrainingCompiler(const Graph& graph, ProgramOptions options, const PlanningContext& planning,
                   const RecomputeOptions& recompute, const Program& kept)
      : graph_(graph),
        options_(std::move(options)),
        planning_(planning),
        planner_(recompute.planner),
        instruction_bytes_(recompute.instruction_bytes),
        least_arena_bytes_(recompute.least_arena_bytes),
        model_(graph, kept, recompute.profile, planning.threads, recompute.instruction_bytes,
               recompute.least_arena_bytes) {}

  const RecomputeModel& model() const { return model_; }

  Result<TrainingProgram> with(const RetentionPlan& plan) {
    options_.retention = model_.by_graph_value(plan.choice, graph_.values.size());
    MANTISSA_ASSIGN(Program program, compile(graph_, options_, planning_));
    std::vector<ValueDecision> decisions = explain(plan, program);
    return TrainingProgram{std::move(program), std::move(decisions)};
  }

  Result<TrainingProgram> within(int64_t limit_bytes) {
    int64_t target = limit_bytes;
    for (int i = 1;; ++i) {
      MANTISSA_ASSIGN(const RetentionPlan plan, plan_within(target));
      MANTISSA_ASSIGN(TrainingProgram result, with(plan));
      const int64_t above = std::max(result.program.arena_bytes, least_arena_bytes_) +
                            plan.outcome.recomputations * instruction_bytes_ - limit_bytes;
      if (above <= 0 || plan.outcome.total_bytes > target) return result;
      if (i == kTries) return smallest();
      target -= std::max(above, i * (limit_bytes / 200));
    }
  }

  Result<TrainingProgram> smallest() {
    if (planner_ == Planner::kSearch) return with(choose_smallest(model_));
    MANTISSA_ASSIGN(const RetentionPlan plan, choose_exactly_smallest(model_));
    return with(plan);
  }

 private:
  Result<RetentionPlan> plan_within(int64_t bytes) const {
    if (planner_ == Planner::kSearch) return choose_within(model_, bytes);
    return choose_exactly_within(model_, bytes);
  }

  std::vector<ValueDecision> explain(const RetentionPlan& plan, const Program& program) const {
    std::vector<int> recomputations(graph_.values.size(), 0);
    for (const Instruction& instruction : program.instructions) {
      if (instruction.phase == Phase::kRecompute) ++recomputations[instruction.output.slot];
    }
    std::vector<ValueDecision> decisions;
    for (size_t v = 0; v < plan.choice.size(); ++v) {
      const RecomputeModel::Value& value = model_.values()[v];
      ValueDecision decision{.name = value.name,
                             .bytes = value.bytes,
                             .tier_bytes = value.read_backward ? model_.tier_bytes(value) : 0,
                             .keep_us = 1e-3 * value.keep_ns,
                             .compute_us = 1e-3 * value.compute_ns,
                             .recomputations = recomputations[value.value],
                             .retention = plan.choice[v]};
      decision.reason = reason(decision, value);
      decisions.push_back(std::move(decision));
    }
    return decisions;
  }

  static const char* reason(const ValueDecision& decision, const RecomputeModel::Value& value) {
    if (!value.may_go) return "the loss reads it";
    if (decision.retention == Retention::kKept) {
      if (!value.read_backward) return "others are computed from it";
      return decision.keep_us <= decision.compute_us ? "loading it is faster"
                                                     : "what it is computed from is not there";
    }
    if (decision.recomputations == 0) return "the backward pass does not need it";
    if (!value.read_backward) return "others are computed from it";
    return decision.compute_us < decision.keep_us ? "computing it is faster" : "memory is short";
  }

  const Graph& graph_;
  ProgramOptions options_;
  PlanningContext planning_;
  Planner planner_;
  int64_t instruction_bytes_, least_arena_bytes_;
  RecomputeModel model_;
};

}  // namespace

Result<TrainingProgram> compile_training(const Graph& graph, ProgramOptions options,
                                         const PlanningContext& planning,
                                         const RecomputeOptions& recompute) {
  MANTISSA_ASSIGN(const Program kept, compile(graph, options, planning));
  TrainingCompiler compiler(graph, std::move(options), planning, recompute, kept);
  switch (recompute.mode) {
    case RecomputeMode::kNone:
      return compiler.with({keep_all(compiler.model()), {}});
    case RecomputeMode::kAll:
      return compiler.smallest();
    case RecomputeMode::kLiteral:
      return compiler.with(choose_literally(compiler.model()));
    case RecomputeMode::kAuto:
      break;
  }
  const int64_t limit = recompute.limit_bytes;
  return compiler.within(limit > 0 ? limit : std::numeric_limits<int64_t>::max());
}

std::string to_string(const std::vector<ValueDecision>& decisions) {
  char line[256];
  std::snprintf(line, sizeof line, "%-32s %11s %11s %9s %12s %6s  %-24s %s\n", "value", "size",
                "lies in", "keep us", "compute us", "again", "decision", "why");
  std::string text = line;
  for (const ValueDecision& d : decisions) {
    const bool not_needed = d.retention != Retention::kKept && d.recomputations == 0;
    const std::string tier = d.tier_bytes == 0 ? "-"
                             : d.tier_bytes == std::numeric_limits<int64_t>::max()
                                 ? "memory"
                                 : format_bytes(d.tier_bytes);
    std::snprintf(line, sizeof line, "%-32s %11s %11s %9.1f %12.1f %6d  %-24s %s\n", d.name.c_str(),
                  format_bytes(d.bytes).c_str(), tier.c_str(), d.keep_us, d.compute_us,
                  d.recomputations, not_needed ? "-" : retention_name(d.retention), d.reason);
    text += line;
  }
  return text;
}

Result<RecomputeMode> parse_recompute_mode(std::string_view text) {
  const auto* found = std::find(kModeNames.begin(), kModeNames.end(), text);
  if (found == kModeNames.end()) {
    return invalid_input("recompute: '" + std::string(text) +
                         "' is none of auto, none, all and literal");
  }
  return static_cast<RecomputeMode>(found - kModeNames.begin());
}

std::string_view recompute_mode_name(RecomputeMode mode) {
  return kModeNames[static_cast<size_t>(mode)];
}

Result<Planner> parse_planner(std::string_view text) {
  const auto* found = std::find(kPlannerNames.begin(), kPlannerNames.end(), text);
  if (found == kPlannerNames.end()) {
    return invalid_input("plan: '" + std::string(text) + "' is neither search nor exact");
  }
  return static_cast<Planner>(found - kPlannerNames.begin());
}

std::string_view planner_name(Planner planner) {
  return kPlannerNames[static_cast<size_t>(planner)];
}

}  // namespace mantissa
