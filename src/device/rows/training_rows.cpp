#include "device/rows/training_rows.h"

#include "plan/passes/node_operands.h"

namespace mantissa::device {

const TrainingRow* find_training_row(const Instruction& instruction, const Format& format) {
  const OpRows& rows = rows_in(*instruction.op, format);
  for (const auto all : {training_layer_rows(), training_element_rows(), training_activation_rows(),
                         training_pool_rows(), training_norm_rows()}) {
    for (const TrainingRow& row : all) {
      if (row.op == instruction.op->name && instruction.row == &(rows.*row.row)) return &row;
    }
  }
  return nullptr;
}

}  // namespace mantissa::device
