// The choice of kept values as a mixed integer programme.
//
// Stage t of the backward pass is the t-th instruction that reads values. For each value v:
//   kept[v], each[v]: its state; neither: computed again once
//   again[t, v]: it is computed again before the read of stage t, after what it is computed from
//   held[t, v]: it is there from before stage t on, for that stage or a later one
// Given the states, the others follow: only states need be integers. The bytes alive at a moment
// are linear in these, as in Checkmate (Jain et al., MLSys 2020). Its schedules are more general: a
// value there may come and go any number of times.
#include "plan/retention/exact_retention.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "plan/retention/integer_program.h"

namespace mantissa {
namespace {

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();
constexpr double kUnbounded = std::numeric_limits<double>::max();

enum class Goal : uint8_t { kTime, kBytes };

class Formulation {
 public:
  // Minimises the time within a limit, or the bytes, as a share of the limit.
  Formulation(const RecomputeModel& model, Goal goal, int64_t limit_bytes)
      : model_(model),
        values_(model.values()),
        reads_(model.reads()),
        stages_(static_cast<int>(reads_.size())),
        goal_(goal),
        limit_(static_cast<double>(limit_bytes)) {
    find_consumers();
    find_needs();
    add_states();
    add_stages();
    for (int t = 0; t < stages_; ++t) constrain_stage(t);
    constrain_counts();
    constrain_memory();
  }

  const IntegerProgram& program() const { return program_; }

  // The choice of a solution.
  std::vector<Retention> choice(const std::vector<double>& solution) const {
    std::vector<Retention> choice;
    for (int v = 0; v < count(); ++v) {
      choice.push_back(solution[kept_[v]] > 0.5   ? Retention::kKept
                       : solution[each_[v]] > 0.5 ? Retention::kRecomputedEachTime
                                                  : Retention::kRecomputed);
    }
    return choice;
  }

 private:
  static constexpr int kNone = -1;
  using Terms = std::vector<IntegerProgram::Term>;

  int count() const { return static_cast<int>(values_.size()); }
  double bytes(int v) const { return static_cast<double>(values_[v].bytes); }

  int add(double cost = 0, bool integer = false) {
    program_.variables.push_back({.cost = cost, .integer = integer});
    return static_cast<int>(program_.variables.size()) - 1;
  }
  int add_time(double nanoseconds) { return add(goal_ == Goal::kTime ? nanoseconds : 0); }

  // Terms whose variable does not exist are left out; terms of the same variable are added up.
  void at_most(double most, const Terms& terms) {
    std::map<int, double> factors;
    for (const auto& [variable, factor] : terms) {
      if (variable != kNone) factors[variable] += factor;
    }
    Terms sum;
    for (const auto& [variable, factor] : factors) sum.push_back({variable, factor});
    if (!sum.empty() || most < 0) program_.constraints.push_back({std::move(sum), most});
  }
  // a <= b. A missing term is 0.
  void order(int a, int b) {
    if (a != kNone && a != b) at_most(0, {{a, 1}, {b, -1}});
  }

  void find_consumers() {
    consumers_.resize(values_.size());
    for (int v = 0; v < count(); ++v) {
      for (const int input : values_[v].inputs) {
        auto& all = consumers_[input];
        if (all.empty() || all.back() != v) all.push_back(v);
      }
    }
  }

  // The values that a stage may need: those it reads, and the values that these depend on.
  void find_needs() {
    last_stage_.assign(values_.size(), kNone);
    for (int t = 0; t < stages_; ++t) {
      std::vector<bool> needs(values_.size(), false), reads(values_.size(), false);
      for (const int v : reads_[t].values) needs[v] = reads[v] = true;
      for (int v = count() - 1; v >= 0; --v) {
        if (!needs[v]) continue;
        last_stage_[v] = t;
        if (!values_[v].may_go) continue;
        for (const int input : values_[v].inputs) needs[input] = true;
      }
      needs_.push_back(needs);
      reads_value_.push_back(reads);
    }
  }

  void add_states() {
    for (int v = 0; v < count(); ++v) {
      kept_.push_back(add(0, true));
      each_.push_back(add(0, true));
      at_most(1, {{kept_[v], 1}, {each_[v], 1}});
      if (!values_[v].may_go) program_.variables[kept_[v]].least = 1;
    }
  }

  void add_stages() {
    again_.assign(stages_, std::vector<int>(values_.size(), kNone));
    held_.assign(stages_ + 1, std::vector<int>(values_.size(), kNone));
    for (int v = 0; v < count(); ++v) {
      const RecomputeModel::Value& value = values_[v];
      for (int t = 0; t <= last_stage_[v]; ++t) {
        held_[t][v] = t == 0 ? add_time(value.keep_ns) : add();
        if (t < stages_ && needs_[t][v] && value.may_go) again_[t][v] = add_time(value.compute_ns);
      }
      order(held_[0][v], kept_[v]);
    }
  }

