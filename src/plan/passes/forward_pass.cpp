#include <set>

#include "plan/passes/compile_passes.h"

namespace mantissa {
namespace {

void write_node(ProgramWriter& writer, int n) {
  const Node& node = writer.node(n);
  Instruction instruction = writer.forward_instruction(n);
  if (writer.training()) {
    const OpMemory memory = writer.operands().memory_of(node);
    ProgramWriter::NodeBuffers& left = writer.left_by(n);
    if (memory.saved_bytes > 0) {
      left.saved = writer.add_buffer(node.name, BufferKind::kSaved, memory.saved_bytes);
    }
    if (memory.statistics_bytes > 0) {
      left.statistics = writer.add_buffer(node.name, BufferKind::kStatistics,
                                          memory.statistics_bytes * writer.options().micro_batches);
    }
    writer.add_left(instruction, Access::kWrites);
  }
  writer.emit(std::move(instruction));
}

// The nodes that make the values that are not there, and the values that these need.
std::set<int> find_missing(const ProgramWriter& writer, std::vector<int> values) {
  std::set<int> producers;
  while (!values.empty()) {
    const int value = values.back();
    values.pop_back();
    if (writer.is_there(value)) continue;
    const int n = writer.values().producer[writer.values().canonical[value]];
    if (!producers.insert(n).second) continue;
    const std::vector<int>& inputs = writer.node(n).inputs;
    values.insert(values.end(), inputs.begin(), inputs.end());
  }
  return producers;
}

// Whether a result is logits that are never there as a whole.
bool is_sliced(const ProgramWriter& writer, int value) {
  const ResolvedValues& values = writer.values();
  return writer.sliced() && values.producer[values.canonical[value]] == writer.sliced()->layer;
}

}  // namespace

void write_forward(ProgramWriter& writer) {
  for (int n = 0; n < writer.node_count(); ++n) {
    if (writer.is_left_out(n)) continue;
    writer.begin_layer(n);
    if (!writer.sliced()) {
      write_node(writer, n);
    } else if (n == writer.sliced()->loss) {
      write_sliced_loss(writer, *writer.sliced());
    } else if (n != writer.sliced()->layer) {
      write_node(writer, n);
    }
  }
  const std::vector<int>& results = writer.options().results;
  for (const int output : results.empty() ? writer.graph().outputs : results) {
    writer.program().outputs.push_back(is_sliced(writer, output) ? Operand{}
                                                                 : writer.operand(output));
  }
}

void restore_values(ProgramWriter& writer, const std::vector<int>& values) {
  for (const int n : find_missing(writer, values)) {
    Instruction again = writer.forward_instruction(n);
    again.again = true;
    writer.add_left(again, Access::kWrites);
    writer.emit(std::move(again));
  }
}

}  // namespace mantissa
