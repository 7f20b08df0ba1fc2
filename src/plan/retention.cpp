#include "plan/retention.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <queue>
#include <utility>

namespace mantissa {
namespace {

using Outcome = RecomputeModel::Outcome;

constexpr Retention kStates[] = {Retention::kKept, Retention::kRecomputed,
                                 Retention::kRecomputedEachTime};
constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

// What memory is paid for with when a limit is to be met.
enum class Price : uint8_t { kTime, kNothing };

// A choice that is changed value by value.
class Search {
 public:
  Search(const RecomputeModel& model, int64_t limit_bytes, std::vector<Retention> start)
      : model_(model), limit_(limit_bytes), choice_(std::move(start)) {
    outcome_ = evaluate();
  }

  // Takes changes that cost no time until there is none.
  void descend() {
    while (improve_one()) {
    }
  }

  // Takes the change that costs the least time for the memory above the limit that it saves, or the
  // one that saves the most whatever it costs, until nothing is above the limit or no change saves
  // any.
  void fit(Price price = Price::kTime) {
    price_ = price;
    while (outcome_.excess > 0 && save()) {
    }
  }

  // Keeps the limit, and takes what is faster: changes of one value, and of two.
  void refine() {
    if (outcome_.excess > 0) return;
    do descend();
    while (improve_two());
  }

  RetentionPlan plan() const { return {choice_, outcome_}; }

 private:
  Outcome evaluate() const { return model_.evaluate(choice_, limit_); }
  int values() const { return static_cast<int>(choice_.size()); }

  // Calls visit(outcome) with the value set to each other state; keeps the one it returns true of.
  template <typename Visit>
  bool try_states(int v, const Visit& visit) {
    if (!model_.values()[v].may_go) return false;
    const Retention before = choice_[v];
    for (const Retention state : kStates) {
      if (state == before) continue;
      choice_[v] = state;
      const Outcome outcome = evaluate();
      if (visit(outcome)) {
        outcome_ = outcome;
        return true;
      }
    }
    choice_[v] = before;
    return false;
  }

  bool is_faster(const Outcome& outcome) const {
    return outcome.excess <= outcome_.excess && outcome.nanoseconds < outcome_.nanoseconds;
  }

  bool improve_one() {
    bool any = false;
    for (int v = 0; v < values(); ++v) {
      any |= try_states(v, [&](const Outcome& outcome) { return is_faster(outcome); });
    }
    return any;
  }

  // A change of one value, and the excess that it saves for the time that it costs.
  struct Change {
    double score = 0;
    int value = -1;
    Retention state = Retention::kKept;
    bool operator<(const Change& other) const { return score < other.score; }
  };

  // The value's best change; a score of 0: none saves anything.
  Change best_change(int v) {
    Change best{.value = v};
    try_states(v, [&](const Outcome& outcome) {
      const auto saved = static_cast<double>(outcome_.excess - outcome.excess);
      const double longer = outcome.nanoseconds - outcome_.nanoseconds;
      const double paid = price_ == Price::kTime ? std::max(1.0, longer) : 1;
      if (saved / paid > best.score) best = {saved / paid, v, choice_[v]};
      return false;
    });
    return best;
  }

  // Makes changes from the best score down, each scored anew before it is made, as others have been
  // made since: an outdated score that is below the next one goes back into the queue.
  bool save() {
    std::priority_queue<Change> queue;
    for (int v = 0; v < values(); ++v) {
      if (const Change change = best_change(v); change.score > 0) queue.push(change);
    }
    bool any = false;
    while (!queue.empty() && outcome_.excess > 0) {
      const int v = queue.top().value;
      queue.pop();
      const Change change = best_change(v);
      if (change.score <= 0) continue;
      if (!queue.empty() && change < queue.top()) {
        queue.push(change);
        continue;
      }
      choice_[v] = change.state;
      outcome_ = evaluate();
      any = true;
    }
    return any;
  }

  // Keeps values that are computed again, each in place of another.
  bool improve_two() {
    std::vector<int> order(choice_.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      return model_.values()[a].compute_ns > model_.values()[b].compute_ns;
    });
    bool any = false;
    for (const int v : order) {
      if (choice_[v] == Retention::kKept) continue;
      const Retention before = choice_[v];
      choice_[v] = Retention::kKept;
      const bool found = keep_in_place_of_another(v);
      if (!found) choice_[v] = before;
      any |= found;
    }
    return any;
  }

  bool keep_in_place_of_another(int v) {
    for (int other = 0; other < values(); ++other) {
      if (other == v || choice_[other] != Retention::kKept) continue;
      if (try_states(other, [&](const Outcome& outcome) { return is_faster(outcome); })) {
        return true;
      }
    }
    return false;
  }

  const RecomputeModel& model_;
  int64_t limit_;
  std::vector<Retention> choice_;
  Outcome outcome_;
  Price price_ = Price::kTime;
};

}  // namespace

std::vector<Retention> keep_all(const RecomputeModel& model) {
  std::vector<Retention> choice;
  for (const RecomputeModel::Value& value : model.values()) {
    const bool keeps = value.read_backward || !value.may_go;
    choice.push_back(keeps ? Retention::kKept : Retention::kRecomputed);
  }
  return choice;
}

RetentionPlan choose_within(const RecomputeModel& model, int64_t limit_bytes) {
  Search search(model, limit_bytes, keep_all(model));
  search.descend();
  search.fit();
  search.refine();
  if (search.plan().outcome.excess == 0) return search.plan();
  Search from_smallest(model, limit_bytes, choose_smallest(model).choice);
  from_smallest.refine();
  return from_smallest.plan();
}

namespace {

// Keeps `best`, or what a search that aims at the limit ends with, if that is smaller.
void aim_at(const RecomputeModel& model, int64_t limit, const std::vector<Retention>& all,
            RetentionPlan& best) {
  for (const auto& [start, price] :
       {std::pair{all, Price::kTime}, {all, Price::kNothing}, {best.choice, Price::kNothing}}) {
    Search search(model, limit, start);
    search.fit(price);
    RetentionPlan plan = search.plan();
    if (plan.outcome.total_bytes < best.outcome.total_bytes) best = std::move(plan);
  }
}

}  // namespace

RetentionPlan choose_smallest(const RecomputeModel& model) {
  const std::vector<Retention> all = keep_all(model);
  RetentionPlan best{all, model.evaluate(all, kNoLimit)};
  int64_t too_small = 0;
  while (best.outcome.total_bytes - too_small > 1 + best.outcome.total_bytes / 100) {
    const int64_t limit = too_small + (best.outcome.total_bytes - too_small) / 2;
    aim_at(model, limit, all, best);
    if (best.outcome.total_bytes > limit) too_small = limit;
  }
  return best;
}

RetentionPlan choose_literally(const RecomputeModel& model) {
  std::vector<Retention> choice = keep_all(model);
  for (size_t v = 0; v < choice.size(); ++v) {
    const RecomputeModel::Value& value = model.values()[v];
    if (!value.may_go || !value.read_backward || value.inputs.empty()) continue;
    double load_in = 0;
    bool kept_in = true;
    for (const int input : value.inputs) {
      load_in += model.values()[input].keep_ns / 2;
      kept_in &= choice[input] == Retention::kKept;
    }
    if (kept_in && load_in + value.compute_ns < value.keep_ns / 2) {
      choice[v] = Retention::kRecomputed;
    }
  }
  return {choice, model.evaluate(choice, kNoLimit)};
}

}  // namespace mantissa
