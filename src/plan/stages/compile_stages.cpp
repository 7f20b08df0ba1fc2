#include "plan/stages/compile_stages.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "plan/passes/compile_passes.h"
#include "plan/retention/recompute_model.h"
#include "plan/retention/retention.h"

namespace mantissa {
namespace {

// A model counts the bytes alive at once; arenas have gaps, and gradients wait for grad_weights.
constexpr int kTries = 8;

// The program of a stage for one micro-batch, in the order of the program.
Program part_of(const Program& program, const StagePlan& stage) {
  Program part = program;
  std::vector<int> instructions = stage.instructions();
  std::ranges::sort(instructions);
  part.instructions.clear();
  std::vector<bool> used(program.buffers.size(), false);
  for (const int i : instructions) {
    part.instructions.push_back(program.instructions[i]);
    for_each_buffer(program.instructions[i], [&](int buffer) { used[buffer] = true; });
  }
  for (size_t b = 0; b < used.size(); ++b) {
    if (!used[b]) part.buffers[b].bytes = 0;
  }
  find_lifetimes(part);
  return part;
}

InFlight in_flight_of(const StagePlan& stage, std::vector<bool> stays) {
  std::vector<int> instructions = stage.instructions();
  std::ranges::sort(instructions);
  const std::set<int> apart(stage.grad_weights.begin(), stage.grad_weights.end());
  InFlight in_flight{.window = stage.window, .stays = std::move(stays)};
  for (const int i : instructions) in_flight.apart.push_back(apart.contains(i));
  return in_flight;
}

class StagesCompiler {
 public:
  StagesCompiler(const Graph& graph, const Program& kept, const PlanningContext& planning,
                 const RecomputeOptions& recompute, const StateLayout& layout,
                 std::span<const int> stage_of, const pipeline::Schedule& schedule,
                 const StageLimits& limits)
      : graph_(graph),
        kept_(kept),
        planning_(planning),
        recompute_(recompute),
        layout_(layout),
        stage_of_(stage_of),
        schedule_(schedule),
        limits_(limits) {}

  Result<StagesProgram> run() {
    MANTISSA_ASSIGN(PipelinePlan plan, plan_stages(graph_, kept_, layout_, stage_of_, schedule_));
    most_ = {kept_, std::move(plan), {}};
    make_models();
    choose_all([](const RecomputeModel& model) { return keep_all(model); });
    explain(most_);
    switch (recompute_.mode) {
      case RecomputeMode::kNone:
        return most_;
      case RecomputeMode::kLiteral:
        choose_all([](const RecomputeModel& model) { return choose_literally(model).choice; });
        return compiled();
      case RecomputeMode::kAll:
        return smallest();
      case RecomputeMode::kAuto:
        break;
    }
    return within();
  }

 private:
  using Choices = std::vector<std::vector<Retention>>;  // by stage, then value of its model

  void make_models() {
    const std::vector<bool> stays = passed_values(graph_, kept_, stage_of_);
    for (const StagePlan& stage : most_.plan.stages) {
      models_.emplace_back(graph_, part_of(kept_, stage), recompute_.profile, planning_.threads,
                           limits_.instruction_bytes + stage.window * limits_.micro_batch_bytes, 0,
                           in_flight_of(stage, stays));
    }
    choices_.resize(models_.size());
  }

  template <typename Choose>
  void choose_all(const Choose& choose) {
    for (size_t s = 0; s < models_.size(); ++s) choices_[s] = choose(models_[s]);
  }

  Result<StagesProgram> compiled() const {
    ProgramOptions options = kept_.options;
    options.retention.assign(graph_.values.size(), Retention::kKept);
    for (size_t s = 0; s < models_.size(); ++s) {
      for (size_t v = 0; v < choices_[s].size(); ++v) {
        const RecomputeModel::Value& value = models_[s].values()[v];
        if (value.may_go) options.retention[value.value] = choices_[s][v];
      }
    }
    StagesProgram made;
    MANTISSA_ASSIGN(made.program, compile(graph_, options, planning_));
    MANTISSA_ASSIGN(made.plan, plan_stages(graph_, made.program, layout_, stage_of_, schedule_));
    explain(made);
    return made;
  }

  void explain(StagesProgram& made) const {
    for (size_t s = 0; s < models_.size(); ++s) {
      const auto of_stage = value_decisions(models_[s], choices_[s], made.program,
                                            recompute_.mode == RecomputeMode::kLiteral);
      for (size_t v = 0; v < of_stage.size(); ++v) {
        const bool is_received = models_[s].values()[v].is_received;
        if (!is_received) made.decisions.push_back(of_stage[v]);
      }
    }
  }

  std::vector<int64_t> takes(const StagesProgram& made) const {
    std::vector<int64_t> bytes;
    for (const StagePlan& stage : made.plan.stages) {
      bytes.push_back(stage_takes(made.program, stage, limits_));
    }
    return bytes;
  }

