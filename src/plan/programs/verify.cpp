#include "plan/programs/verify.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

namespace mantissa {
namespace {

using Space = Operand::Space;

// Whether instructions may use operands of a role in this way.
bool is_allowed(Role role, Access access) {
  switch (role) {
    case Role::kInput:
    case Role::kGradOutput:
      return access == Access::kReads || access == Access::kNone;
    case Role::kOutput:
      return access == Access::kReads || access == Access::kWrites;
    case Role::kGradInput:
      return access == Access::kWrites || access == Access::kNone;
    case Role::kSum:
      return access != Access::kNone;
    case Role::kScratch:
      return access == Access::kWrites;
    case Role::kVelocity:
    case Role::kCache:
      return access == Access::kUpdates;
    case Role::kParameter:
      return access == Access::kReads || access == Access::kUpdates;
    case Role::kSaved:
    case Role::kStatistics:
    case Role::kWorkspace:
      return access == Access::kReads || access == Access::kWrites;
  }
  return false;
}

class Verifier {
 public:
  Verifier(const Graph& graph, const Program& program)
      : graph_(graph), program_(program), written_(program.buffers.size(), false) {}

  Status run() {
    MANTISSA_RETURN_IF_ERROR(check_places());
    MANTISSA_RETURN_IF_ERROR(check_schedule());
    for (const Instruction& instruction : program_.instructions) {
      MANTISSA_RETURN_IF_ERROR(check_kind(instruction));
      MANTISSA_RETURN_IF_ERROR(check_operands(instruction));
      note_writes(instruction);
      ++at_;
    }
    for (const Operand& output : program_.outputs) {
      if (output.in_arena() && !written_[output.index]) {
        return failed("program: an output is never written");
      }
    }
    return {};
  }

 private:
  Error wrong(const Instruction& instruction, const std::string& what) const {
    return failed("program, instruction " + std::to_string(at_) + " (" +
                  std::string(phase_name(instruction)) + " of " + instruction.op->name + " '" +
                  instruction.name + "'): " + what);
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

  // An instruction has what its kind has, and no more.
  Status check_kind(const Instruction& instruction) const {
    for (const Operand& operand : instruction.operands) {
      if (!is_allowed(operand.role, operand.access)) {
        return wrong(instruction, std::string(access_name(operand.access)) + " an operand '" +
                                      std::string(role_name(operand.role)) + "'");
      }
    }
    if (!std::ranges::is_sorted(instruction.operands, {}, &Operand::role)) {
      return wrong(instruction, "has operands that are not in the order of their roles");
    }
    const SegmentKind kind = kind_of(instruction);
    if (instruction.again && kind != SegmentKind::kForward) {
      return wrong(instruction, "computes something again that is no value");
    }
    if (kind == SegmentKind::kUpdate && instruction.parameters().empty()) {
      return wrong(instruction, "has no parameter");
    }
    if (instruction.gradient_rows != nullptr && !updates_parameter(instruction)) {
      return wrong(instruction, "computes rows of a gradient");
    }
    // Updates of a single micro-batch run with it.
    const bool is_end = kind == SegmentKind::kUpdate || kind == SegmentKind::kStatistics;
    if (instruction.once_per_step && !is_end) {
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
    const auto check_index = [&](int64_t count, const char* what) -> Status {
      if (operand.index >= 0 && operand.index < count) return {};
      return wrong(instruction, std::string("has ") + what + " that does not exist");
    };
    if (operand.exponent >= std::ssize(program_.exponents)) {
      return wrong(instruction, "has an exponent that does not exist");
    }
    switch (operand.space) {
      case Space::kNone:
        return {};
      case Space::kInput:
        return check_index(std::ssize(graph_.inputs) + std::ssize(program_.options.given),
                           "an input");
      case Space::kState:
        return check_index(std::ssize(graph_.parameters), "a parameter");
      case Space::kCache:
        return check_index(std::ssize(program_.caches), "a cache");
      case Space::kArena:
        break;
    }
    MANTISSA_RETURN_IF_ERROR(check_buffer(instruction, operand.index, operand.bytes()));
    if (!needs_data(operand.access) || written_[operand.index]) return {};
    return wrong(instruction,
                 "reads '" + program_.buffers[operand.index].name + "' before it is written");
  }

  Status check_operands(const Instruction& instruction) const {
    for (const Operand& operand : instruction.operands) {
      MANTISSA_RETURN_IF_ERROR(check_operand(instruction, operand));
    }
    return {};
  }

  void note_writes(const Instruction& instruction) {
    for (const Operand& operand : instruction.operands) {
      if (operand.in_arena() && writes(operand.access)) written_[operand.index] = true;
    }
  }

  const Graph& graph_;
  const Program& program_;
  std::vector<bool> written_;  // by buffer
  int at_ = 0;                 // instruction
};

}  // namespace

Status verify(const Graph& graph, const Program& program) { return Verifier(graph, program).run(); }

}  // namespace mantissa
