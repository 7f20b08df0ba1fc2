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

double compute_ns(const Graph& graph, const Instruction& instruction, const Format& format,
                  const MachineProfile& profile, int threads) {
  const double element_ns =
      static_cast<double>(instruction.output.shape.count()) / profile.elements_per_ns;
  const double mac_ns = static_cast<double>(instruction.multiply_adds) /
                        macs_per_ns(graph, instruction, format, profile);
  return kLoopNs + (element_ns + mac_ns) / threads;
}

}  // namespace

RecomputeModel::RecomputeModel(const Graph& graph, const Program& program,
                               const MachineProfile& profile, int threads,
                               int64_t instruction_bytes)
    : tiers_(profile.tiers), instruction_bytes_(instruction_bytes) {
  find_values(graph, program, profile, threads);
  find_reads(program, profile);
  add_up_the_rest(program);
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

void RecomputeModel::add_up_the_rest(const Program& program) {
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
}

namespace {

// The course of a step under a choice: which moments there are, and when values are there.
struct Course {
  struct Stay {
    int64_t bytes;
    int first, last;  // moments
  };
  std::vector<int64_t> rest;  // by moment: bytes of everything else
  std::vector<Stay> stays;
  std::vector<int> stay_of;  // by value, -1: not there
  std::vector<int> passing;  // values that go with the node
};

}  // namespace

RecomputeModel::Outcome RecomputeModel::evaluate(const std::vector<Retention>& choice,
                                                 int64_t limit_bytes) const {
  Outcome outcome;
  Course course;
  course.rest.reserve(during_.size() + 2 * values_.size());
  course.stays.reserve(2 * values_.size());
  for (const Value& value : values_) {
    course.stay_of.push_back(static_cast<int>(course.stays.size()));
    course.stays.push_back({value.bytes, value.forward, value.last_forward});
  }
  const auto moment = [&] { return static_cast<int>(course.rest.size()); };
  const auto touch = [&](int v) { course.stays[course.stay_of[v]].last = moment(); };
  const auto restore = [&](auto&& self, int v, int64_t rest) -> void {
    if (course.stay_of[v] >= 0) return;
    const Value& value = values_[v];
    for (const int input : value.inputs) self(self, input, rest);
    for (const int input : value.inputs) touch(input);
    course.stay_of[v] = static_cast<int>(course.stays.size());
    course.stays.push_back({value.bytes, moment(), moment()});
    if (choice[v] == Retention::kRecomputedEachTime) course.passing.push_back(v);
    course.rest.push_back(rest + value.transient_bytes);
    outcome.nanoseconds += value.compute_ns;
    ++outcome.recomputations;
  };
  course.rest.assign(during_.begin(), during_.begin() + first_backward_);
  int next = first_backward_;
  for (size_t v = 0; v < values_.size(); ++v) {
    if (choice[v] != Retention::kKept) course.stay_of[v] = -1;
  }
  const auto run_to = [&](int instruction) {
    for (; next < instruction; ++next) course.rest.push_back(during_[next]);
  };
  for (const Read& read : reads_) {
    run_to(read.instruction);
    for (const int v : read.values) restore(restore, v, before_[read.instruction]);
    for (const int v : read.values) touch(v);
    run_to(read.instruction + 1);
    if (!read.ends_node) continue;
    for (const int v : course.passing) course.stay_of[v] = -1;
    course.passing.clear();
  }
  const int end = held_until_ < 0 ? -1 : moment() + held_until_ - next;
  run_to(static_cast<int>(during_.size()));
  for (size_t v = 0; v < values_.size(); ++v) {
    Course::Stay& stay = course.stays[v];
    if (choice[v] != Retention::kKept || stay.last < first_backward_) continue;
    outcome.nanoseconds += values_[v].keep_ns;
    stay.last = std::max(stay.last, end);
  }
  std::vector<int64_t> change(course.rest.size() + 1, 0);
  for (const Course::Stay& stay : course.stays) {
    change[stay.first] += stay.bytes;
    change[stay.last + 1] -= stay.bytes;
  }
  const int64_t overhead = outcome.recomputations * instruction_bytes_;
  int64_t live = 0;
  for (size_t m = 0; m < course.rest.size(); ++m) {
    live += change[m];
    const int64_t all = live + course.rest[m];
    outcome.peak_bytes = std::max(outcome.peak_bytes, all);
    outcome.excess += std::max<int64_t>(0, all + overhead - limit_bytes);
  }
  outcome.total_bytes = outcome.peak_bytes + overhead;
  return outcome;
}

std::vector<Retention> RecomputeModel::by_graph_value(const std::vector<Retention>& choice,
                                                      size_t values) const {
  std::vector<Retention> retention(values, Retention::kKept);
  for (size_t v = 0; v < values_.size(); ++v) retention[values_[v].value] = choice[v];
  return retention;
}

}  // namespace mantissa
