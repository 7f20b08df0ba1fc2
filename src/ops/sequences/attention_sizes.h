// The sizes of attention that all of its passes use.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/attention/attention.h"
#include "ops/attributes.h"
#include "ops/rows.h"
#include "ops/sequences/segments.h"
#include "tensor/grid.h"

namespace mantissa::ops {

// The mantissas of queries, keys or values.
struct AttentionOperand {
  int bits = 8;
  bool has_rows = false;  // an exponent for each row

  explicit AttentionOperand(const Tensor& value)
      : bits(value.bits), has_rows(mantissa::ops::has_rows(value)) {}
  AttentionOperand(const OpShapes& shapes, size_t input)
      : bits(shapes.input_bits(input)),
        has_rows(!shapes.input_grids.empty() && shapes.input_grids[input].blocks == Blocks::kRow) {}
  // Once all rows have one exponent.
  int shared_bits() const { return has_rows ? kSharedBits : bits; }
  int64_t bytes() const { return element_bytes(Grid{.bits = bits}.storage()); }
};

// Shapes include the examples. If a sequence is computed piece by piece, the tensors have the
// queries and new keys of a piece, and the cache has room for the keys of all positions. Keys of
// another sequence are all there from the first piece on. A head of keys and values serves `group`
// heads of queries.
struct AttentionSizes {
  AttentionOperand q, k, v;
  int64_t sequences, queries, new_keys, keys, width, key_width, heads, key_heads, group, channels;
  int64_t bias_table;                      // biases of a head
  bool is_wide_forward, is_wide_backward;  // whether the kernels' rooms are (attention.h)

  AttentionSizes(const AttentionAttributes& attributes, const Shape& q_shape, const Shape& k_shape,
                 int64_t cached_positions, const std::array<AttentionOperand, 3>& operands)
      : q(operands[0]),
        k(operands[1]),
        v(operands[2]),
        queries(q_shape[q_shape.rank - 2]),
        new_keys(k_shape[k_shape.rank - 2]),
        keys(new_keys),
        width(q_shape.last()),
        key_width(k_shape.last()),
        heads(attributes.heads),
        key_heads(attributes.key_heads()),
        group(heads / key_heads),
        channels(width / heads),
        bias_table(attributes.biases_of_head()) {
    // Forward, queries keep their own exponents and bits.
    kernels::AttentionHead head{
        .channels = channels,
        .q_bits = q.bits,
        .k_bits = k.shared_bits(),
        .v_bits = v.shared_bits(),
        .row_probabilities = attributes.probabilities == Probabilities::kOfRow};
    is_wide_forward = !head.has_narrow_scores();
    head.q_bits = q.shared_bits();
    is_wide_backward = !kernels::has_narrow_gradients(head);
    sequences = q_shape.count() / (queries * width);
    if (cached_positions > 0 && !attributes.cross) keys = cached_positions;
  }
  explicit AttentionSizes(const OpContext& c)
      : AttentionSizes(c.attributes<AttentionAttributes>(), c.inputs[0].shape, c.inputs[1].shape,
                       c.memory.cache.positions,
                       {AttentionOperand(c.inputs[0]), AttentionOperand(c.inputs[1]),
                        AttentionOperand(c.inputs[2])}) {}
  explicit AttentionSizes(const OpShapes& s)
      : AttentionSizes(s.attributes->as<AttentionAttributes>(), s.inputs[0], s.inputs[1],
                       s.cached_positions,
                       {AttentionOperand(s, 0), AttentionOperand(s, 1), AttentionOperand(s, 2)}) {}

  // The tensors' rows with which a segment begins.
  int64_t first_query(const Segment& at) const { return at.sequence * queries + at.first; }
  int64_t first_key(const Segment& at) const { return at.sequence * new_keys + at.first; }
};

// One head of one segment: `offset` is the place of its first channel in queries, `key_offset` in
// keys and values. `place` is its place among the heads that share the keys.
struct HeadOf {
  Segment segment;
  int64_t head, key_head, place, offset, key_offset;
  HeadOf(const AttentionSizes& s, const Segment& at, int64_t head_of_all)
      : segment(at),
        head(head_of_all),
        key_head(head / s.group),
        place(head % s.group),
        offset(s.first_query(at) * s.width + head * s.channels),
        key_offset(s.first_key(at) * s.key_width + key_head * s.channels) {}
};

// The keys of a segment without padding.
inline int64_t valid_keys(const OpContext& c, const AttentionSizes& s, const Segment& at) {
  if (is_packed(c)) return at.rows;
  const int64_t valid = c.inputs.size() < 4 ? s.keys : c.inputs[3].as<int32_t>()[at.sequence];
  return std::clamp<int64_t>(valid, 0, s.keys);
}

// The queries of a segment without padding; all of them if keys are another sequence's.
inline int64_t valid_queries(const OpContext& c, const AttentionSizes& s, const Segment& at) {
  return c.attributes<AttentionAttributes>().cross ? s.queries
                                                   : std::min(s.queries, valid_keys(c, s, at));
}

// Calls visit(segment) for the segments of all sequences.
template <typename Visit>
void for_all_segments(const OpContext& c, const AttentionSizes& s, const Visit& visit) {
  for (int64_t i = 0; i < s.sequences; ++i) for_segments(c, s.queries, i, visit);
}

}  // namespace mantissa::ops
