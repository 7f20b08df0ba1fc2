#include "plan/retention/retention.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>
#include <queue>
#include <random>
#include <utility>

#include "plan/retention/retention_evaluator.h"

namespace mantissa {
namespace {

using Outcome = RecomputeModel::Outcome;

constexpr Retention kStates[] = {Retention::kKept, Retention::kRecomputed,
                                 Retention::kRecomputedEachTime};
// After this many choices a search tries only changes of one value and of two.
constexpr int64_t kMostEvaluations = 100'000;
// After this many, times the values of each, no other search begins.
constexpr int64_t kManyValues = 20'000'000;
// Networks with more values than this are searched less thoroughly (Search::shortened).
constexpr int64_t kLarge = 512;
constexpr int64_t kNoCeiling = std::numeric_limits<int64_t>::max();

// The price of memory when a limit is to be met.
enum class Price : uint8_t { kTime, kNothing };

// A choice that is changed value by value.
class Search {
 public:
  // Adds to `evaluations` how many choices it tries.
  Search(const RecomputeModel& model, int64_t limit_bytes, std::vector<Retention> start,
         int64_t* evaluations)
      : model_(model),
        evaluator_(model),
        limit_(limit_bytes),
        choice_(std::move(start)),
        evaluations_(evaluations) {
    set_base();
    adopt(evaluate());
  }

  // Takes changes that cost no time until there is none.
  void descend() {
    while (improve_one()) {
    }
  }

  // The same with changes of one value and of two.
  void settle() {
    do descend();
    while (improve_two());
  }

  // Takes the change that costs the least time per byte saved above the limit, or the one that
  // saves the most, whatever it costs. Repeats this in rounds until nothing is above the limit, or
  // a round ends with `few` changes.
  void fit(Price price = Price::kTime, int few = 0) {
    price_ = price;
    while (outcome_.excess > 0 && save() > few) {
    }
  }

  // Keeps the limit, and takes faster choices: changes of one value, of two, and of one together
  // with changes that make room for it.
  void refine() {
    if (outcome_.excess > 0) return;
    do {
      settle();
    } while (improve_many(Price::kTime) || improve_many(Price::kNothing));
  }

  // Changes values at random (draw_change). Accepts a change that is better, or worse by less than
  // `threshold` of the costliest value's time, halved again and again (threshold accepting: Dueck
  // and Scheuer, 1990). Meanwhile the limit may be exceeded: a byte above it at one moment counts
  // `price` times the costliest value's time for each byte of the largest. All searches draw the
  // same numbers: the same network has the same plan.
  void anneal(double price, double threshold) {
    const int64_t steps = shortened(40'000), halved_after = shortened(3'000);
    std::vector<int> movable;
    double most_ns = 0, most_bytes = 1;
    for (int v = 0; v < values(); ++v) {
      const RecomputeModel::Value& value = model_.values()[v];
      if (!value.may_go) continue;
      movable.push_back(v);
      most_ns = std::max(most_ns, value.compute_ns);
      most_bytes = std::max(most_bytes, static_cast<double>(value.bytes));
    }
    if (movable.empty()) return;
    const auto cost = [&](double nanoseconds, int64_t excess) {
      return nanoseconds + price * most_ns / most_bytes * static_cast<double>(excess);
    };
    threshold *= most_ns;
    const auto is_taken = [&](double nanoseconds, int64_t excess) {
      return cost(nanoseconds, excess) - cost(outcome_.nanoseconds, outcome_.excess) < threshold;
    };
    for (int64_t step = 1; step <= steps; ++step) {
      if (draw_change(movable)) {
        if (const auto outcome = evaluate_if(is_taken)) {
          adopt(*outcome);
        } else {
          for (const auto& [v, state] : changed_) choice_[v] = state;
        }
      }
      if (step % halved_after == 0) threshold /= 2;
    }
  }

  RetentionPlan plan() const { return {choice_, outcome_}; }

