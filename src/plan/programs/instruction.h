// An instruction: a row of an operator, and one list of operands. All passes read this list.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/op.h"
#include "graph/roles.h"
#include "plan/programs/step_schedule.h"
#include "tensor/tensor.h"

namespace mantissa {

// The place of the data, and its row in the table of exponents.
struct Operand {
  enum class Space : uint8_t { kNone, kArena, kInput, kState, kCache };
  Role role = Role::kInput;
  Access access = Access::kNone;
  Space space = Space::kNone;
  // Sums: the type is known only after computing them (SumWidth). Sums of type int64 may then be
  // int32. If there is room for int32 only, the update computes the sums that need int64.
  bool is_measured = false;
  DataType type = DataType::kInt8;
  // Buffer of the arena; input of the graph (given values come after these); parameter of the
  // graph; or one of the program's caches.
  int index = -1;
  int exponent = -1;  // row of the program's exponents: of a value, its index in the graph
  Shape shape;        // with the micro-batch; without a type, bytes
  // Where the exponents of its rows begin in its buffer, int16 each; -1: they have none.
  int64_t row_exponents = -1;

  bool exists() const { return space != Space::kNone; }
  bool in_arena() const { return space == Space::kArena; }
  bool operator==(const Operand&) const = default;
  int64_t bytes() const { return exists() ? shape.count() * element_bytes(type) : 0; }
};

// The tensors of a parameter.
inline Operand parameter_operand(int parameter) {
  return {.space = Operand::Space::kState, .index = parameter, .shape = {}};
}

struct Instruction {
  const Op* op = nullptr;
  const OpRow* row = nullptr;  // of the op, in the format's arithmetic
  int node = -1;               // of the graph, or -1
  int layer = -1;              // node that it belongs to, or -1
  bool once_per_step = false;  // else in each micro-batch
  // Forward in the backward pass, for a value that was not kept: its outputs were computed before.
  bool again = false;
  std::string name;
  bool relu = false;
  std::vector<Operand> operands;  // by role
  // An update that computes its parameter's gradient itself, a few rows at a time, with this
  // function, unless the gradient is measured and fits; null: the gradient is there.
  const GradientRows* gradient_rows = nullptr;
  int64_t rows_at_once = 0;  // of this gradient, or of logits in slices
  int64_t multiply_adds = 0;

  bool operator==(const Instruction&) const = default;

  // Adds an operand behind the others of its role.
  void add(Operand operand, Role role, Access access) {
    operand.role = role;
    operand.access = access;
    const auto place = std::ranges::upper_bound(operands, role, {}, &Operand::role);
    operands.insert(place, std::move(operand));
  }

  std::span<const Operand> of(Role role) const {
    return {std::ranges::lower_bound(operands, role, {}, &Operand::role),
            std::ranges::upper_bound(operands, role, {}, &Operand::role)};
  }
  std::span<const Operand> inputs() const { return of(Role::kInput); }
  std::span<const Operand> outputs() const { return of(Role::kOutput); }
  std::span<const Operand> grad_outputs() const { return of(Role::kGradOutput); }
  std::span<const Operand> grad_inputs() const { return of(Role::kGradInput); }
  std::span<const Operand> parameters() const { return of(Role::kParameter); }
  std::span<const Operand> sums() const { return of(Role::kSum); }

  // The first of a role, or one of no space.
  const Operand& first(Role role) const {
    static const Operand kNone;
    const auto all = of(role);
    return all.empty() ? kNone : all[0];
  }
  const Operand& output() const { return first(Role::kOutput); }
  const Operand& grad_output() const { return first(Role::kGradOutput); }
};

// The segment that an instruction belongs to follows from its operands. An instruction that
// computes a value again is forward by itself (find_segments puts it before its reader).
SegmentKind kind_of(const Instruction& instruction);

inline bool is_forward(const Instruction& instruction) {
  return !instruction.again && kind_of(instruction) == SegmentKind::kForward;
}
// Whether it takes a step of a parameter.
bool updates_parameter(const Instruction& instruction);

// For reports: "forward", "recompute", "backward_input" ...
std::string_view phase_name(const Instruction& instruction);

// Calls function(buffer) for each buffer of the arena that the instruction uses, some more than
// once.
template <typename Function>
void for_each_buffer(const Instruction& instruction, Function&& function) {
  for (const Operand& operand : instruction.operands) {
    if (operand.in_arena()) function(operand.index);
  }
}

}  // namespace mantissa
