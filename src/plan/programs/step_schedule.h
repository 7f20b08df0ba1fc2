// The order in which a program runs: segments of layers, and a schedule of them that is data.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mantissa {

struct Program;

enum class SegmentKind : uint8_t {
  kForward,
  kGradOutput,  // sums of the gradients that readers give
  kGradInput,   // with the values computed again for it, as in kGradWeights
  kGradWeights,
  kUpdate,
  kStatistics,
};
std::string_view segment_kind_name(SegmentKind kind);

// Instructions of one layer that run one after the other.
struct Segment {
  SegmentKind kind = SegmentKind::kForward;
  int layer = -1;  // node of the graph; -1: of none, such as the norm of all gradients
  std::vector<int> instructions;
  bool operator==(const Segment&) const = default;
};

// Segments that run one after the other: for one micro-batch after the other, or once in a step.
struct Stretch {
  bool every_micro_batch = true;
  std::vector<int> segments;
  bool operator==(const Stretch&) const = default;
};

// It does not grow with the number of micro-batches: executors unroll it.
using StepSchedule = std::vector<Stretch>;

// The instructions of a program, in their order.
std::vector<Segment> find_segments(const Program& program);

// All layers forward, then backward, micro-batch after micro-batch; then the end of the step.
StepSchedule synchronous_schedule(const Program& program);

// One line per stretch and direction.
std::string schedule_to_string(const Program& program);

}  // namespace mantissa
