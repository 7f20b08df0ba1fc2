#include "plan/recompute_model.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

namespace mantissa {
namespace {

constexpr double kLoopNs = 2000;  // starting the threads for an instruction

// Times are whole multiples of this: adding them is exact, in any order.
constexpr double kUnitNs = 1. / 1024;

double in_units(double nanoseconds) { return std::nearbyint(nanoseconds / kUnitNs) * kUnitNs; }

bool is_value(const Operand& operand) {
  return operand.space == Operand::Space::kArena && !operand.gradient && operand.slot >= 0;
}

int64_t bytes_of(const Operand& operand) {
  if (operand.space == Operand::Space::kNone) return 0;
  return operand.shape.count() * element_bytes(operand.type);
}

int64_t bytes_of(const Instruction& instruction) {
  int64_t bytes = bytes_of(instruction.output) + bytes_of(instruction.grad_output);
  for (const Operand& input : instruction.inputs) bytes += bytes_of(input);
  for (const Operand& gradient : instruction.grad_inputs) bytes += bytes_of(gradient);
  return bytes;
}

int64_t buffer_bytes(const Program& program, int buffer) {
  return buffer < 0 ? 0 : program.buffers[buffer].bytes;
}

double macs_per_ns(const Graph& graph, const Instruction& instruction, const Format& format,
                   const MachineProfile& profile) {
  if (format.is_float()) return profile.float_macs_per_ns;
  for (const Operand& input : instruction.inputs) {
    if (input.bits > 8) return profile.wide_macs_per_ns;
  }
  const int64_t groups = graph.nodes[instruction.node].attributes.get("groups", 1);
  const bool depthwise = groups > 1 && instruction.inputs[0].shape.last() == groups;
  return depthwise ? profile.depthwise_macs_per_ns : profile.dense_macs_per_ns;
}

// Of what is not multiplying, all threads together. What only clips, up to 8 bits, takes as long as
// copying in memory.
double elements_ns(const Instruction& instruction, const MachineProfile& profile, int threads) {
  const Op& op = *instruction.op;
  if (op.traits.clips_negatives && instruction.output.type == DataType::kInt8) {
    return static_cast<double>(bytes_of(instruction)) / profile.tiers[2].bytes_per_ns;
  }
  const bool is_norm = op.update_statistics != nullptr;
  return static_cast<double>(instruction.output.shape.count()) / threads /
         (is_norm ? profile.norm_elements_per_ns : profile.elements_per_ns);
}

double compute_ns(const Graph& graph, const Instruction& instruction, const Format& format,
                  const MachineProfile& profile, int threads) {
  const double mac_ns = static_cast<double>(instruction.multiply_adds) /
                        macs_per_ns(graph, instruction, format, profile);
  return in_units(kLoopNs + elements_ns(instruction, profile, threads) + mac_ns / threads);
}

}  // namespace

RecomputeModel::RecomputeModel(const Graph& graph, const Program& program,
                               const MachineProfile& profile, int threads,
                               int64_t instruction_bytes, int64_t least_arena_bytes)
    : tiers_(profile.tiers), instruction_bytes_(instruction_bytes) {
  find_values(graph, program, profile, threads);
  find_reads(program, profile);
  add_up_the_rest(program, least_arena_bytes);
}

void RecomputeModel::find_values(const Graph& graph, const Program& program,
                                 const MachineProfile& profile, int threads) {
  std::vector<int> model_value(graph.values.size(), -1);
  first_backward_ = static_cast<int>(program.instructions.size());
  for (int i = 0; i < static_cast<int>(program.instructions.size()); ++i) {
    const Instruction& instruction = program.instructions[i];
    if (instruction.phase == Phase::kRepeat) continue;
    if (instruction.phase != Phase::kForward) {
      first_backward_ = i;
      break;
    }
    Value value;
    for (const Operand& input : instruction.inputs) {
      if (!is_value(input)) continue;
      value.inputs.push_back(model_value[input.slot]);
      values_[value.inputs.back()].last_forward = i;
    }
    if (!is_value(instruction.output)) continue;
    value.value = instruction.output.slot;
    value.name = graph.values[value.value].name;
    value.bytes = buffer_bytes(program, instruction.output.index);
    value.transient_bytes =
        buffer_bytes(program, instruction.workspace) + buffer_bytes(program, instruction.scratch);
    value.may_go = value.value != program.logits.slot;
    value.compute_ns = compute_ns(graph, instruction, program.options.format, profile, threads);
    value.forward = value.last_forward = i;
    model_value[value.value] = static_cast<int>(values_.size());
    values_.push_back(std::move(value));
  }
}

// What the backward pass reads, and how far it has come since that was used last.
void RecomputeModel::find_reads(const Program& program, const MachineProfile& profile) {
  std::vector<int> model_value;
  for (size_t v = 0; v < values_.size(); ++v) {
    const auto value = static_cast<size_t>(values_[v].value);
    model_value.resize(std::max(model_value.size(), value + 1), -1);
    model_value[value] = static_cast<int>(v);
  }
  std::vector<int64_t> passed = {0};  // bytes that the instructions before have used
  for (int i = 0; i < static_cast<int>(program.instructions.size()); ++i) {
    const Instruction& instruction = program.instructions[i];
    passed.push_back(passed.back() + bytes_of(instruction));
    // The backward pass as a whole, not its first instruction alone.
    if (instruction.repeats_from == first_backward_ && i > first_backward_ + 1) held_until_ = i;
    if (i < first_backward_) continue;
    Read read{.instruction = i, .values = {}};
    if (is_value(instruction.output)) read.values.push_back(model_value[instruction.output.slot]);
    for (const Operand& input : instruction.inputs) {
      if (is_value(input)) read.values.push_back(model_value[input.slot]);
    }
    if (read.values.empty()) continue;
    for (const int v : read.values) {
      Value& value = values_[v];
      if (std::exchange(value.read_backward, true)) continue;
      const int64_t distance = passed[i] - passed[value.last_forward + 1];
      while (distance > profile.tiers[value.tier].bytes) ++value.tier;
      value.keep_ns =
          in_units(2 * static_cast<double>(value.bytes) / profile.tiers[value.tier].bytes_per_ns);
    }
    if (!reads_.empty()) {
      reads_.back().ends_node =
          program.instructions[reads_.back().instruction].node != instruction.node;
    }
    reads_.push_back(std::move(read));
  }
}

void RecomputeModel::add_up_the_rest(const Program& program, int64_t least_arena_bytes) {
  const size_t instructions = program.instructions.size();
  during_.assign(instructions + 1, 0);
  before_.assign(instructions + 1, 0);
  for (const Buffer& buffer : program.buffers) {
    if (buffer.kind == BufferKind::kActivation) continue;
    during_[buffer.first] += buffer.bytes;
    during_[buffer.last + 1] -= buffer.bytes;
    if (buffer.last == buffer.first) continue;
    before_[buffer.first + 1] += buffer.bytes;
    before_[buffer.last + 1] -= buffer.bytes;
  }
  for (size_t i = 1; i <= instructions; ++i) {
    during_[i] += during_[i - 1];
    before_[i] += before_[i - 1];
  }
  during_.pop_back();
  // A moment at which that much is alive: the first, when there is nothing but what it writes.
  int64_t written = 0;
  for (const Value& value : values_) written += value.forward == 0 ? value.bytes : 0;
  during_.front() = std::max(during_.front(), least_arena_bytes - written);
}

int64_t RecomputeModel::bound_bytes() const {
  int64_t bound = 0;
  for (const Read& read : reads_) {
    std::vector<int> values = read.values;
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
    int64_t bytes = during_[read.instruction];
    for (const int v : values) bytes += values_[v].bytes;
    bound = std::max(bound, bytes);
  }
  return bound;
}

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
      if (added != 0) parts_.push_back({static_cast<int>(w), added});
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

RecomputeModel::Outcome RecomputeModel::evaluate(const std::vector<Retention>& choice,
                                                 int64_t limit_bytes) const {
  RetentionEvaluator evaluator(*this);
  evaluator.nanoseconds(choice);
  return evaluator.outcome(limit_bytes);
}

std::vector<Retention> RecomputeModel::by_graph_value(const std::vector<Retention>& choice,
                                                      size_t values) const {
  std::vector<Retention> retention(values, Retention::kKept);
  for (size_t v = 0; v < values_.size(); ++v) retention[values_[v].value] = choice[v];
  return retention;
}

}  // namespace mantissa
