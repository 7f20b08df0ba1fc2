#include "plan/recompute_model.h"

#include <algorithm>
#include <utility>

namespace mantissa {
namespace {

constexpr double kLoopNs = 2000;  // starting the threads for an instruction

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
  return kLoopNs + elements_ns(instruction, profile, threads) + mac_ns / threads;
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
      value.keep_ns = 2 * static_cast<double>(value.bytes) / profile.tiers[value.tier].bytes_per_ns;
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

// A step under a choice, moment by moment: an instruction of the program is one, computing a value
// again is another. Notes which bytes are alive at each. What it needs of the model lies close
// together here, and its lists keep their memory: planners try a hundred thousand choices.
class RetentionEvaluator::Course {
 public:
  explicit Course(const RecomputeModel& model)
      : during_(model.bytes_during()),
        first_backward_(model.first_backward()),
        held_until_(model.held_until()),
        instruction_bytes_(model.instruction_bytes()) {
    for (const RecomputeModel::Value& value : model.values()) {
      const int inputs = add(value.inputs);
      values_.push_back({value.bytes, value.transient_bytes, value.keep_ns, value.compute_ns,
                         value.forward, value.last_forward, inputs,
                         static_cast<int>(lists_.size())});
    }
    for (const RecomputeModel::Read& read : model.reads()) {
      const int begin = add(read.values);
      reads_.push_back({model.bytes_before()[read.instruction], read.instruction, begin,
                        static_cast<int>(lists_.size()), read.ends_node});
    }
  }

  RecomputeModel::Outcome run(const std::vector<Retention>& choice, int64_t limit_bytes) {
    start(choice);
    for (const Read& read : reads_) {
      run_to(read.instruction);
      restore(read, choice);
      for (int i = read.begin; i < read.end; ++i) touch(lists_[i]);
      run_to(read.instruction + 1);
      if (read.ends_node) end_node();
    }
    finish(choice);
    return outcome(limit_bytes);
  }

 private:
  // As RecomputeModel has them; lists are ranges of lists_.
  struct Value {
    int64_t bytes, transient_bytes;
    double keep_ns, compute_ns;
    int forward, last_forward;
    int inputs_begin, inputs_end;
  };
  struct Read {
    int64_t bytes_before;
    int instruction;
    int begin, end;
    bool ends_node;
  };
  struct Stay {
    int64_t bytes;
    int first, last;  // moments
  };

  static constexpr int kNotThere = -1, kMissing = -2;

  int add(const std::vector<int>& list) {
    const int begin = static_cast<int>(lists_.size());
    lists_.insert(lists_.end(), list.begin(), list.end());
    return begin;
  }

  int moment() const { return static_cast<int>(rest_.size()); }

  void start(const std::vector<Retention>& choice) {
    next_ = first_backward_;
    nanoseconds_ = 0;
    recomputations_ = 0;
    passing_.clear();
    rest_.assign(during_.begin(), during_.begin() + first_backward_);
    stays_.resize(values_.size());
    stay_of_.resize(values_.size());
    for (size_t v = 0; v < values_.size(); ++v) {
      stays_[v] = {values_[v].bytes, values_[v].forward, values_[v].last_forward};
      stay_of_[v] = choice[v] == Retention::kKept ? static_cast<int>(v) : kNotThere;
    }
  }

  // Runs the program up to an instruction, which is not run.
  void run_to(int instruction) {
    rest_.insert(rest_.end(), during_.begin() + next_, during_.begin() + instruction);
    next_ = instruction;
  }

  // Computes values again that are not there, and before them what they are computed from: in the
  // order of the forward pass.
  void restore(const Read& read, const std::vector<Retention>& choice) {
    missing_.clear();
    for (int i = read.begin; i < read.end; ++i) find_missing(lists_[i]);
    if (missing_.size() > 1) std::sort(missing_.begin(), missing_.end());
    for (const int v : missing_) {
      compute(v, read.bytes_before);
      if (choice[v] == Retention::kRecomputedEachTime) passing_.push_back(v);
    }
  }

