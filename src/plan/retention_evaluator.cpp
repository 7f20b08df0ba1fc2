#include "plan/retention_evaluator.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>

namespace mantissa {

// A step under a choice: first what is computed again, and when, from sets of values (bits of
// words); then, moment by moment, the bytes that are alive. An instruction of the program is a
// moment, computing a value again is another. What it needs of the model lies close together here,
// and its lists keep their memory: planners try a hundred thousand choices.
class RetentionEvaluator::Course {
 public:
  explicit Course(const RecomputeModel& model)
      : during_(model.bytes_during()),
        first_backward_(model.first_backward()),
        held_until_(model.held_until()),
        instruction_bytes_(model.instruction_bytes()),
        words_(static_cast<int>(model.values().size()) / kWordBits + 1),
        written_forward_(during_.size() + 1, 0),
        choice_(model.values().size(), Retention::kRecomputed),
        kept_(words_),
        each_time_(words_),
        there_(words_),
        wanted_(words_),
        moments_(model.reads().size()) {
    std::vector<std::vector<int>> reads_of(model.values().size());
    for (size_t r = 0; r < model.reads().size(); ++r) {
      for (const int v : model.reads()[r].values) reads_of[v].push_back(static_cast<int>(r));
    }
    for (const RecomputeModel::Value& value : model.values()) {
      const int inputs = add(value.inputs), reads = add(reads_of[values_.size()]);
      values_.push_back({value.bytes, value.transient_bytes, value.keep_ns, value.compute_ns,
                         inputs, reads, reads, static_cast<int>(lists_.size())});
      written_forward_[value.forward] += value.bytes;
      last_forward_.push_back(value.last_forward);
    }
    std::vector<uint64_t> of_node(words_);
    for (const RecomputeModel::Read& read : model.reads()) {
      reads_.push_back({model.bytes_before()[read.instruction], read.instruction});
      add_check(read.values, of_node);
      if (!read.ends_node) continue;
      checks_.back().ends_node = true;
      std::fill(of_node.begin(), of_node.end(), 0);
    }
  }

  // How long keeping and computing again takes.
  double nanoseconds(const std::vector<Retention>& choice) {
    take(choice);
    there_ = kept_;
    computed_.clear();
    nanoseconds_ = kept_ns_;
    for (const Check& check : checks_) {
      uint64_t missing = 0;
      for (int i = check.begin; i < check.end; ++i) {
        missing |= parts_[i].values & ~there_[parts_[i].word];
      }
      if (missing != 0) restore(check);
      if (check.ends_node && passes_) end_node();
    }
    return nanoseconds_;
  }

  // Of the same choice.
  RecomputeModel::Outcome outcome(int64_t limit_bytes) {
    replay();
    RecomputeModel::Outcome outcome{.nanoseconds = nanoseconds_,
                                    .recomputations = static_cast<int>(computed_.size())};
    const int64_t overhead = outcome.recomputations * instruction_bytes_;
    const int64_t most = limit_bytes - overhead;
    int64_t live = 0;
    for (size_t m = 0; m < rest_.size(); ++m) {
      live += change_[m];
      const int64_t all = live + rest_[m];
      outcome.peak_bytes = std::max(outcome.peak_bytes, all);
      outcome.excess += std::max<int64_t>(0, all - most);
    }
    outcome.total_bytes = outcome.peak_bytes + overhead;
    return outcome;
  }

 private:
  // As RecomputeModel has them; lists are ranges of lists_.
  struct Value {
    int64_t bytes, transient_bytes;
    double keep_ns, compute_ns;
    int inputs_begin, inputs_end;
    int reads_begin, reads_end;
  };
  struct Read {
    int64_t bytes_before;
    int instruction;
  };
  // That values of a read are there which no read of the same node before it has asked for.
  struct Check {
    int read;
    int begin, end;  // parts_
    bool ends_node = false;
  };
  struct Part {  // of a set of values: those of one word
    int word;
    uint64_t values;
  };
  struct Computed {
    int read;  // for which
    int value;
  };

  static constexpr int kWordBits = 64;

  static uint64_t bit(int v) { return uint64_t{1} << v % kWordBits; }
  static void set(std::vector<uint64_t>& words, int v) { words[v / kWordBits] |= bit(v); }

  int add(const std::vector<int>& list) {
    const int begin = static_cast<int>(lists_.size());
    lists_.insert(lists_.end(), list.begin(), list.end());
    return begin;
  }

  void add_check(const std::vector<int>& values, std::vector<uint64_t>& of_node) {
    Check check{static_cast<int>(reads_.size()) - 1, static_cast<int>(parts_.size()), 0};
    const std::vector<uint64_t> before = of_node;
    for (const int v : values) set(of_node, v);
    for (int w = 0; w < words_; ++w) {
      const uint64_t added = of_node[w] & ~before[w];
      if (added != 0) parts_.push_back({w, added});
    }
    check.end = static_cast<int>(parts_.size());
    if (check.begin < check.end) checks_.push_back(check);
  }

  // Notes what is different from the choice before.
  void take(const std::vector<Retention>& choice) {
    for (int v = 0; v < std::ssize(choice); ++v) {
      if (choice[v] == choice_[v]) continue;
      const int word = v / kWordBits;
      if (choice_[v] == Retention::kKept) kept_ns_ -= values_[v].keep_ns;
      if (choice[v] == Retention::kKept) kept_ns_ += values_[v].keep_ns;
      kept_[word] &= ~bit(v);
      each_time_[word] &= ~bit(v);
      if (choice[v] == Retention::kKept) kept_[word] |= bit(v);
      if (choice[v] == Retention::kRecomputedEachTime) each_time_[word] |= bit(v);
      choice_[v] = choice[v];
    }
  }

