#include "plan/programs/verify.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

namespace mantissa {
namespace {

using Space = Operand::Space;

class Verifier {
 public:
  Verifier(const Graph& graph, const Program& program)
      : graph_(graph), program_(program), written_(program.buffers.size(), false) {}

  Status run() {
    MANTISSA_RETURN_IF_ERROR(check_places());
    MANTISSA_RETURN_IF_ERROR(check_schedule());
    for (const Instruction& instruction : program_.instructions) {
      MANTISSA_RETURN_IF_ERROR(check_phase(instruction));
      MANTISSA_RETURN_IF_ERROR(check_references(instruction));
      MANTISSA_RETURN_IF_ERROR(check_reads(instruction));
      note_writes(instruction);
      ++at_;
    }
    for (const Operand& output : program_.outputs) {
      if (output.space == Space::kArena && !written_[output.index]) {
        return failed("program: an output is never written");
      }
    }
    return {};
  }

 private:
  Error wrong(const Instruction& instruction, const std::string& what) const {
    return failed("program, instruction " + std::to_string(at_) + " (" +
                  std::string(phase_name(instruction.phase)) + " of " + instruction.op->name +
                  " '" + instruction.name + "'): " + what);
  }

  // Buffers in the order in which they begin to live, each against the buffers still alive.
  Status check_places() const {
    const std::vector<Buffer>& buffers = program_.buffers;
    std::vector<int> order(buffers.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return buffers[a].first < buffers[b].first; });
    std::vector<int> alive;
    for (const int index : order) {
      const Buffer& b = buffers[index];
      if (b.offset < 0 || b.offset % 64 != 0 || b.bytes < 0 ||
          b.offset + b.bytes > program_.arena_bytes || b.first > b.last) {
        return failed("program: buffer '" + b.name + "' does not lie in the arena");
      }
      std::erase_if(alive, [&](int other) { return buffers[other].last < b.first; });
      for (const int other : alive) {
        const Buffer& a = buffers[other];
        const bool apart = a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset;
        if (!apart && a.bytes > 0 && b.bytes > 0) {
          return failed("program: buffers '" + a.name + "' and '" + b.name + "' overlap");
        }
      }
      alive.push_back(index);
    }
    return {};
  }

  // Every instruction is in one segment, every segment in one stretch, and none before those that
  // it may depend on. Lifetimes are counted in the order of the instructions.
  Status check_schedule() const {
    int next = 0;
    for (const Stretch& stretch : program_.schedule) {
      for (const int s : stretch.segments) {
        if (s < 0 || s >= static_cast<int>(program_.segments.size())) {
          return failed("program: the schedule names a segment that does not exist");
        }
        for (const int i : program_.segments[s].instructions) {
          if (i != next++) return failed("program: the schedule leaves the instructions' order");
          const bool once = program_.instructions[i].once_per_step;
          if (once == stretch.every_micro_batch) {
            return failed("program: '" + program_.instructions[i].name +
                          "' runs in the wrong part of the step");
          }
        }
      }
    }
    if (next == static_cast<int>(program_.instructions.size())) return {};
    return failed("program: the schedule leaves out an instruction");
  }

  // An instruction has the fields of its phase and no others.
  Status check_phase(const Instruction& instruction) const {
    const Phase phase = instruction.phase;
    const bool updates = phase == Phase::kUpdate;
    const bool backward = phase == Phase::kBackwardInput || phase == Phase::kBackwardWeights;
    if (!backward && !instruction.grad_inputs.empty()) {
      return wrong(instruction, "writes gradients of inputs");
    }
    if (!backward && !updates && !instruction.grad_outputs.empty()) {
      return wrong(instruction, "reads gradients of outputs");
    }
    if (phase == Phase::kBackwardInput && instruction.grad_inputs.empty()) {
      return wrong(instruction, "writes no gradient");
    }
    if ((updates || phase == Phase::kBackwardWeights) && instruction.parameters.empty()) {
      return wrong(instruction, "has no parameter");
    }
    if (!updates && (instruction.gradient_rows != nullptr || instruction.rows_at_once != 0)) {
      return wrong(instruction, "computes rows of a gradient");
    }
    // Updates of a single micro-batch run with it.
    if (instruction.once_per_step && !updates && phase != Phase::kUpdateStatistics) {
      return wrong(instruction, "would run once in a step");
    }
    return {};
  }