  void find_missing(int v) {
    if (stay_of_[v] != kNotThere) return;
    stay_of_[v] = kMissing;
    missing_.push_back(v);
    for (int i = values_[v].inputs_begin; i < values_[v].inputs_end; ++i) find_missing(lists_[i]);
  }

  // `rest` is what else is alive.
  void compute(int v, int64_t rest) {
    const Value& value = values_[v];
    for (int i = value.inputs_begin; i < value.inputs_end; ++i) touch(lists_[i]);
    stay_of_[v] = static_cast<int>(stays_.size());
    stays_.push_back({value.bytes, moment(), moment()});
    rest_.push_back(rest + value.transient_bytes);
    nanoseconds_ += value.compute_ns;
    ++recomputations_;
  }

  // The value is read at the moment that comes.
  void touch(int v) { stays_[stay_of_[v]].last = moment(); }

  void end_node() {
    for (const int v : passing_) stay_of_[v] = kNotThere;
    passing_.clear();
  }

  // Runs the rest. What the backward pass read and was kept stays until the instruction
  // held_until_, if there is one.
  void finish(const std::vector<Retention>& choice) {
    const int end = held_until_ < 0 ? -1 : moment() + held_until_ - next_;
    run_to(static_cast<int>(during_.size()));
    for (size_t v = 0; v < values_.size(); ++v) {
      if (choice[v] != Retention::kKept || stays_[v].last < first_backward_) continue;
      nanoseconds_ += values_[v].keep_ns;
      stays_[v].last = std::max(stays_[v].last, end);
    }
  }

  RecomputeModel::Outcome outcome(int64_t limit_bytes) {
    RecomputeModel::Outcome outcome{.nanoseconds = nanoseconds_, .recomputations = recomputations_};
    change_.assign(rest_.size() + 1, 0);
    for (const Stay& stay : stays_) {
      change_[stay.first] += stay.bytes;
      change_[stay.last + 1] -= stay.bytes;
    }
    const int64_t overhead = recomputations_ * instruction_bytes_, most = limit_bytes - overhead;
    int64_t live = 0;
    for (size_t m = 0; m < rest_.size(); ++m) {
      live += change_[m];
      const int64_t all = live + rest_[m];
      outcome.peak_bytes = std::max(outcome.peak_bytes, all);
      if (all > most) outcome.excess += all - most;
    }
    outcome.total_bytes = outcome.peak_bytes + overhead;
    return outcome;
  }

  const std::vector<int64_t>& during_;
  int first_backward_, held_until_;
  int64_t instruction_bytes_;
  std::vector<Value> values_;
  std::vector<Read> reads_;
  std::vector<int> lists_;
  int next_ = 0;                 // instruction
  std::vector<int64_t> rest_;    // by moment: bytes of everything but values of the forward pass
  std::vector<Stay> stays_;      // of these; the first ones are by value, as computed forward
  std::vector<int> stay_of_;     // by value, or kNotThere; kMissing: about to be computed
  std::vector<int> missing_;     // values that are about to be computed
  std::vector<int> passing_;     // values that go with the node
  std::vector<int64_t> change_;  // by moment: of the bytes of values
  double nanoseconds_ = 0;
  int recomputations_ = 0;
};

RetentionEvaluator::RetentionEvaluator(const RecomputeModel& model)
    : course_(std::make_unique<Course>(model)) {}
RetentionEvaluator::~RetentionEvaluator() = default;

RecomputeModel::Outcome RetentionEvaluator::evaluate(const std::vector<Retention>& choice,
                                                     int64_t limit_bytes) {
  return course_->run(choice, limit_bytes);
}

RecomputeModel::Outcome RecomputeModel::evaluate(const std::vector<Retention>& choice,
                                                 int64_t limit_bytes) const {
  return RetentionEvaluator(*this).evaluate(choice, limit_bytes);
}

std::vector<Retention> RecomputeModel::by_graph_value(const std::vector<Retention>& choice,
                                                      size_t values) const {
  std::vector<Retention> retention(values, Retention::kKept);
  for (size_t v = 0; v < values_.size(); ++v) retention[values_[v].value] = choice[v];
  return retention;
}

}  // namespace mantissa
