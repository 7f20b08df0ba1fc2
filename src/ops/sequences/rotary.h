// Pairs of channels that turn with the position (rotary positions): the sizes that integers and
// floats share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "ops/sequences/angles.h"
#include "ops/sequences/segments.h"

namespace mantissa::ops {

// A row of a sequence: its heads, and in each the channels that turn, which come first.
struct TurnedRow {
  int64_t channels, heads, of_head, pairs, positions;
  PairPlaces places;

  TurnedRow(const RotaryAttributes& attributes, const Shape& x)
      : channels(x.last()),
        heads(attributes.heads),
        of_head(channels / heads),
        pairs((attributes.channels == 0 ? of_head : attributes.channels) / 2),
        positions(x[x.rank - 2]),
        places(attributes.interleaved, pairs) {}

  // to = from turned by the angles of a row of the table, or by -1 times these. A sum of two
  // products is below sqrt(2) times the largest product, and one unit more. Channels that do not
  // turn are multiplied by `one`.
  template <typename From, typename Point, typename To>
  void turn(const From* from, const Point* cosines, const Point* sines, To one, To direction,
            To* to) const {
    for (int64_t head = 0; head < heads; ++head, from += of_head, to += of_head) {
      for (int64_t i = 0; i < pairs; ++i) {
        const int64_t first = places.first(i), second = places.second(i);
        const To x = from[first], y = from[second], cosine = cosines[i],
                 sine = direction * static_cast<To>(sines[i]);
        to[first] = x * cosine - y * sine;
        to[second] = x * sine + y * cosine;
      }
      for (int64_t i = 2 * pairs; i < of_head; ++i) to[i] = static_cast<To>(from[i]) * one;
    }
  }
};

inline OpMemory rotary_memory(const OpShapes& s, const PlanningContext&) {
  const TurnedRow row(s.attributes->as<RotaryAttributes>(), s.inputs[0]);
  const RowMemory table = {.workspace_bytes = circle_table_bytes(row.positions, row.pairs)};
  const bool has_starts = s.inputs.size() > kStartsOfRotary;
  return {.saved_bytes = has_starts ? s.inputs[kStartsOfRotary].count() * int64_t{sizeof(int32_t)} : 0,
          .forward = table,
          .grad_input = table};
}

// Keeps the starts of segments for the backward pass, which does not read the inputs.
inline void save_starts(const OpContext& c) {
  if (c.memory.saved == nullptr) return;
  const Tensor& starts = c.inputs[kStartsOfRotary];
  std::copy_n(starts.as<int32_t>(), starts.count(), reinterpret_cast<int32_t*>(c.memory.saved));
}

// The position of a row of all sequences within its sequence, or its segment.
inline int64_t position_of_row(const OpContext& c, int64_t positions, int64_t row) {
  const int64_t position = row % positions;
  const int32_t* starts = reinterpret_cast<const int32_t*>(c.memory.saved);
  if (starts == nullptr && c.inputs.size() > kStartsOfRotary) {
    starts = c.inputs[kStartsOfRotary].as<int32_t>();
  }
  if (starts == nullptr) return position;
  return position - std::clamp<int64_t>(starts[row], 0, position);
}

inline Prepared prepare_rotary(const OpContext& c) {
  const auto& attributes = c.attributes<RotaryAttributes>();
  const Tensor& x = c.output().shape.rank > 0 ? c.output() : c.grad_output();
  const TurnedRow row(attributes, x.shape);
  return prepare_circle_table(angles_of_pairs(row.pairs, attributes.base, attributes.factors),
                              row.positions);
}

}  // namespace mantissa::ops