  // Computes values again that are not there, and before them what they are computed from: in the
  // order of the forward pass.
  void restore(const Check& check) {
    for (int i = check.begin; i < check.end; ++i) {
      wanted_[parts_[i].word] = parts_[i].values & ~there_[parts_[i].word];
    }
    const size_t before = computed_.size();
    for (int w = parts_[check.end - 1].word; w >= 0; --w) {
      uint64_t wanted = std::exchange(wanted_[w], 0), there = there_[w];
      while (wanted != 0) {
        const int v = w * kWordBits + std::bit_width(wanted) - 1;
        const Value& value = values_[v];
        computed_.push_back({check.read, v});
        nanoseconds_ += value.compute_ns;
        wanted -= bit(v);
        there |= bit(v);
        for (int i = value.inputs_begin; i < value.inputs_end; ++i) {
          const int input = lists_[i], word = input / kWordBits;
          if (word == w) {
            wanted |= bit(input) & ~there;
          } else {
            wanted_[word] |= bit(input) & ~there_[word];
          }
        }
      }
      passes_ |= (there & each_time_[w]) != 0;
      there_[w] = there;
    }
    std::reverse(computed_.begin() + before, computed_.end());
  }

  void end_node() {
    for (int w = 0; w < words_; ++w) there_[w] &= ~each_time_[w];
    passes_ = false;
  }

  // Goes through the moments.
  void replay() {
    change_.assign(written_forward_.begin(), written_forward_.end());
    change_.resize(written_forward_.size() + computed_.size(), 0);
    rest_.clear();
    last_ = last_forward_;
    int instruction = 0, read = 0;
    for (int i = 0; i < std::ssize(computed_); ++i) {
      const Read& reader = reads_[computed_[i].read];
      rest_.insert(rest_.end(), during_.begin() + instruction,
                   during_.begin() + reader.instruction);
      instruction = reader.instruction;
      for (; read < computed_[i].read; ++read) moments_[read] = reads_[read].instruction + i;
      compute(computed_[i].value, computed_[i].read, instruction + i, reader.bytes_before);
    }
    rest_.insert(rest_.end(), during_.begin() + instruction, during_.end());
    const int recomputations = static_cast<int>(computed_.size());
    for (; read < std::ssize(reads_); ++read) {
      moments_[read] = reads_[read].instruction + recomputations;
    }
    // What the backward pass read and was kept stays until the instruction held_until_, if there is
    // one.
    const int end = held_until_ < 0 ? -1 : held_until_ + recomputations;
    for (int v = 0; v < std::ssize(values_); ++v) {
      touch_before(v, read);
      const bool kept = (kept_[v / kWordBits] & bit(v)) != 0;
      if (kept && last_[v] >= first_backward_) last_[v] = std::max(last_[v], end);
      forget(v);
    }
  }

  // `rest` is what else is alive.
  void compute(int v, int read, int moment, int64_t rest) {
    const Value& value = values_[v];
    for (int i = value.inputs_begin; i < value.inputs_end; ++i) last_[lists_[i]] = moment;
    touch_before(v, read);
    forget(v);
    change_[moment] += value.bytes;
    last_[v] = moment;
    rest_.push_back(rest + value.transient_bytes);
  }

  // The last of the value's reads before `read` is at its moment.
  void touch_before(int v, int read) {
    for (int i = values_[v].reads_end; i-- > values_[v].reads_begin;) {
      if (lists_[i] >= read) continue;
      last_[v] = std::max(last_[v], moments_[lists_[i]]);
      return;
    }
  }

  // The value goes after the moment at which it was read last.
  void forget(int v) { change_[last_[v] + 1] -= values_[v].bytes; }

  const std::vector<int64_t>& during_;
  int first_backward_, held_until_;
  int64_t instruction_bytes_;
  int words_;  // of a set of values
  std::vector<Value> values_;
  std::vector<Read> reads_;
  std::vector<int> lists_;
  std::vector<Check> checks_;
  std::vector<Part> parts_;
  std::vector<int64_t> written_forward_;  // by instruction
  std::vector<int> last_forward_;         // by value
  // Of the choice: sets, and what is computed again, in order.
  std::vector<Retention> choice_;
  double kept_ns_ = 0;
  std::vector<uint64_t> kept_, each_time_, there_, wanted_;
  std::vector<Computed> computed_;
  bool passes_ = false;  // whether there is something that goes with the node
  double nanoseconds_ = 0;
  std::vector<int> moments_;     // by read
  std::vector<int> last_;        // by value: the moment at which it was read last
  std::vector<int64_t> rest_;    // by moment: bytes of everything but values of the forward pass
  std::vector<int64_t> change_;  // by moment: of the bytes of values
};

RetentionEvaluator::RetentionEvaluator(const RecomputeModel& model)
    : course_(std::make_unique<Course>(model)) {}
RetentionEvaluator::~RetentionEvaluator() = default;

double RetentionEvaluator::nanoseconds(const std::vector<Retention>& choice) {
  return course_->nanoseconds(choice);
}

RecomputeModel::Outcome RetentionEvaluator::outcome(int64_t limit_bytes) {
  return course_->outcome(limit_bytes);
}

}  // namespace mantissa