  Status check_buffer(const Instruction& instruction, int index, int64_t bytes) const {
    if (index < 0 || index >= static_cast<int>(program_.buffers.size())) {
      return wrong(instruction, "names a buffer that does not exist");
    }
    const Buffer& buffer = program_.buffers[index];
    if (at_ < buffer.first || at_ > buffer.last) {
      return wrong(instruction, "uses '" + buffer.name + "' beyond its life");
    }
    if (bytes > buffer.bytes) return wrong(instruction, "'" + buffer.name + "' is too small");
    return {};
  }

  Status check_operand(const Instruction& instruction, const Operand& operand) const {
    if (operand.space == Space::kNone) return {};
    if (operand.space == Space::kInput) {
      const bool exists =
          operand.index >= 0 &&
          operand.index < std::ssize(graph_.inputs) + std::ssize(program_.options.given);
      return exists ? Status{} : wrong(instruction, "reads an input that does not exist");
    }
    if (operand.exponent >= static_cast<int>(program_.exponents.size())) {
      return wrong(instruction, "has an exponent that does not exist");
    }
    return check_buffer(instruction, operand.index,
                        operand.shape.count() * element_bytes(operand.type));
  }

  Status check_references(const Instruction& instruction) const {
    for (const auto* operands : {&instruction.inputs, &instruction.outputs,
                                 &instruction.grad_outputs, &instruction.grad_inputs}) {
      for (const Operand& operand : *operands) {
        MANTISSA_RETURN_IF_ERROR(check_operand(instruction, operand));
      }
    }
    for (const ParameterOperand& operand : instruction.parameters) {
      if (operand.parameter < 0 ||
          operand.parameter >= static_cast<int>(graph_.parameters.size())) {
        return wrong(instruction, "has a parameter that does not exist");
      }
      if (operand.gradient_buffer < 0) continue;
      // An update by rows has memory for some of them.
      const int64_t count = graph_.parameters[operand.parameter].shape.count();
      const int64_t bytes = instruction.gradient_rows != nullptr && !operand.measures_sums
                                ? 0
                                : count * element_bytes(operand.gradient_type);
      MANTISSA_RETURN_IF_ERROR(check_buffer(instruction, operand.gradient_buffer, bytes));
    }
    for (const int buffer :
         {instruction.saved, instruction.statistics, instruction.workspace, instruction.scratch}) {
      if (buffer >= 0) MANTISSA_RETURN_IF_ERROR(check_buffer(instruction, buffer, 0));
    }
    return {};
  }

  bool reads_forward_results(const Instruction& instruction) const {
    return instruction.phase == Phase::kBackwardInput ||
           instruction.phase == Phase::kBackwardWeights ||
           instruction.phase == Phase::kUpdateStatistics ||
           (instruction.phase == Phase::kUpdate && instruction.node >= 0);
  }

  Status check_reads(const Instruction& instruction) const {
    const auto check = [&](const Operand& operand) -> Status {
      if (operand.space != Space::kArena || written_[operand.index]) return {};
      return wrong(instruction,
                   "reads '" + program_.buffers[operand.index].name + "' before it is written");
    };
    for (const Operand& input : instruction.inputs) MANTISSA_RETURN_IF_ERROR(check(input));
    for (const Operand& gradient : instruction.grad_outputs) {
      MANTISSA_RETURN_IF_ERROR(check(gradient));
    }
    if (!reads_forward_results(instruction)) return {};
    for (const Operand& output : instruction.outputs) MANTISSA_RETURN_IF_ERROR(check(output));
    for (const int buffer : {instruction.saved, instruction.statistics}) {
      if (buffer >= 0 && !written_[buffer]) {
        return wrong(instruction, "reads what the forward pass did not leave");
      }
    }
    return {};
  }

  void note_writes(const Instruction& instruction) {
    const auto note = [&](int buffer) {
      if (buffer >= 0) written_[buffer] = true;
    };
    for (const auto* operands : {&instruction.outputs, &instruction.grad_inputs}) {
      for (const Operand& operand : *operands) {
        if (operand.space == Space::kArena) note(operand.index);
      }
    }
    for (const ParameterOperand& operand : instruction.parameters) note(operand.gradient_buffer);
    note(instruction.saved);
    note(instruction.statistics);
  }

  const Graph& graph_;
  const Program& program_;
  std::vector<bool> written_;  // by buffer
  int at_ = 0;                 // instruction
};

}  // namespace

Status verify(const Graph& graph, const Program& program) { return Verifier(graph, program).run(); }

}  // namespace mantissa
