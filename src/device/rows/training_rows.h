// The rows of training programs as C.
#pragma once

#include <string_view>

#include "base/result.h"
#include "device/text/training_writer.h"
#include "graph/op.h"

namespace mantissa::device {

struct TrainingRow {
  std::string_view op;
  OpRow OpRows::*row;
  Status (*write)(TrainingWriter&, const Instruction&);
  // Bytes of the arena that the call needs while it runs. Null: none.
  int64_t (*work_bytes)(const Graph&, const Instruction&) = nullptr;
};

// Null: C lacks the instruction.
const TrainingRow* find_training_row(const Instruction& instruction, const Format& format);

std::span<const TrainingRow> training_layer_rows();
std::span<const TrainingRow> training_element_rows();
std::span<const TrainingRow> training_activation_rows();
std::span<const TrainingRow> training_pool_rows();
std::span<const TrainingRow> training_norm_rows();

}  // namespace mantissa::device
