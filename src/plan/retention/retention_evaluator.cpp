#include "plan/retention/retention_evaluator.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <utility>

namespace mantissa {

// A step under a choice. First: which values are computed again, and when, from sets of values
// (bits of words). Then, moment by moment, the bytes that are alive. An instruction of the program
// is a moment, computing a value again is another. The data that it needs from the model lies close
// together here, and its lists keep their memory: planners try a hundred thousand choices. Most of
// these differ in a value or two from one that was taken. Their steps then differ only in a stretch
// of the backward pass, and only this is walked through to find the values that are computed again.
class RetentionEvaluator::Course {
 public:
  explicit Course(const RecomputeModel& model)
      : during_(model.bytes_during()),
        first_backward_(model.first_backward()),
        instruction_bytes_(model.instruction_bytes()),
        words_(static_cast<int>(model.values().size()) / kWordBits + 1),
        written_forward_(during_.size() + 1, 0),
        choice_(model.values().size(), Retention::kRecomputed),
        kept_(words_),
        each_time_(words_),
        there_(words_),
        wanted_(words_),
        differ_(words_),
        is_own_(words_, false),
        moments_(model.reads().size()) {
    std::vector<std::vector<int>> reads_of(model.values().size());
    for (size_t r = 0; r < model.reads().size(); ++r) {
      for (const int v : model.reads()[r].values) reads_of[v].push_back(static_cast<int>(r));
    }
    for (const RecomputeModel::Value& value : model.values()) {
      const int inputs = add(value.inputs), reads = add(reads_of[values_.size()]);
      values_.push_back({value.bytes, value.transient_bytes, value.keep_ns, value.compute_ns,
                         inputs, reads, reads, static_cast<int>(lists_.size()), value.copies_bytes,
                         (value.read_before ? kBefore : 0) | (value.read_apart ? kApart : 0)});
      has_copies_ = has_copies_ || value.copies_bytes > 0;
      written_forward_[value.forward] += value.bytes;
      last_forward_.push_back(value.last_forward);
    }
    std::vector<uint64_t> of_node(words_);
    for (const RecomputeModel::Read& read : model.reads()) {
      reads_.push_back({model.bytes_before()[read.instruction], read.instruction, read.apart});
      add_check(read.values, of_node);
      if (!read.ends_node) continue;
      checks_.back().ends_node = true;
      std::fill(of_node.begin(), of_node.end(), 0);
    }
    taken_.choice = choice_;
    taken_.marks.resize(checks_.size() + 1);
    taken_.there.resize(taken_.marks.size() * words_);
    taken_.later_uses.resize(taken_.marks.size() * words_);
    taken_.first_use.resize(values_.size());
    from_ = 0;
    to_ = static_cast<int>(checks_.size());
    for (int w = 0; w < words_; ++w) make_own(w, 0);
    take_course();
  }

  // How long keeping and computing again takes.
  double nanoseconds(const std::vector<Retention>& choice) {
    take_base();
    const int count = static_cast<int>(choice.size());
    for (int begin = 0; begin < count; begin += kCompared) {
      const int end = std::min(count, begin + kCompared);
      if (end - begin == kCompared && are_equal(&choice[begin], &taken_.choice[begin])) continue;
      for (int v = begin; v < end; ++v) change(v, choice[v]);
    }
    return walk();
  }

  double nanoseconds_with(int v, Retention state) {
    take_base();
    change(v, state);
    return walk();
  }

  // Others are compared with the choice that nanoseconds() was asked about last.
  void set_base() {
    std::swap(of_base_, latest_);
    if (!changed_.empty()) {
      begin_walk();
      for (int c = 0; c < from_; ++c) {  // before their first use, changed values are there if kept
        for (const int w : own_) there_at(c, w) = with_changes(there_at(c, w), w);
      }
      take_course();
    }
    walked_.clear();
    from_ = to_ = static_cast<int>(checks_.size());
  }

  int64_t compared_words() const { return compared_; }

