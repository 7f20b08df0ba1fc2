#include "plan/compile_training.h"

#include <algorithm>
#include <array>
#include <limits>

#include "plan/retention.h"

namespace mantissa {
namespace {

constexpr std::array<std::string_view, 4> kModeNames = {"auto", "none", "all", "literal"};

// Offsets leave gaps, so that the arena may be a little larger than what lives at once.
constexpr int kTries = 4;

class TrainingCompiler {
 public:
  TrainingCompiler(const Graph& graph, ProgramOptions options, const PlanningContext& planning,
                   const MachineProfile& profile, const Program& kept)
      : graph_(graph),
        options_(std::move(options)),
        planning_(planning),
        model_(graph, kept, profile, planning.threads) {}

  const RecomputeModel& model() const { return model_; }

  Result<Program> with(const RetentionPlan& plan) {
    options_.retention = model_.by_graph_value(plan.choice, graph_.values.size());
    return compile(graph_, options_, planning_);
  }

  Result<Program> within(int64_t limit_bytes) {
    int64_t target = limit_bytes;
    for (int i = 0; i < kTries && target > 0; ++i) {
      const RetentionPlan plan = choose_within(model_, target);
      if (plan.outcome.peak_bytes > target) break;
      MANTISSA_ASSIGN(Program program, with(plan));
      if (program.arena_bytes <= limit_bytes) return program;
      target -= program.arena_bytes - limit_bytes;
    }
    return with(choose_smallest(model_));
  }

 private:
  const Graph& graph_;
  ProgramOptions options_;
  PlanningContext planning_;
  RecomputeModel model_;
};

}  // namespace

Result<Program> compile_training(const Graph& graph, ProgramOptions options,
                                 const PlanningContext& planning,
                                 const RecomputeOptions& recompute) {
  MANTISSA_ASSIGN(Program kept, compile(graph, options, planning));
  if (recompute.mode == RecomputeMode::kNone) return kept;
  TrainingCompiler compiler(graph, std::move(options), planning, recompute.profile, kept);
  switch (recompute.mode) {
    case RecomputeMode::kAll:
      return compiler.with(choose_smallest(compiler.model()));
    case RecomputeMode::kLiteral:
      return compiler.with(choose_literally(compiler.model()));
    default:
      break;
  }
  const int64_t limit = recompute.arena_limit_bytes;
  return compiler.within(limit > 0 ? limit : std::numeric_limits<int64_t>::max());
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

}  // namespace mantissa
