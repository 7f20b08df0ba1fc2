#include "plan/retention/recompute_model.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "plan/retention/retention_evaluator.h"

namespace mantissa {
namespace {

constexpr double kLoopNs = 2000;  // starting the threads for an instruction

// Times are whole nanoseconds: adding them is exact, in any order.
double whole(double nanoseconds) { return std::nearbyint(nanoseconds); }

// Writing a value there and loading it.
double keep_ns(int64_t bytes, const MemoryTier& tier) {
  return whole(2 * static_cast<double>(bytes) / tier.bytes_per_ns);
}

// Of values and gradients.
int64_t bytes_of(const Instruction& instruction) {
  int64_t bytes = 0;
  for (const Operand& operand : instruction.operands) {
    if (operand.role <= Role::kGradInput) bytes += operand.bytes();
  }
  return bytes;
}

int64_t buffer_bytes(const Program& program, int buffer) {
  return buffer < 0 ? 0 : program.buffers[buffer].bytes;
}

double macs_per_ns(const Graph& graph, const Program& program, const Instruction& instruction,
                   const MachineProfile& profile) {
  const bool is_real = std::ranges::any_of(
      instruction.operands, [](const Operand& each) { return each.type == DataType::kFloat; });
  if (is_real) return profile.float_macs_per_ns;
  if (instruction.node < 0 || instruction.inputs().empty()) return profile.dense_macs_per_ns;
  for (const Operand& input : instruction.inputs()) {
    const bool is_wide = input.exponent >= 0 && program.exponents[input.exponent].bits > 8;
    if (is_wide) return profile.wide_macs_per_ns;
  }
  const std::vector<int>& parameters = graph.nodes[instruction.node].parameters;
  const bool depthwise = !parameters.empty() && instruction.inputs()[0].shape.last() > 1 &&
                         graph.parameters[parameters[0]].shape.last() == 1;
  return depthwise ? profile.depthwise_macs_per_ns : profile.dense_macs_per_ns;
}

// The time of instructions that do not multiply, all threads together. For values of up to 8 bits,
// clipping takes as long as copying from where its operands lie.
double elements_ns(const Instruction& instruction, const MachineProfile& profile,
                   const MemoryTier& operands, int threads) {
  const Op& op = *instruction.op;
  if (op.traits.clips.negatives && instruction.output().type == DataType::kInt8) {
    return static_cast<double>(bytes_of(instruction)) / operands.bytes_per_ns;
  }
  const bool is_norm = bool{op.integer.statistics};
  int64_t elements = instruction.output().shape.count();
  for (const Operand& gradient : instruction.grad_inputs()) {
    elements = std::max(elements, gradient.shape.count());
  }
  return static_cast<double>(elements) / threads /
         (is_norm ? profile.norm_elements_per_ns : profile.elements_per_ns);
}

double compute_ns(const Graph& graph, const Program& program, const Instruction& instruction,
                  const MachineProfile& profile, const MemoryTier& operands, int threads) {
  const double mac_ns = static_cast<double>(instruction.multiply_adds) /
                        macs_per_ns(graph, program, instruction, profile);
  return whole(kLoopNs + elements_ns(instruction, profile, operands, threads) + mac_ns / threads);
}

}  // namespace

double estimated_ns(const Graph& graph, const Program& program, const Instruction& instruction,
                    const MachineProfile& profile, int threads) {
  return compute_ns(graph, program, instruction, profile, profile.tiers.back(), threads);
}

RecomputeModel::RecomputeModel(const Graph& graph, const Program& program,
                               const MachineProfile& profile, int threads,
                               int64_t instruction_bytes, int64_t least_arena_bytes,
                               const InFlight& in_flight)
    : tiers_(profile.tiers.begin(), profile.tiers.end()), instruction_bytes_(instruction_bytes) {
  tiers_.push_back(profile.on_chip);
  find_received(graph, program);
  find_values(graph, program, profile, threads);
  find_reads(program, profile);
  add_in_flight(in_flight);
  place_on_chip(profile);
  add_up_the_rest(program, least_arena_bytes);
}

// Values that no instruction of the program writes.
void RecomputeModel::find_received(const Graph& graph, const Program& program) {
  std::set<int> known;
  for (const Instruction& instruction : program.instructions) {
    if (!is_forward(instruction)) continue;
    for (const Operand& output : instruction.outputs()) known.insert(output.exponent);
  }
  for (const Instruction& instruction : program.instructions) {
    for (const Role role : {Role::kInput, Role::kOutput}) {
      for (const Operand& operand : instruction.of(role)) {
        if (!is_kept_value(program, operand) || !known.insert(operand.exponent).second) continue;
        Value value;
        value.value = operand.exponent;
        value.name = graph.values[value.value].name;
        value.bytes = buffer_bytes(program, operand.index);
        value.stays = value.is_received = true;
        value.may_go = false;
        value.forward = value.last_forward = 0;
        values_.push_back(std::move(value));
      }
    }
  }
}

void RecomputeModel::find_values(const Graph& graph, const Program& program,
                                 const MachineProfile& profile, int threads) {
  std::vector<int> model_value(graph.values.size(), -1);
  for (size_t v = 0; v < values_.size(); ++v) model_value[values_[v].value] = static_cast<int>(v);
  first_backward_ = static_cast<int>(program.instructions.size());
  for (int i = 0; i < static_cast<int>(program.instructions.size()); ++i) {
    const Instruction& instruction = program.instructions[i];
    if (!is_forward(instruction)) {
      first_backward_ = i;
      break;
    }
    Value value;
    for (const Operand& input : instruction.inputs()) {
      if (!is_kept_value(program, input)) continue;
      value.inputs.push_back(model_value[input.exponent]);
      values_[value.inputs.back()].last_forward = i;
    }
    // Several outputs are kept: computing one again would compute all.
    for (size_t k = 1; k < instruction.outputs().size(); ++k) {
      Value another;
      another.value = instruction.outputs()[k].exponent;
      another.name = graph.values[another.value].name;
      another.inputs = value.inputs;
      another.bytes = buffer_bytes(program, instruction.outputs()[k].index);
      another.forward = another.last_forward = i;
      model_value[another.value] = static_cast<int>(values_.size());
      values_.push_back(std::move(another));
    }
    if (!is_kept_value(program, instruction.output())) continue;
    value.value = instruction.output().exponent;
    value.name = graph.values[value.value].name;
    value.bytes = buffer_bytes(program, instruction.output().index);
    value.transient_bytes =
        instruction.first(Role::kWorkspace).bytes() + instruction.first(Role::kScratch).bytes();
    const bool leaves =
        std::any_of(program.outputs.begin(), program.outputs.end(),
                    [&](const Operand& output) { return output.exponent == value.value; });
    value.may_go = !leaves && instruction.outputs().size() == 1;
    const auto computing = [&](const MemoryTier& operands) {
      return compute_ns(graph, program, instruction, profile, operands, threads);
    };
    value.compute_ns = computing(profile.tiers.back());
    value.near_compute_ns = computing(profile.tiers.front());
    value.forward = value.last_forward = i;
    model_value[value.value] = static_cast<int>(values_.size());
    values_.push_back(std::move(value));
  }
}

// Finds the values that the backward pass reads, and how far each read is from its last use.
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
    if (i < first_backward_) continue;
    Read read{.instruction = i, .values = {}};
    for (const Operand& output : instruction.outputs()) {
      if (is_kept_value(program, output)) read.values.push_back(model_value[output.exponent]);
    }
    for (const Operand& input : instruction.inputs()) {
      if (is_kept_value(program, input)) read.values.push_back(model_value[input.exponent]);
    }
    if (read.values.empty()) continue;
    for (const int v : read.values) {
      Value& value = values_[v];
      if (std::exchange(value.read_backward, true)) continue;
      const int64_t distance = passed[i] - passed[value.last_forward + 1];
      while (distance > profile.tiers[value.tier].bytes) ++value.tier;
      value.keep_ns = keep_ns(value.bytes, profile.tiers[value.tier]);
    }
    if (!reads_.empty()) {
      reads_.back().ends_node =
          program.instructions[reads_.back().instruction].node != instruction.node;
    }
    reads_.push_back(std::move(read));
  }
}