 private:
  // The outcome of the choice, if is_good(its time, its excess). If a choice is not good, more time
  // or more excess does not make it good.
  template <typename IsGood>
  std::optional<Outcome> evaluate_if(const IsGood& is_good) {
    return outcome_if(evaluator_.nanoseconds(choice_), is_good);
  }
  // The same for a choice that differs from the evaluator's base in this value only.
  template <typename IsGood>
  std::optional<Outcome> evaluate_changed_if(int v, const IsGood& is_good) {
    return outcome_if(evaluator_.nanoseconds_with(v, choice_[v]), is_good);
  }
  template <typename IsGood>
  std::optional<Outcome> outcome_if(double nanoseconds, const IsGood& is_good) {
    ++*evaluations_;
    if (!is_good(nanoseconds, int64_t{0})) return std::nullopt;
    return evaluator_.outcome_if(limit_,
                                 [&](int64_t excess) { return is_good(nanoseconds, excess); });
  }
  Outcome evaluate() {
    return *evaluate_if([](double, int64_t) { return true; });
  }
  // Other choices are compared with this one.
  void set_base() {
    evaluator_.nanoseconds(choice_);
    evaluator_.set_base();
  }
  // Continues from the choice, which has this outcome and was evaluated last.
  void adopt(const Outcome& outcome) {
    outcome_ = outcome;
    evaluator_.set_base();
  }
  int values() const { return static_cast<int>(choice_.size()); }
  // A number of tries, less for large networks: a try takes longer, and there are more of them.
  int64_t shortened(int64_t tries) const {
    const int64_t size = std::max<int64_t>(kLarge, values());
    return std::max<int64_t>(1, tries * kLarge / size * kLarge / size * kLarge / size);
  }

  // Calls visit() with the value set to each other state, until that returns true: then it stays.
  template <typename Visit>
  bool try_states(int v, const Visit& visit) {
    if (!model_.values()[v].may_go || v == fixed_) return false;
    const Retention before = choice_[v];
    for (const Retention state : kStates) {
      if (state == before) continue;
      choice_[v] = state;
      if (visit()) return true;
    }
    choice_[v] = before;
    return false;
  }

  // Sets the value to another state if that is faster and no further above the limit.
  bool make_faster(int v) {
    return try_states(v, [&] {
      const auto outcome = evaluate_changed_if(v, [&](double nanoseconds, int64_t excess) {
        return nanoseconds < outcome_.nanoseconds && excess <= outcome_.excess;
      });
      if (outcome) adopt(*outcome);
      return outcome.has_value();
    });
  }

  bool improve_one() {
    bool any = false;
    for (int v = 0; v < values(); ++v) any |= make_faster(v);
    return any;
  }

  // A change of one value, and how much excess it saves for its cost in time.
  struct Change {
    double score = 0;
    int value = -1;
    Retention state = Retention::kKept;
    bool operator<(const Change& other) const { return score < other.score; }
  };

  // The value's best change; a score of 0: none saves anything.
  Change best_change(int v) {
    Change best{.value = v};
    const auto score = [&](double nanoseconds, int64_t excess) {
      const double longer = nanoseconds - outcome_.nanoseconds;
      const double paid = price_ == Price::kTime ? std::max(1.0, longer) : 1;
      return static_cast<double>(outcome_.excess - excess) / paid;
    };
    try_states(v, [&] {
      const auto outcome = evaluate_changed_if(v, [&](double nanoseconds, int64_t excess) {
        return score(nanoseconds, excess) > best.score;
      });
      if (outcome) best = {score(outcome->nanoseconds, outcome->excess), v, choice_[v]};
      return false;
    });
    return best;
  }

  // Makes changes from the best score down; returns how many. Each is scored anew before it is
  // made, since others have been made meanwhile: a score that is now below the next one goes back
  // into the queue. In large networks, after many of these, half the next score is good enough.
  int save() {
    std::priority_queue<Change> queue;
    for (int v = 0; v < values(); ++v) {
      if (const Change change = best_change(v); change.score > 0) queue.push(change);
    }
    const int64_t patience = shortened(kLarge);
    int64_t returned = 0;
    int changes = 0;
    while (!queue.empty() && outcome_.excess > 0) {
      const int v = queue.top().value;
      queue.pop();
      const Change change = best_change(v);
      if (change.score <= 0) continue;
      const double enough = returned < patience ? 1 : 0.5;
      if (!queue.empty() && change.score < enough * queue.top().score) {
        queue.push(change);
        ++returned;
        continue;
      }
      returned = 0;
      choice_[v] = change.state;
      adopt(evaluate());
      ++changes;
    }
    return changes;
  }

  // Values that may go, those that take the longest to compute first.
  std::vector<int> by_cost() const {
    std::vector<int> order;
    for (int v = 0; v < values(); ++v) {
      if (model_.values()[v].may_go) order.push_back(v);
    }
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      return model_.values()[a].compute_ns > model_.values()[b].compute_ns;
    });
    return order;
  }