  bool fits(const std::vector<int64_t>& bytes) const {
    for (size_t s = 0; s < limits_.bytes.size(); ++s) {
      if (bytes[s] > limits_.bytes[s]) return false;
    }
    return std::reduce(bytes.begin(), bytes.end()) <= limits_.all_bytes;
  }

  // Each stage's limit: its own, and the same part of its possible savings by computing again, so
  // that all together stay within theirs.
  std::vector<int64_t> shares(const std::vector<int64_t>& most,
                              const std::vector<int64_t>& least) const {
    std::vector<int64_t> share = most;
    for (size_t s = 0; s < limits_.bytes.size(); ++s) {
      share[s] = std::max(least[s], std::min(share[s], limits_.bytes[s]));
    }
    const int64_t all_most = std::reduce(share.begin(), share.end());
    const int64_t all_least = std::reduce(least.begin(), least.end());
    if (all_most <= limits_.all_bytes) return share;
    constexpr int64_t kParts = 1 << 16;
    const int64_t part = (limits_.all_bytes - all_least) / ((all_most - all_least) / kParts + 1);
    for (size_t s = 0; s < share.size(); ++s) {
      share[s] = least[s] + (share[s] - least[s]) * part / kParts;
    }
    return share;
  }

  // Keeps everything if computing again takes more.
  Result<StagesProgram> smallest() {
    choose_all([](const RecomputeModel& model) { return choose_smallest(model).choice; });
    MANTISSA_ASSIGN(StagesProgram made, compiled());
    const std::vector<int64_t> most = takes(most_), bytes = takes(made);
    bool is_better = true;
    for (size_t s = 0; s < models_.size(); ++s) {
      if (bytes[s] < most[s]) continue;
      choices_[s] = keep_all(models_[s]);
      is_better = false;
    }
    return is_better ? made : compiled();
  }

  // The smallest first: if that is too large there is nothing to share.
  Result<StagesProgram> within() {
    const std::vector<int64_t> most = takes(most_);
    if (fits(most)) return most_;
    MANTISSA_ASSIGN(StagesProgram least, smallest());
    const Choices least_choices = choices_;
    const std::vector<int64_t> least_bytes = takes(least);
    if (!fits(least_bytes)) return least;
    const std::vector<int64_t> share = shares(most, least_bytes);
    for (size_t s = 0; s < models_.size(); ++s) aim(s, most[s], share[s]);
    for (int i = 0; i < kTries; ++i) {
      MANTISSA_ASSIGN(StagesProgram made, compiled());
      const std::vector<int64_t> bytes = takes(made);
      if (fits(bytes)) return made;
      for (size_t s = 0; s < models_.size(); ++s) {
        const int64_t above = bytes[s] - share[s];
        if (above <= 0) continue;
        targets_[s] -= std::max(above, share[s] / 200);
        choices_[s] = i + 2 >= kTries ? least_choices[s]
                                      : choose_near(models_[s], targets_[s], choices_[s]).choice;
      }
    }
    return least;
  }

  // A first choice for the share. Models do not see everything in a stage's arena. The correction
  // is their error when everything is kept.
  void aim(size_t s, int64_t most, int64_t share) {
    targets_.resize(models_.size());
    const std::vector<Retention> all = keep_all(models_[s]);
    if (share >= most) {
      choices_[s] = all;
      return;
    }
    const int64_t unseen = most - models_[s].evaluate(all, StageLimits::kNone).total_bytes;
    targets_[s] = share - unseen;
    choices_[s] = choose_near(models_[s], targets_[s], all).choice;
  }

  const Graph& graph_;
  const Program& kept_;
  const PlanningContext& planning_;
  const RecomputeOptions& recompute_;
  const StateLayout& layout_;
  std::span<const int> stage_of_;
  const pipeline::Schedule& schedule_;
  const StageLimits& limits_;
  StagesProgram most_;  // keeps everything
  std::vector<RecomputeModel> models_;
  Choices choices_;
  std::vector<int64_t> targets_;  // of the models, by stage
};

}  // namespace

int64_t stage_takes(const Program& program, const StagePlan& stage, const StageLimits& limits) {
  int64_t again = 0;
  for (const int i : stage.instructions()) {
    if (program.instructions[i].again) ++again;
  }
  return stage.arena_bytes() +
         again * (limits.instruction_bytes + stage.window * limits.micro_batch_bytes);
}

Result<StagesProgram> compile_stages(const Graph& graph, const Program& kept,
                                     const PlanningContext& planning,
                                     const RecomputeOptions& recompute, const StateLayout& layout,
                                     std::span<const int> stage_of,
                                     const pipeline::Schedule& schedule,
                                     const StageLimits& limits) {
  return StagesCompiler(graph, kept, planning, recompute, layout, stage_of, schedule, limits).run();
}

}  // namespace mantissa
