#include <algorithm>
#include <limits>

#include "plan/passes/compile_passes.h"

namespace mantissa {
namespace {

void extend(Buffer& buffer, int instruction) {
  buffer.first = std::min(buffer.first, instruction);
  buffer.last = std::max(buffer.last, instruction);
}

// Results are there until the forward pass has ended.
void extend_results(Program& program) {
  const auto& all = program.instructions;
  const auto end = std::ranges::find_if_not(all, is_forward);
  for (const Operand& output : program.outputs) {
    if (!output.in_arena()) continue;
    extend(program.buffers[output.index], static_cast<int>(end - all.begin()));
  }
}

}  // namespace

void find_lifetimes(Program& program) {
  for (Buffer& buffer : program.buffers) {
    buffer.first = std::numeric_limits<int>::max();
    buffer.last = -1;
  }
  const int count = static_cast<int>(program.instructions.size());
  for (int i = 0; i < count; ++i) {
    for_each_buffer(program.instructions[i],
                    [&](int buffer) { extend(program.buffers[buffer], i); });
  }
  extend_results(program);
  if (program.options.micro_batches == 1) return;
  // Buffers that outlive a micro-batch live for the whole step.
  for (Buffer& buffer : program.buffers) {
    if (buffer.kind != BufferKind::kWeightGradient && buffer.kind != BufferKind::kStatistics) {
      continue;
    }
    extend(buffer, 0);
    extend(buffer, std::max(0, count - 1));
  }
}

}  // namespace mantissa