  void constrain_stage(int t) {
    for (int v = 0; v < count(); ++v) {
      const int again = again_[t][v], held = held_[t][v], next = held_[t + 1][v];
      if (next != kNone) {
        at_most(0, {{next, 1}, {held, -1}, {again, -1}});
        if (reads_[t].ends_node) at_most(1, {{next, 1}, {each_[v], 1}});
      }
      if (!needs_[t][v]) continue;
      // It is there if it is needed, and is computed again nowhere else.
      if (reads_value_[t][v]) at_most(-1, {{held, -1}, {again, -1}});
      Terms reasons = {{again, 1}};
      for (const int w : consumers_[v]) {
        if (again_[t][w] == kNone) continue;
        at_most(0, {{again_[t][w], 1}, {held, -1}, {again, -1}});
        reasons.push_back({again_[t][w], -1});
      }
      if (again == kNone) continue;
      at_most(1, {{again, 1}, {kept_[v], 1}});
      if (!reads_value_[t][v]) at_most(0, reasons);
    }
  }

  // Once in a node, and once at all unless it is computed each time.
  void constrain_counts() {
    for (int v = 0; v < count(); ++v) {
      Terms all, node;
      int nodes = 0;
      for (int t = 0; t < stages_; ++t) {
        if (again_[t][v] != kNone) node.push_back({again_[t][v], 1});
        if (node.empty() || (!reads_[t].ends_node && t + 1 < stages_)) continue;
        all.insert(all.end(), node.begin(), node.end());
        at_most(1, std::exchange(node, {}));
        ++nodes;
      }
      if (nodes == 0) continue;
      all.push_back({each_[v], static_cast<double>(1 - nodes)});
      at_most(1, all);
    }
  }

  void constrain_memory() {
    if (goal_ == Goal::kTime && limit_ >= static_cast<double>(kUnlimited)) return;
    if (goal_ == Goal::kBytes) {
      peak_ = add(1);
      program_.variables[peak_].most = kUnbounded;
    }
    if (model_.instruction_bytes() > 0) count_recomputations();
    limit_forward();
    limit_between(0, model_.first_backward());
    for (int t = 0; t < stages_; ++t) {
      limit_computing(t);
      limit_read(t);
      limit_between(t + 1, reads_[t].instruction + 1);
    }
  }

  void count_recomputations() {
    recomputations_ = add();
    program_.variables[recomputations_].most = kUnbounded;
    Terms terms = {{recomputations_, -1}};
    for (const auto& stage : again_) {
      for (const int again : stage) terms.push_back({again, 1});
    }
    at_most(0, terms);
  }

  // Limits the memory of a moment: `fixed` bytes, and the bytes of the terms.
  void limit_bytes(int64_t fixed, Terms live) {
    live.push_back({recomputations_, static_cast<double>(model_.instruction_bytes())});
    for (IntegerProgram::Term& term : live) term.factor /= limit_;
    live.push_back({peak_, -1});
    at_most((peak_ == kNone ? 1 : 0) - static_cast<double>(fixed) / limit_, live);
  }

  void limit_forward() {
    for (int m = 0; m < model_.first_backward(); ++m) {
      int64_t fixed = model_.bytes_during()[m];
      Terms live;
      for (int v = 0; v < count(); ++v) {
        if (values_[v].forward > m) continue;
        if (m <= values_[v].last_forward) {
          fixed += values_[v].bytes;
        } else if (last_stage_[v] != kNone) {
          live.push_back({held_[0][v], bytes(v)});
        }
      }
      limit_bytes(fixed, live);
    }
  }

  // Limits the memory while the instructions before stage t run, from `begin` on.
  void limit_between(int t, int begin) {
    const auto& during = model_.bytes_during();
    const int end = t < stages_ ? reads_[t].instruction : static_cast<int>(during.size());
    if (begin >= end) return;
    Terms live;
    for (int v = 0; v < count(); ++v) live.push_back({held_[t][v], bytes(v)});
    limit_bytes(*std::max_element(during.begin() + begin, during.begin() + end), live);
  }

  void limit_read(int t) {
    int64_t fixed = model_.bytes_during()[reads_[t].instruction];
    Terms live;
    for (int v = 0; v < count(); ++v) {
      if (reads_value_[t][v]) {
        fixed += values_[v].bytes;
      } else {
        live.push_back({held_[t + 1][v], bytes(v)});
      }
    }
    limit_bytes(fixed, live);
  }

