// The rows of frozen networks as C: each instruction becomes constants and a call of the reference
// or of the runtime for devices.
#pragma once

#include <string_view>

#include "base/result.h"
#include "device/text/c_writer.h"
#include "graph/op.h"

namespace mantissa::device {

struct FrozenRow {
  std::string_view op;
  Status (*write)(CWriter&, const OpContext&);
  // Bytes of the arena that the call needs while it runs. Null: none.
  int64_t (*work_bytes)(const OpContext&) = nullptr;
};

// Null: there is none of this name.
const FrozenRow* find_frozen_row(std::string_view op);

// The rows of a family.
std::span<const FrozenRow> layer_rows();
std::span<const FrozenRow> pooling_rows();
std::span<const FrozenRow> element_rows();

}  // namespace mantissa::device