  // The outcome of the same choice; none as soon as the excess known so far is not promising.
  template <typename Promising>
  std::optional<RecomputeModel::Outcome> outcome_if(int64_t limit_bytes,
                                                    const Promising& promising) {
    put_together();
    const Memory* memory = has_copies_ ? nullptr : known_memory(limit_bytes);
    if (memory != nullptr && !promising(memory->excess)) return std::nullopt;
    if (memory == nullptr || !memory->is_complete) {
      latest_ = measured(limit_bytes, promising);
      if (!latest_.is_complete) return std::nullopt;
      memory = &latest_;
    }
    return RecomputeModel::Outcome{.peak_bytes = memory->peak,
                                   .total_bytes = memory->peak + memory->overhead,
                                   .excess = memory->excess,
                                   .nanoseconds = nanoseconds_,
                                   .recomputations = static_cast<int>(computed_.size())};
  }

 private:
  // As RecomputeModel has them; lists are ranges of lists_.
  struct Value {
    int64_t bytes, transient_bytes;
    double keep_ns, compute_ns;
    int inputs_begin, inputs_end;
    int reads_begin, reads_end;
    int64_t copies_bytes;
    int uses;  // kBefore, kApart: its direct readers
  };
  struct Read {
    int64_t bytes_before;
    int instruction;
    bool apart;  // runs after all that does not
  };
  // These values of a read must be there; no earlier read of the same node has asked for them.
  struct Check {
    int read;
    int begin, end;  // parts_
    bool ends_node = false;
  };
  struct Part {  // of a set of values: the values of one word
    int word;
    uint64_t values;
  };
  struct Computed {
    int read;  // for which
    int value;
    bool operator==(const Computed&) const = default;
  };
  // The memory of a step that computes these values again.
  struct Memory {
    std::vector<Computed> computed;
    int64_t limit = 0, overhead = 0, peak = 0, excess = 0;
    bool is_complete = false;  // else the excess is a part of it
  };
  struct Mark {          // before a check, or at the end
    int computed;        // how many have been
    double nanoseconds;  // that this took
  };
  // The course of a choice; by check, and at the end.
  struct Taken {
    std::vector<Retention> choice;
    std::vector<Computed> computed;
    std::vector<Mark> marks;
    std::vector<uint64_t> there;       // sets, words_ each: present before the check
    std::vector<uint64_t> later_uses;  // sets: values whose presence matters from there on
    std::vector<int> first_use;        // by value: the first check at which it matters
  };

  static constexpr int kWordBits = 64;
  static constexpr int kCompared = 16;  // states, at once
  static constexpr int kBefore = 1, kApart = 2;

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

  static bool are_equal(const Retention* a, const Retention* b) {
    return std::memcmp(a, b, kCompared * sizeof *a) == 0;
  }

  // Makes the choice taken the choice.
  void take_base() {
    for (const int v : changed_) set_choice(v, taken_.choice[v]);
    forget_changes();
  }

  void forget_changes() {
    for (const int v : changed_) differ_[v / kWordBits] = 0;
    changed_.clear();
  }

  // Changes the choice taken.
  void change(int v, Retention state) {
    if (state == taken_.choice[v]) return;
    set(differ_, v);
    changed_.push_back(v);
    set_choice(v, state);
  }

  // Goes through the checks at which the changes matter.
  double walk() {
    from_ = static_cast<int>(checks_.size());
    for (const int v : changed_) from_ = std::min(from_, taken_.first_use[v]);
    to_ = from_;
    begin_walk();
    while (to_ < std::ssize(checks_) && !goes_on_as_taken(to_)) pass(to_++);
    const std::vector<Mark>& marks = taken_.marks;
    nanoseconds_ = kept_ns_ + walked_ns_ + marks[from_].nanoseconds + marks.back().nanoseconds -
                   marks[to_].nanoseconds;
    return nanoseconds_;
  }

  void set_choice(int v, Retention state) {
    const int word = v / kWordBits;
    if (choice_[v] == Retention::kKept) kept_ns_ -= values_[v].keep_ns;
    if (state == Retention::kKept) kept_ns_ += values_[v].keep_ns;
    kept_[word] &= ~bit(v);
    each_time_[word] &= ~bit(v);
    if (state == Retention::kKept) kept_[word] |= bit(v);
    if (state == Retention::kRecomputedEachTime) each_time_[word] |= bit(v);
    choice_[v] = state;
  }

