// The compiler: network -> program.
#include "plan/passes/compile_passes.h"

namespace mantissa {
namespace {

// By value: its channels, if each may get an exponent of its own.
std::vector<int64_t> guarded_channels(const Graph& graph, const Program& program) {
  std::vector<int64_t> channels(graph.values.size(), 0);
  const auto readers = readers_of(graph);
  for (int value = 0; value < static_cast<int>(channels.size()); ++value) {
    if (program.exponents[value].rule == ExponentRule::kNone) continue;
    if (is_guardable(graph, readers, value)) channels[value] = graph.values[value].shape.last();
  }
  return channels;
}

}  // namespace

Result<Program> compile(const Graph& graph, const ProgramOptions& options,
                        const PlanningContext& planning) {
  ProgramWriter writer(graph, options, planning);
  MANTISSA_RETURN_IF_ERROR(check_network(writer));
  write_forward(writer);
  if (writer.training()) write_backward(writer);
  write_end_of_step(writer);
  Program& program = writer.program();
  program.guarded_channels = guarded_channels(graph, program);
  program.segments = find_segments(program);
  program.schedule = synchronous_schedule(program);
  find_lifetimes(program);
  program.live_bytes = largest_live_set(program.buffers);
  program.arena_bytes = pack_arena(program.buffers, options.arena_limit_bytes);
  return std::move(program);
}

}  // namespace mantissa
