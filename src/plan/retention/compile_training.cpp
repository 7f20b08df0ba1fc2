#include "plan/retention/compile_training.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "ops/gradient_rows.h"
#include "plan/retention/exact_retention.h"
#include "plan/retention/gradient_rows.h"
#include "plan/retention/retention.h"

namespace mantissa {
namespace {

constexpr std::array<std::string_view, 4> kModeNames = {"auto", "none", "all", "literal"};
constexpr std::array<std::string_view, 2> kPlannerNames = {"search", "exact"};

// Offsets leave gaps, so the arena may be a little larger than the live bytes.
constexpr int kRowTries = 8;
constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

class TrainingCompiler {
 public:
  TrainingCompiler(const Graph& graph, ProgramOptions options, const PlanningContext& planning,
                   const RecomputeOptions& recompute)
      : graph_(graph),
        options_(std::move(options)),
        planning_(planning),
        recompute_(recompute),
        rows_(row_choices(graph, options_, planning, recompute.profile)) {}

  Result<TrainingProgram> keep_everything() {
    MANTISSA_RETURN_IF_ERROR(use_rows(0));
    return program_of(with({keep_all(*model_), {}}));
  }

  Result<TrainingProgram> literally() {
    MANTISSA_RETURN_IF_ERROR(use_rows(0));
    return program_of(with(choose_literally(*model_)));
  }

  // Gradients by rows, except those that need no less memory this way.
  Result<TrainingProgram> smallest() {
    MANTISSA_RETURN_IF_ERROR(use_rows(rows_.size()));
    MANTISSA_ASSIGN(Planned best, smallest_with_rows());
    Program& program = best.training.program;
    for (size_t i = rows_.size(); i > 0; --i) {
      options_.by_rows[rows_[i - 1].parameter] = false;
      MANTISSA_ASSIGN(Program whole, compile(graph_, options_, planning_));
      if (takes(whole) <= takes(program)) {
        program = std::move(whole);
      } else {
        options_.by_rows[rows_[i - 1].parameter] = true;
      }
    }
    best.training.decisions = explain(best.choice, program);
    return std::move(best.training);
  }

  // Gradients by rows if that is faster. Further ones, the cheapest first, if they make room for
  // values that are then not computed again, or if nothing else fits.
  Result<TrainingProgram> within(int64_t limit_bytes) {
    constexpr int kCounts = 3;
    const size_t fast = fast_rows();
    MANTISSA_ASSIGN(Planned best, within_with_rows(fast, limit_bytes));
    if (limit_bytes == kNoLimit) return std::move(best.training);
    bool fits = takes(best.training.program) <= limit_bytes;
    const double least_ns = choose_within(*model_, kNoLimit).outcome.nanoseconds;
    size_t count = fast;
    while (count < rows_.size() && (!fits || slow_ns(count + 1) < best.nanoseconds - least_ns)) {
      ++count;
    }
    for (int i = 0; i < kCounts && count > fast; ++i, count = fast + (count - fast) / 2) {
      MANTISSA_ASSIGN(Planned other, within_with_rows(count, limit_bytes, &best));
      const int64_t bytes = takes(other.training.program);
      if (bytes > limit_bytes) {
        if (!fits && bytes < takes(best.training.program)) best = std::move(other);
        break;
      }
      if (!fits || other.nanoseconds < best.nanoseconds) best = std::move(other);
      fits = true;
    }
    return std::move(best.training);
  }

 private:
  struct Planned {
    TrainingProgram training;
    std::vector<Retention> choice;  // by value of the model
    double nanoseconds = 0;         // estimated: of keeping and computing again
  };

  static Result<TrainingProgram> program_of(Result<Planned> planned) {
    if (!planned.ok()) return planned.error();
    return std::move(planned->training);
  }

  // The leading choices that are faster.
  size_t fast_rows() const {
    return std::count_if(rows_.begin(), rows_.end(), [](const RowChoice& choice) {
      return choice.compute_ns < choice.keep_ns;
    });
  }

  // The cost of the slow ones among the first `count` choices.
  double slow_ns(size_t count) const {
    double sum = 0;
    for (size_t i = fast_rows(); i < count; ++i) sum += rows_[i].compute_ns - rows_[i].keep_ns;
    return sum;
  }

  // From here on plans are for programs with the first `count` choices.
  Status use_rows(size_t count) {
    options_.by_rows = by_rows(graph_, rows_, count);
    options_.retention.clear();
    options_.arena_limit_bytes = kNoLimit;
    slow_ns_ = slow_ns(count);
    MANTISSA_ASSIGN(const Program kept, compile(graph_, options_, planning_));
    model_.emplace(graph_, kept, recompute_.profile, planning_.threads,
                   recompute_.instruction_bytes, recompute_.least_arena_bytes);
    return {};
  }

