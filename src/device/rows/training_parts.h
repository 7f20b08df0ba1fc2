// Shared by the rows of training programs.
#pragma once

#include "device/text/training_writer.h"

namespace mantissa::device {

template <typename T>
const T& attributes(const TrainingWriter& writer, const Instruction& i) {
  return writer.graph().nodes[static_cast<size_t>(i.node)].attributes.as<T>();
}

// The one gradient that an instruction writes.
inline const Operand& written_gradient(const Instruction& i) {
  for (const Operand& operand : i.grad_inputs()) {
    if (operand.exists()) return operand;
  }
  return i.grad_inputs()[0];
}

// The end of a function's name where values are rounded half up.
inline std::string rounding(const TrainingWriter& writer) {
  return writer.program().options.format.even_ties ? "" : "_half_up";
}

// The instruction's own memory as an expression.
inline std::string work_memory(const TrainingWriter& writer, std::string_view type) {
  return "(" + std::string(type) + "*)(void*)(m->arena + " + c_number(writer.work()) + ")";
}

}  // namespace mantissa::device
