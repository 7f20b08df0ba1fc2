// Functions of one 8-bit value as tables of their 256 results.
#pragma once

#include <array>
#include <cstdint>

#include "graph/op.h"

namespace mantissa::ops {

// By the byte of the mantissa; |result| < 2^61.
using ValueTable = std::array<int64_t, 256>;

// Bytes of the workspace that write_by_table needs.
int64_t value_table_workspace_bytes(int threads);

// The output = table[in], wide mantissas at wide_exponent, requantised to its width. The set of
// values that occur decides everything about the exponent; if the table never falls, the least and
// the greatest do. So every mode takes one pass to find them and one to write. `in` has as many
// elements as the output and may be the output.
void write_by_table(const OpContext& context, const int8_t* in, const ValueTable& table,
                    int wide_exponent);

// A table of function(q) for every mantissa q, -128 included.
template <typename Function>
ValueTable make_value_table(const Function& function) {
  ValueTable table;
  for (int q = -128; q < 128; ++q) table[static_cast<uint8_t>(q)] = function(int64_t{q});
  return table;
}

}  // namespace mantissa::ops
