#include "plan/programs/step_schedule.h"

#include <array>

#include "plan/programs/program.h"

namespace mantissa {
namespace {

// A value that is computed again belongs to the instruction that reads it first.
SegmentKind kind_of(const std::vector<Instruction>& instructions, size_t i) {
  while (instructions[i].again) ++i;
  return kind_of(instructions[i]);
}

}  // namespace

std::string_view segment_kind_name(SegmentKind kind) {
  constexpr std::array<std::string_view, 6> kNames = {"forward",      "grad_output", "grad_input",
                                                      "grad_weights", "update",      "statistics"};
  return kNames[static_cast<size_t>(kind)];
}

std::vector<Segment> find_segments(const Program& program) {
  std::vector<Segment> segments;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const int layer = program.instructions[i].layer;
    const SegmentKind kind = kind_of(program.instructions, i);
    const bool goes_on =
        !segments.empty() && segments.back().layer == layer && segments.back().kind == kind;
    if (!goes_on) segments.push_back({.kind = kind, .layer = layer, .instructions = {}});
    segments.back().instructions.push_back(static_cast<int>(i));
  }
  return segments;
}

StepSchedule synchronous_schedule(const Program& program) {
  StepSchedule schedule = {{.every_micro_batch = true, .segments = {}},
                           {.every_micro_batch = false, .segments = {}}};
  for (size_t s = 0; s < program.segments.size(); ++s) {
    const bool once = program.instructions[program.segments[s].instructions[0]].once_per_step;
    schedule[once ? 1 : 0].segments.push_back(static_cast<int>(s));
  }
  return schedule;
}

std::string schedule_to_string(const Program& program) {
  std::string text;
  for (const Stretch& stretch : program.schedule) {
    if (stretch.segments.empty()) continue;
    text += stretch.every_micro_batch
                ? "for each of " + std::to_string(program.options.micro_batches) +
                      " micro-batches of " + std::to_string(program.options.micro_batch_size) + "\n"
                : "once in a step\n";
    for (const int s : stretch.segments) {
      const Segment& segment = program.segments[s];
      std::string line = "  " + std::string(segment_kind_name(segment.kind));
      line.resize(16, ' ');
      std::string before;
      for (const int i : segment.instructions) {
        const Instruction& instruction = program.instructions[i];
        line += before + instruction.name;
        if (instruction.again) line += " (again)";
        before = ", ";
      }
      text += line + "\n";
    }
  }
  return text;
}

}  // namespace mantissa
