#include "device/rows/frozen_rows.h"

#include <algorithm>

namespace mantissa::device {

const FrozenRow* find_frozen_row(std::string_view op) {
  for (const auto rows : {layer_rows(), pooling_rows(), element_rows()}) {
    const auto found = std::ranges::find(rows, op, &FrozenRow::op);
    if (found != rows.end()) return &*found;
  }
  return nullptr;
}

}  // namespace mantissa::device