  // The walk looks only at its own words of sets: those with changed values, and those with values
  // that it, or the course taken, has computed since. In the others the same values are there.
  void begin_walk() {
    walked_.clear();
    walked_ns_ = 0;
    for (const int w : own_) is_own_[w] = false;
    own_.clear();
    for (const int v : changed_) make_own(v / kWordBits, from_);
  }

  void make_own(int w, int check) {
    if (is_own_[w]) return;
    is_own_[w] = true;
    own_.push_back(w);
    there_[w] = with_changes(there_at(check, w), w);
  }

  uint64_t with_changes(uint64_t there, int w) const {
    return (there & ~differ_[w]) | (kept_[w] & differ_[w]);
  }
  uint64_t& there_at(int check, int w) { return taken_.there[check * words_ + w]; }
  uint64_t there_now(int check, int w) { return is_own_[w] ? there_[w] : there_at(check, w); }

  // Whether from this check on the course is the same as for the choice taken.
  bool goes_on_as_taken(int check) {
    compared_ += std::ssize(own_);
    for (const int w : own_) {
      const uint64_t other = (there_[w] ^ there_at(check, w)) | differ_[w];
      if ((other & taken_.later_uses[check * words_ + w]) != 0) return false;
    }
    return true;
  }

  // Whether the same values are there, be they used or not.
  bool is_as_taken(int check) {
    compared_ += std::ssize(own_);
    return std::all_of(own_.begin(), own_.end(),
                       [&](int w) { return there_[w] == there_at(check, w); });
  }

  void pass(int c) {
    const Check& check = checks_[c];
    for (int i = taken_.marks[c].computed; i < taken_.marks[c + 1].computed; ++i) {
      make_own(taken_.computed[i].value / kWordBits, c);
    }
    uint64_t missing = 0;
    for (int i = check.begin; i < check.end; ++i) {
      missing |= parts_[i].values & ~there_now(c, parts_[i].word);
    }
    if (missing != 0) restore(c);
    if (check.ends_node) end_node();
  }

  // Makes the choice the one taken, from a walk that has begun. Where it ends, there may be other
  // values that are not used any more: it goes on until there are none.
  void take_course() {
    const int end = static_cast<int>(checks_.size()), same = to_;
    for (to_ = from_; to_ < same || !is_as_taken(to_); ++to_) {
      for (const int w : own_) there_at(to_, w) = there_[w];
      if (to_ == end) break;
      pass(to_);
    }
    put_together();
    for (const int v : changed_) taken_.choice[v] = choice_[v];
    forget_changes();
    taken_.computed.swap(computed_);
    note_marks();
    note_uses(same);
  }

  void note_marks() {
    int i = 0;
    double nanoseconds = 0;  // whole ones: any order has the same sum
    for (size_t c = 0; c < checks_.size(); ++c) {
      taken_.marks[c] = {i, nanoseconds};
      for (; i < std::ssize(taken_.computed) && taken_.computed[i].read == checks_[c].read; ++i) {
        nanoseconds += values_[taken_.computed[i].value].compute_ns;
      }
    }
    taken_.marks.back() = {i, nanoseconds};
  }

  // Calls use(v) for the values that a check of the choice taken uses: those that it looks for, and
  // those read to compute them.
  template <typename Use>
  void for_each_use(int c, const Use& use) const {
    for (int i = checks_[c].begin; i < checks_[c].end; ++i) {
      for (uint64_t rest = parts_[i].values; rest != 0; rest &= rest - 1) {
        use(parts_[i].word * kWordBits + std::countr_zero(rest));
      }
    }
    for (int i = taken_.marks[c].computed; i < taken_.marks[c + 1].computed; ++i) {
      const Value& value = values_[taken_.computed[i].value];
      for (int j = value.inputs_begin; j < value.inputs_end; ++j) use(lists_[j]);
    }
  }

  // Notes the uses of the choice taken, which differs from the one before in checks from from_ to
  // `same`.
  void note_uses(int same) {
    const int end = static_cast<int>(checks_.size());
    std::fill(taken_.first_use.begin(), taken_.first_use.end(), end);
    for (int c = end - 1; c >= 0; --c) {
      for_each_use(c, [&](int v) { taken_.first_use[v] = c; });
    }
    std::vector<uint64_t>& uses = uses_of_check_;
    uses.assign(&taken_.later_uses[same * words_], &taken_.later_uses[same * words_] + words_);
    for (int c = same - 1; c >= 0; --c) {
      for_each_use(c, [&](int v) { set(uses, v); });
      uint64_t* const noted = &taken_.later_uses[c * words_];
      if (c < from_ && std::equal(uses.begin(), uses.end(), noted)) return;
      std::copy(uses.begin(), uses.end(), noted);
    }
  }