  // Keeps values that are computed again, each in exchange for another one.
  bool improve_two() {
    bool any = false;
    for (const int v : by_cost()) {
      if (choice_[v] == Retention::kKept) continue;
      const Retention before = choice_[v];
      choice_[v] = Retention::kKept;
      set_base();
      const bool found = keep_in_place_of_another(v);
      if (!found) choice_[v] = before;
      any |= found;
    }
    set_base();
    return any;
  }

  bool keep_in_place_of_another(int v) {
    for (int other = 0; other < values(); ++other) {
      if (other == v || choice_[other] != Retention::kKept) continue;
      if (make_faster(other)) return true;
    }
    return false;
  }

  // Changes a value, whatever the effect, and then others so that it pays.
  bool improve_many(Price price) {
    bool any = false;
    for (const int v : by_cost()) {
      for (const Retention state : kStates) {
        if (*evaluations_ >= kMostEvaluations) return any;
        any |= state != choice_[v] && pays(v, state, price);
      }
    }
    return any;
  }

  // Whether the change makes it faster, after further changes to meet the limit; else nothing is
  // changed.
  bool pays(int v, Retention state, Price price) {
    const RetentionPlan before = plan();
    choice_[v] = state;
    adopt(evaluate());
    fixed_ = v;
    fit(price);
    if (outcome_.excess == 0) descend();
    fixed_ = -1;
    return keep_if_faster(before);
  }

  size_t draw(size_t below) { return random_() % below; }
  Retention drawn_state() { return kStates[draw(std::size(kStates))]; }

  // Changes a value, often also a later one, now and then a whole run to the same state; whether
  // this changes anything. Notes the old states in changed_.
  bool draw_change(const std::vector<int>& movable) {
    constexpr size_t kKinds = 16, kPairs = 4, kNear = 4, kLongestRun = 17;
    const size_t last = movable.size() - 1, at = draw(movable.size()), kind = draw(kKinds);
    changed_.clear();
    if (kind == 0) {
      const Retention state = drawn_state();
      const size_t end = std::min(last, at + 1 + draw(kLongestRun - 1));
      for (size_t i = at; i <= end; ++i) change(movable[i], state);
    } else {
      change(movable[at], drawn_state());
      if (kind <= kPairs && at < last) {
        change(movable[std::min(at + 1 + draw(kNear), last)], drawn_state());
      }
    }
    return !changed_.empty();
  }

  void change(int v, Retention state) {
    if (choice_[v] == state) return;
    changed_.emplace_back(v, choice_[v]);
    choice_[v] = state;
  }

  // Whether the changes since then made it faster; else they are undone.
  bool keep_if_faster(const RetentionPlan& before) {
    if (outcome_.excess == 0 && outcome_.nanoseconds < before.outcome.nanoseconds) return true;
    choice_ = before.choice;
    outcome_ = before.outcome;
    set_base();
    return false;
  }

  const RecomputeModel& model_;
  RetentionEvaluator evaluator_;
  int64_t limit_;
  std::vector<Retention> choice_;
  Outcome outcome_;
  int64_t* evaluations_;
  std::mt19937 random_;
  std::vector<std::pair<int, Retention>> changed_;  // by draw_change
  int fixed_ = -1;                                  // the value that is left as it is
  Price price_ = Price::kTime;
};

// Changes that pay for no further round of a search for the smallest plan.
int few_changes(const RecomputeModel& model) {
  const auto values = static_cast<int64_t>(model.values().size());
  return static_cast<int>(values * values / kLarge * values / kLarge / kLarge);
}

// Keeps `best`, or the result of a search that aims at the limit, if that is smaller.
void aim_at(const RecomputeModel& model, int64_t limit, const std::vector<Retention>& all,
            RetentionPlan& best) {
  int64_t evaluations = 0;
  for (const auto& [start, price] :
       {std::pair{all, Price::kTime}, {all, Price::kNothing}, {best.choice, Price::kNothing}}) {
    Search search(model, limit, start, &evaluations);
    search.fit(price, few_changes(model));
    RetentionPlan plan = search.plan();
    if (plan.outcome.total_bytes < best.outcome.total_bytes) best = std::move(plan);
  }
}