  // Packs the arena so that it takes no more than the limit, if that is possible.
  Result<Planned> with(const RetentionPlan& plan, int64_t limit_bytes = kNoLimit) {
    options_.arena_limit_bytes =
        limit_bytes - plan.outcome.recomputations * recompute_.instruction_bytes;
    options_.retention = model_->by_graph_value(plan.choice, graph_.values.size());
    MANTISSA_ASSIGN(Program program, compile(graph_, options_, planning_));
    std::vector<ValueDecision> decisions = explain(plan.choice, program);
    return Planned{{std::move(program), std::move(decisions)},
                   plan.choice,
                   plan.outcome.nanoseconds + slow_ns_};
  }

  // Begins with the plan that was found with other rows, if there is one.
  Result<Planned> within_with_rows(size_t count, int64_t limit_bytes,
                                   const Planned* other = nullptr) {
    MANTISSA_RETURN_IF_ERROR(use_rows(count));
    int64_t target = limit_bytes;
    MANTISSA_ASSIGN(RetentionPlan plan,
                    other ? plan_near(target, other->choice) : plan_within(target));
    for (int i = 1;; ++i) {
      MANTISSA_ASSIGN(Planned result, with(plan, limit_bytes));
      const int64_t above = takes(result.training.program) - limit_bytes;
      if (above <= 0 || plan.outcome.total_bytes > target) return result;
      if (i == kRowTries) return smallest_with_rows(limit_bytes);
      target -= std::max(above, i * (limit_bytes / 200));
      MANTISSA_ASSIGN(plan, plan_near(target, plan.choice));
    }
  }

  Result<Planned> smallest_with_rows(int64_t limit_bytes = kNoLimit) {
    if (recompute_.planner == Planner::kSearch) {
      return with(choose_smallest(*model_), limit_bytes);
    }
    MANTISSA_ASSIGN(const RetentionPlan plan, choose_exactly_smallest(*model_));
    return with(plan, limit_bytes);
  }

  // The bytes that count against the limit.
  int64_t takes(const Program& program) const {
    const auto again = std::count_if(program.instructions.begin(), program.instructions.end(),
                                     [](const Instruction& i) { return i.again; });
    return std::max(program.arena_bytes, recompute_.least_arena_bytes) +
           again * recompute_.instruction_bytes;
  }

  Result<RetentionPlan> plan_within(int64_t bytes) const {
    if (recompute_.planner == Planner::kSearch) return choose_within(*model_, bytes);
    return choose_exactly_within(*model_, bytes);
  }

  // From a choice for other rows, or for a little more.
  Result<RetentionPlan> plan_near(int64_t bytes, const std::vector<Retention>& choice) const {
    if (recompute_.planner == Planner::kSearch) return choose_near(*model_, bytes, choice);
    return choose_exactly_within(*model_, bytes);
  }

  std::vector<ValueDecision> explain(const std::vector<Retention>& choice,
                                     const Program& program) const {
    std::vector<ValueDecision> decisions =
        value_decisions(*model_, choice, program, recompute_.mode == RecomputeMode::kLiteral);
    explain_rows(decisions);
    return decisions;
  }

  // Appends one for each of rows_.
  void explain_rows(std::vector<ValueDecision>& decisions) const {
    for (const RowChoice& choice : rows_) {
      const bool kept = !options_.by_rows[choice.parameter];
      const bool slower = choice.compute_ns >= choice.keep_ns;
      decisions.push_back({.name = choice.name,
                           .is_gradient = true,
                           .bytes = choice.bytes,
                           .tier_bytes = choice.tier_bytes,
                           .keep_us = 1e-3 * choice.keep_ns,
                           .compute_us = 1e-3 * choice.compute_ns,
                           .recomputations = kept ? 0 : ops::kReadsOfGradient - 1,
                           .is_kept = kept,
                           .decision = kept ? "kept" : "computed by rows",
                           .reason = kept ? slower ? "loading it is faster" : "gradients are kept"
                                     : slower ? "memory is short"
                                              : "computing it is faster"});
    }
  }

  const Graph& graph_;
  ProgramOptions options_;
  PlanningContext planning_;
  RecomputeOptions recompute_;
  std::vector<RowChoice> rows_;
  double slow_ns_ = 0;  // of those that are used
  std::optional<RecomputeModel> model_;
};

}  // namespace

Result<TrainingProgram> compile_training(const Graph& graph, ProgramOptions options,
                                         const PlanningContext& planning,
                                         const RecomputeOptions& recompute) {
  TrainingCompiler compiler(graph, std::move(options), planning, recompute);
  switch (recompute.mode) {
    case RecomputeMode::kNone:
      return compiler.keep_everything();
    case RecomputeMode::kAll:
      return compiler.smallest();
    case RecomputeMode::kLiteral:
      return compiler.literally();
    case RecomputeMode::kAuto:
      break;
  }
  const int64_t limit = recompute.limit_bytes;
  return compiler.within(limit > 0 ? limit : kNoLimit);
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