  // The computed values are the same as for the choice taken, except in the stretch that was
  // walked.
  void put_together() {
    const auto& taken = taken_.computed;
    computed_.assign(taken.begin(), taken.begin() + taken_.marks[from_].computed);
    computed_.insert(computed_.end(), walked_.begin(), walked_.end());
    computed_.insert(computed_.end(), taken.begin() + taken_.marks[to_].computed, taken.end());
  }

  // Computes missing values again, and before them the values that they are computed from: in the
  // order of the forward pass.
  void restore(int c) {
    const Check& check = checks_[c];
    int lowest = words_;  // of the words with wanted values
    const auto want = [&](int w, uint64_t values) {
      wanted_[w] |= values & ~there_now(c, w);
      lowest = std::min(lowest, w);
    };
    for (int i = check.begin; i < check.end; ++i) want(parts_[i].word, parts_[i].values);
    const size_t before = walked_.size();
    for (int w = parts_[check.end - 1].word; w >= lowest; --w) {
      uint64_t wanted = std::exchange(wanted_[w], 0);
      if (wanted == 0) continue;
      make_own(w, c);
      uint64_t present = there_[w];
      while (wanted != 0) {
        const int v = w * kWordBits + std::bit_width(wanted) - 1;
        const Value& value = values_[v];
        walked_.push_back({check.read, v});
        walked_ns_ += value.compute_ns;
        wanted -= bit(v);
        present |= bit(v);
        for (int i = value.inputs_begin; i < value.inputs_end; ++i) {
          const int input = lists_[i], word = input / kWordBits;
          if (word == w) {
            wanted |= bit(input) & ~present;
          } else {
            want(word, bit(input));
          }
        }
      }
      there_[w] = present;
    }
    std::reverse(walked_.begin() + before, walked_.end());
  }

  void end_node() {
    for (const int w : own_) there_[w] &= ~each_time_[w];
  }

  // The memory of the choice if it was measured last, or for the base.
  const Memory* known_memory(int64_t limit) const {
    for (const Memory* memory : {&latest_, &of_base_}) {
      if (memory->limit == limit && memory->computed == computed_) return memory;
    }
    return nullptr;
  }

  template <typename Promising>
  Memory measured(int64_t limit, const Promising& promising) {
    replay();
    Memory memory{.computed = computed_, .limit = limit};
    const auto recomputations = static_cast<int64_t>(computed_.size());
    memory.overhead = recomputations * instruction_bytes_ + copies_bytes();
    const int64_t most = limit - memory.overhead;
    int64_t live = 0, peak = 0, excess = 0;
    const auto add_up = [&](const int64_t* rest, size_t moment, int moments) {
      const int64_t before = excess;
      for (int i = 0; i < moments; ++i) {
        live += change_[moment + i];
        const int64_t all = live + rest[i];
        peak = std::max(peak, all);
        excess += std::max<int64_t>(0, all - most);
      }
      memory.excess = excess;
      return excess == before || promising(excess);
    };
    int instruction = 0;
    for (size_t i = 0; i < computed_.size(); ++i) {
      const int next = reads_[computed_[i].read].instruction;
      if (!add_up(&during_[instruction], instruction + i, next - instruction)) return memory;
      if (!add_up(&rest_[i], next + i, 1)) return memory;
      instruction = next;
    }
    const int left = static_cast<int>(during_.size()) - instruction;
    if (!add_up(&during_[instruction], instruction + computed_.size(), left)) return memory;
    memory.peak = peak;
    memory.is_complete = true;
    return memory;
  }

  // Bytes of the other micro-batches in flight: their copies of the values that this one holds
  // after its forward pass.
  int64_t copies_bytes() {
    if (!has_copies_) return 0;
    find_uses();
    int64_t bytes = 0;
    for (size_t v = 0; v < values_.size(); ++v) {
      const bool is_held = choice_[v] == Retention::kKept ||
                           (choice_[v] == Retention::kRecomputed && uses_[v] == (kBefore | kApart));
      if (is_held && last_[v] >= first_backward_) bytes += values_[v].copies_bytes;
    }
    return bytes;
  }