// Whether a random search for a part of the memory of `best` ends with less; `best` is then that.
bool find_smaller(const RecomputeModel& model, const std::vector<Retention>& all,
                  RetentionPlan& best, int64_t* evaluations) {
  constexpr double kAlmostOnlyMemory = 100;
  for (const std::vector<Retention>* start : {&std::as_const(best).choice, &all}) {
    for (const int percent : {90, 96}) {
      Search search(model, best.outcome.total_bytes / 100 * percent, *start, evaluations);
      search.anneal(kAlmostOnlyMemory, 0.3);
      search.fit(Price::kNothing, few_changes(model));
      RetentionPlan plan = search.plan();
      if (plan.outcome.total_bytes >= best.outcome.total_bytes) continue;
      best = std::move(plan);
      return true;
    }
  }
  return false;
}

// The fastest plan, however much memory it takes.
RetentionPlan descended(const RecomputeModel& model, const std::vector<Retention>& start) {
  int64_t evaluations = 0;
  Search search(model, kNoCeiling, start, &evaluations);
  search.descend();
  return search.plan();
}

// Searches in several ways, and keeps the fastest plan within the limit that it finds.
class SearchWithin {
 public:
  SearchWithin(const RecomputeModel& model, int64_t limit_bytes)
      : model_(model), limit_(limit_bytes) {}

  void from(const std::vector<Retention>& start) {
    Search search(model_, limit_, start, &evaluations_);
    search.descend();
    finish(search);
  }

  void at_random(const std::vector<Retention>& start, int64_t most_values) {
    Search search(model_, limit_, start, &evaluations_);
    for (int round = 0; round < 2; ++round) {
      for (const auto& [price, threshold] : {std::pair{3., .3}, {10., .1}, {3., .1}, {10., .3}}) {
        if (evaluations_ * static_cast<int64_t>(start.size()) >= most_values) return;
        search.anneal(price, threshold);
        finish(search);
      }
    }
  }

  const std::optional<RetentionPlan>& best() const { return best_; }

 private:
  void finish(Search& search) {
    search.fit();
    search.refine();
    RetentionPlan plan = search.plan();
    if (plan.outcome.excess > 0) return;
    if (!best_ || plan.outcome.nanoseconds < best_->outcome.nanoseconds) best_ = std::move(plan);
  }

  const RecomputeModel& model_;
  int64_t limit_;
  int64_t evaluations_ = 0;
  std::optional<RetentionPlan> best_;
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

RetentionPlan choose_smallest(const RecomputeModel& model) {
  const std::vector<Retention> all = keep_all(model);
  RetentionPlan best{all, model.evaluate(all, kNoCeiling)};
  int64_t too_small = 0;
  while (best.outcome.total_bytes - too_small > 1 + best.outcome.total_bytes / 100) {
    const int64_t limit = too_small + (best.outcome.total_bytes - too_small) / 2;
    aim_at(model, limit, all, best);
    if (best.outcome.total_bytes > limit) too_small = limit;
  }
  int64_t evaluations = 0;
  while (evaluations * static_cast<int64_t>(all.size()) < 2 * kManyValues &&
         find_smaller(model, all, best, &evaluations)) {
  }
  return best;
}

namespace {

// The smallest plan, found as a plan for a limit that it may exceed.
RetentionPlan smallest_for(const RecomputeModel& model, int64_t limit_bytes) {
  const RetentionPlan smallest = choose_smallest(model);
  return {smallest.choice, model.evaluate(smallest.choice, limit_bytes)};
}

}  // namespace

RetentionPlan choose_within(const RecomputeModel& model, int64_t limit_bytes) {
  const std::vector<Retention> all = keep_all(model);
  if (limit_bytes == kNoCeiling) return descended(model, all);
  if (limit_bytes < model.bound_bytes()) return smallest_for(model, limit_bytes);
  SearchWithin search(model, limit_bytes);
  search.from(all);
  search.at_random(all, kManyValues);
  if (search.best()) return *search.best();
  const RetentionPlan smallest = smallest_for(model, limit_bytes);
  search.from(smallest.choice);
  return search.best() ? *search.best() : smallest;
}

RetentionPlan choose_near(const RecomputeModel& model, int64_t limit_bytes,
                          const std::vector<Retention>& near) {
  constexpr int64_t kFewValues = kManyValues / 5;
  SearchWithin search(model, limit_bytes);
  if (limit_bytes >= model.bound_bytes()) search.at_random(near, kFewValues);
  return search.best() ? *search.best() : choose_within(model, limit_bytes);
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
    if (kept_in && load_in + value.near_compute_ns < value.keep_ns / 2) {
      choice[v] = Retention::kRecomputed;
    }
  }
  return {choice, model.evaluate(choice, kNoCeiling)};
}

}  // namespace mantissa