void RecomputeModel::add_in_flight(const InFlight& in_flight) {
  for (Value& value : values_) {
    value.copies_bytes = (in_flight.window - 1) * value.bytes;
    value.stays = value.stays || (!in_flight.stays.empty() && in_flight.stays[value.value]);
    value.may_go = value.may_go && !value.stays;
  }
  for (Read& read : reads_) {
    read.apart = !in_flight.apart.empty() && in_flight.apart[read.instruction];
    for (const int v : read.values) {
      (read.apart ? values_[v].read_apart : values_[v].read_before) = true;
    }
  }
}

void RecomputeModel::place_on_chip(const MachineProfile& profile) {
  int64_t room = profile.on_chip.bytes;
  for (Value& value : values_) {
    if (!value.read_backward || value.bytes > room) continue;
    room -= value.bytes;
    value.tier = static_cast<int>(tiers_.size()) - 1;
    value.keep_ns = keep_ns(value.bytes, profile.on_chip);
  }
}

void RecomputeModel::add_up_the_rest(const Program& program, int64_t least_arena_bytes) {
  const size_t instructions = program.instructions.size();
  during_.assign(instructions + 1, 0);
  before_.assign(instructions + 1, 0);
  for (const Buffer& buffer : program.buffers) {
    if (buffer.kind == BufferKind::kActivation || buffer.last < buffer.first) continue;
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
  // A moment at which this much is alive: the first, when there is only the data that it writes.
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