  // Moments at which stage t may compute k again, for all k. If a moment does not occur, it has no
  // more bytes alive than the next one that does.
  void limit_computing(int t) {
    // By value: its consumers in this stage, and the variables that say that one of them, or
    // something after it, needs the value.
    struct Want {
      std::vector<int> by, variable;
    };
    std::vector<Want> wants(values_.size());
    for (int v = 0; v < count(); ++v) {
      if (reads_value_[t][v]) continue;
      Want& want = wants[v];
      for (const int w : consumers_[v]) {
        if (again_[t][w] != kNone) want.by.push_back(w);
      }
      int after = held_[t + 1][v];
      for (size_t i = want.by.size(); i-- > 0;) {
        const int by = again_[t][want.by[i]];
        if (after == kNone) {
          after = by;
        } else {
          const int before = add(0);
          order(by, before);
          order(after, before);
          after = before;
        }
        want.variable.insert(want.variable.begin(), after);
      }
    }
    for (int k = 0; k < count(); ++k) {
      if (again_[t][k] == kNone) continue;
      int64_t fixed = model_.bytes_before()[reads_[t].instruction];
      Terms live = {{again_[t][k], static_cast<double>(values_[k].transient_bytes)}};
      for (int v = 0; v < count(); ++v) {
        if (v > k) {
          live.push_back({held_[t][v], bytes(v)});
        } else if (reads_value_[t][v]) {
          fixed += values_[v].bytes;
        } else {
          const Want& want = wants[v];
          const auto next = std::lower_bound(want.by.begin(), want.by.end(), k) - want.by.begin();
          const bool is_wanted = next < static_cast<ptrdiff_t>(want.by.size());
          live.push_back({is_wanted ? want.variable[next] : held_[t + 1][v], bytes(v)});
        }
      }
      limit_bytes(fixed, live);
    }
  }

  const RecomputeModel& model_;
  const std::vector<RecomputeModel::Value>& values_;
  const std::vector<RecomputeModel::Read>& reads_;
  int stages_;
  Goal goal_;
  double limit_;
  std::vector<std::vector<int>> consumers_;             // by value, ascending
  std::vector<std::vector<bool>> needs_, reads_value_;  // by stage and value
  std::vector<int> last_stage_;                         // by value: the last that may need it
  IntegerProgram program_;
  // Variables; kNone: always 0.
  int peak_ = kNone, recomputations_ = kNone;
  std::vector<int> kept_, each_;                // by value
  std::vector<std::vector<int>> again_, held_;  // by stage and value
};

// The choice that the solver finds if its cost is below the one given.
Result<std::optional<std::vector<Retention>>> find_below(double cost,
                                                         const Formulation& formulation) {
  MANTISSA_ASSIGN(const auto solution, solve(formulation.program(),
                                             {.cutoff = cost * (1 - kExactGap), .gap = kExactGap}));
  std::optional<std::vector<Retention>> choice;
  if (solution) choice = formulation.choice(*solution);
  return choice;
}

}  // namespace

Result<RetentionPlan> improve_exactly(const RecomputeModel& model, int64_t limit_bytes,
                                      const std::vector<Retention>& known) {
  const RetentionPlan best{known, model.evaluate(known, limit_bytes)};
  int64_t target = limit_bytes;
  for (int64_t step = 1;; step *= 2) {
    const Formulation formulation(model, Goal::kTime, target);
    MANTISSA_ASSIGN(const auto choice, find_below(best.outcome.nanoseconds, formulation));
    if (!choice) return best;
    const RetentionPlan plan{*choice, model.evaluate(*choice, limit_bytes)};
    if (plan.outcome.excess == 0) {
      return plan.outcome.nanoseconds < best.outcome.nanoseconds ? plan : best;
    }
    // The solver's tolerance let some bytes through.
    target -= std::max(step, plan.outcome.total_bytes - limit_bytes);
  }
}

Result<RetentionPlan> choose_exactly_within(const RecomputeModel& model, int64_t limit_bytes) {
  RetentionPlan known = choose_within(model, limit_bytes);
  if (known.outcome.excess > 0) {
    MANTISSA_ASSIGN(known, choose_exactly_smallest(model));
    known.outcome = model.evaluate(known.choice, limit_bytes);
    if (known.outcome.excess > 0) return known;
  }
  return improve_exactly(model, limit_bytes, known.choice);
}

Result<RetentionPlan> choose_exactly_smallest(const RecomputeModel& model) {
  const RetentionPlan found = choose_smallest(model);
  const Formulation formulation(model, Goal::kBytes, found.outcome.total_bytes);
  MANTISSA_ASSIGN(const auto choice, find_below(1, formulation));
  if (!choice) return found;
  const RetentionPlan plan{*choice, model.evaluate(*choice, kUnlimited)};
  return plan.outcome.total_bytes < found.outcome.total_bytes ? plan : found;
}

}  // namespace mantissa