  // Which parts of the backward pass use values, counting those that others are computed from. A
  // value that is computed once is there from its first use on.
  void find_uses() {
    uses_.clear();
    for (const Value& value : values_) uses_.push_back(value.uses);
    for (const Computed& computed : computed_) {
      const Value& value = values_[computed.value];
      const bool is_early =
          choice_[computed.value] == Retention::kRecomputed && (value.uses & kBefore) != 0;
      const bool apart = reads_[computed.read].apart && !is_early;
      for (int i = value.inputs_begin; i < value.inputs_end; ++i) {
        uses_[lists_[i]] |= apart ? kApart : kBefore;
      }
    }
  }

  // Goes through the moments.
  void replay() {
    change_.assign(written_forward_.begin(), written_forward_.end());
    change_.resize(written_forward_.size() + computed_.size(), 0);
    rest_.clear();
    last_ = last_forward_;
    int read = 0;
    for (int i = 0; i < std::ssize(computed_); ++i) {
      const Read& reader = reads_[computed_[i].read];
      for (; read < computed_[i].read; ++read) moments_[read] = reads_[read].instruction + i;
      compute(computed_[i].value, computed_[i].read, reader.instruction + i, reader.bytes_before);
    }
    const int recomputations = static_cast<int>(computed_.size());
    for (; read < std::ssize(reads_); ++read) {
      moments_[read] = reads_[read].instruction + recomputations;
    }
    for (int v = 0; v < std::ssize(values_); ++v) {
      touch_before(v, read);
      forget(v);
    }
  }

  // `rest`: all other live bytes.
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
  int first_backward_;
  int64_t instruction_bytes_;
  bool has_copies_ = false;
  std::vector<int> uses_;  // by value
  int words_;              // of a set of values
  std::vector<Value> values_;
  std::vector<Read> reads_;
  std::vector<int> lists_;
  std::vector<Check> checks_;
  std::vector<Part> parts_;
  std::vector<int64_t> written_forward_;  // by instruction
  std::vector<int> last_forward_;         // by value
  // The choice, its sets, and the values that it computes again, in order.
  std::vector<Retention> choice_;
  double kept_ns_ = 0;
  std::vector<uint64_t> kept_, each_time_, there_, wanted_, differ_, uses_of_check_;
  std::vector<char> is_own_;  // by word of sets (begin_walk)
  std::vector<int> own_;
  int64_t compared_ = 0;
  std::vector<Computed> computed_;
  double nanoseconds_ = 0;
  Taken taken_;
  std::vector<int> changed_;      // values whose states differ from the choice taken
  Memory latest_, of_base_;       // measured last, before and after set_base()
  int from_ = 0, to_ = 0;         // the checks that were walked through
  std::vector<Computed> walked_;  // values computed at them
  double walked_ns_ = 0;
  std::vector<int> moments_;     // by read
  std::vector<int> last_;        // by value: the moment at which it was read last
  std::vector<int64_t> rest_;    // by computed_: bytes of all but values of the forward pass
  std::vector<int64_t> change_;  // by moment: of the bytes of values
};

RetentionEvaluator::RetentionEvaluator(const RecomputeModel& model)
    : course_(std::make_unique<Course>(model)) {}
RetentionEvaluator::~RetentionEvaluator() = default;

void RetentionEvaluator::set_base() { course_->set_base(); }

int64_t RetentionEvaluator::compared_words() const { return course_->compared_words(); }

double RetentionEvaluator::nanoseconds(const std::vector<Retention>& choice) {
  return course_->nanoseconds(choice);
}

double RetentionEvaluator::nanoseconds_with(int value, Retention state) {
  return course_->nanoseconds_with(value, state);
}

RecomputeModel::Outcome RetentionEvaluator::outcome(int64_t limit_bytes) {
  return *course_->outcome_if(limit_bytes, [](int64_t) { return true; });
}

std::optional<RecomputeModel::Outcome> RetentionEvaluator::outcome_if(
    int64_t limit_bytes, const std::function<bool(int64_t excess)>& promising) {
  return course_->outcome_if(limit_bytes, promising);
}

}  // namespace mantissa
