// Segments of packed sequences: several texts lie one behind the other in a sequence and do not see
// each other. An input of int32 [positions] gives for each position the one with which its segment
// begins.
#pragma once

#include <cstdint>

#include "graph/op.h"
#include "ops/attributes.h"

namespace mantissa::ops {

constexpr size_t kStartsOfAttention = 3;  // the place of this input; of one number: lengths
constexpr size_t kStartsOfRotary = 1;

// Positions of a sequence that attend to each other: all of them, or those of one segment.
struct Segment {
  int64_t sequence = 0, first = 0, rows = 0;
};

// Whether the sequences of an attention are packed.
inline bool is_packed(const OpContext& c) {
  return c.inputs.size() > kStartsOfAttention && c.inputs[kStartsOfAttention].shape.rank == 2;
}

// A position begins a segment if it is its own start. Numbers that are none of starts begin none.
inline bool begins_segment(const int32_t* starts, int64_t position) {
  return position == 0 || starts[position] == position;
}

// The segment of a position. `starts`: of its sequence, which has so many positions.
inline Segment segment_at(const int32_t* starts, int64_t positions, int64_t sequence,
                          int64_t position) {
  int64_t first = position, end = position + 1;
  while (!begins_segment(starts, first)) --first;
  while (end < positions && !begins_segment(starts, end)) ++end;
  return {sequence, first, end - first};
}

// Calls visit(segment) for the segments of a sequence in their order. A sequence that is not packed
// is one.
template <typename Visit>
void for_segments(const OpContext& c, int64_t positions, int64_t sequence, const Visit& visit) {
  if (!is_packed(c)) return visit(Segment{sequence, 0, positions});
  const int32_t* const starts =
      c.inputs[kStartsOfAttention].as<int32_t>() + sequence * positions;
  for (int64_t first = 0; first < positions;) {
    const Segment at = segment_at(starts, positions, sequence, first);
    visit(at);
    first += at.rows;
  }
}

// The segment of a row of all sequences.
inline Segment segment_of_row(const OpContext& c, int64_t positions, int64_t row) {
  const int64_t sequence = row / positions;
  if (!is_packed(c)) return {sequence, 0, positions};
  return segment_at(c.inputs[kStartsOfAttention].as<int32_t>() + sequence * positions, positions,
                    sequence, row % positions);
}

}  // namespace mantissa::ops
