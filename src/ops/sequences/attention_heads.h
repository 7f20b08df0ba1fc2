// Heads of attention: their sizes, the memory that they are computed in, and their operands packed
// for the kernels (kernels/attention/attention.h).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/room.h"
#include "kernels/attention/attention.h"
#include "kernels/common/parallel_ranges.h"
#include "numerics/exponential.h"
#include "numerics/real.h"
#include "ops/attributes.h"
#include "ops/rows.h"
#include "ops/sequences/segments.h"
#include "ops/wide_values.h"

namespace mantissa::ops {

// The sizes that all passes use; shapes include the examples. If a sequence is computed piece by
// piece, the tensors have the queries and new keys of a piece, and the cache has room for the keys
// of all positions. Keys of another sequence are all there from the first piece on. A head of keys
// and values serves `group` heads of queries.
struct AttentionSizes {
  int64_t sequences, queries, new_keys, keys, width, key_width, heads, key_heads, group, channels;
  int64_t bias_table;            // biases of a head
  bool is_wide_forward, is_wide_backward;  // whether the kernels' rooms are (attention.h)
  // Forward, queries have `q_bits`; `shared` are the bits of queries, keys and values at one
  // exponent each.
  AttentionSizes(const AttentionAttributes& attributes, const Shape& q, const Shape& k,
                 int64_t cached_positions, int q_bits, const std::array<int, 3>& shared)
      : queries(q[q.rank - 2]),
        new_keys(k[k.rank - 2]),
        keys(new_keys),
        width(q.last()),
        key_width(k.last()),
        heads(attributes.heads),
        key_heads(attributes.key_heads()),
        group(heads / key_heads),
        channels(width / heads),
        bias_table(attributes.biases_of_head()) {
    kernels::AttentionHead head{
        .channels = channels,
        .q_bits = q_bits,
        .k_bits = shared[1],
        .v_bits = shared[2],
        .row_probabilities = attributes.probabilities == Probabilities::kOfRow};
    is_wide_forward = !head.has_narrow_scores();
    head.q_bits = shared[0];
    is_wide_backward = !kernels::has_narrow_gradients(head);
    sequences = q.count() / (queries * width);
    if (cached_positions > 0 && !attributes.cross) keys = cached_positions;
  }
  explicit AttentionSizes(const OpContext& c)
      : AttentionSizes(
            c.attributes<AttentionAttributes>(), c.inputs[0].shape, c.inputs[1].shape,
            c.memory.cache.positions, c.inputs[0].bits,
            {shared_bits(c.inputs[0]), shared_bits(c.inputs[1]), shared_bits(c.inputs[2])}) {}
  explicit AttentionSizes(const OpShapes& s)
      : AttentionSizes(s.attributes->as<AttentionAttributes>(), s.inputs[0], s.inputs[1],
                       s.cached_positions, s.input_bits(0),
                       {shared_bits(s, 0), shared_bits(s, 1), shared_bits(s, 2)}) {}

  // Keys, or values, of a head.
  int64_t key_bytes() const { return keys * channels * int64_t{sizeof(int16_t)}; }
  // The tensors' rows with which a segment begins.
  int64_t first_query(const Segment& at) const { return at.sequence * queries + at.first; }
  int64_t first_key(const Segment& at) const { return at.sequence * new_keys + at.first; }
};

// The room of one thread: a head's packed operands, unless a cache has them, its gradients, and the
// kernel's room.
struct HeadRoom {
  int16_t *q, *k, *v;
  int32_t* shifts;
  int32_t* grad_out = nullptr;
  int64_t* grad_bias = nullptr;
  std::byte* kernel;
  int64_t bytes;

  HeadRoom(std::byte* base, const AttentionSizes& s, bool is_backward, bool is_cached) {
    Room room(base);
    q = room.take<int16_t>(s.queries * s.channels);
    k = room.take<int16_t>(is_cached ? 0 : s.keys * s.channels);
    v = room.take<int16_t>(is_cached ? 0 : s.keys * s.channels);
    shifts = room.take<int32_t>(s.queries);
    if (is_backward) {
      grad_out = room.take<int32_t>(s.queries * s.channels);
      grad_bias = room.take<int64_t>(s.bias_table);
    }
    kernel = room.take<std::byte>(kernels::attention_room_bytes(
        s.queries, s.keys, s.channels, is_backward,
        is_backward ? s.is_wide_backward : s.is_wide_forward));
    bytes = room.bytes();
  }
};

// Wide results: of the output, or of the three gradients and that of the bias. The bias comes after
// them, and then the rooms of the threads.
struct WideResults {
  int64_t *q, *k = nullptr, *v = nullptr, *grad_bias = nullptr;
  int32_t* bias;  // [heads, ...], as kernels take it
  std::byte* rooms;
  int64_t bytes;

  WideResults(std::byte* base, const AttentionSizes& s, bool is_backward) {
    Room room(base);
    q = room.take<int64_t>(s.sequences * s.queries * s.width);
    if (is_backward) {
      k = room.take<int64_t>(s.sequences * s.keys * s.key_width);
      v = room.take<int64_t>(s.sequences * s.keys * s.key_width);
      grad_bias = room.take<int64_t>(s.heads * s.bias_table);
    }
    bias = room.take<int32_t>(s.heads * s.bias_table);
    bytes = room.bytes();
    rooms = base + bytes;
  }
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

// The channels of a head of this many rows, one row after the other.
template <typename T>
inline void pack_rows(const Tensor& from, int64_t offset, int64_t rows, const AttentionSizes& s,
                      T* to) {
  const int64_t width = from.shape.last();
  kernels::with_wide_gradient_type(from.bits, [&](auto type) {
    const auto* row = from.as<decltype(type)>() + offset;
    for (int64_t i = 0; i < rows; ++i, row += width, to += s.channels) {
      for (int64_t c = 0; c < s.channels; ++c) to[c] = static_cast<T>(row[c]);
    }
  });
}

// Brings packed rows to an exponent. The first of them is the tensor's row `first`.
inline void align_packed(const Tensor& from, int64_t first, int64_t rows, int exponent,
                         const AttentionSizes& s, int16_t* to) {
  for (int64_t i = 0; i < rows; ++i, to += s.channels) {
    const int shift = exponent - from.row_exponent(first + i);
    for (int64_t c = 0; c < s.channels; ++c) {
      to[c] = static_cast<int16_t>(rescale_rne(to[c], shift));
    }
  }
}

// The common exponent of the queries, or of the keys or values, of a segment: from the rows that
// are not padding.
inline int query_exponent(const Tensor& q, const AttentionSizes& s, const Segment& at,
                          int64_t queries) {
  return shared_exponent(q, s.first_query(at), queries);
}

inline int key_exponent(const Tensor& keys, const AttentionSizes& s, const Segment& at,
                        int64_t valid) {
  return shared_exponent(keys, s.first_key(at), std::min(s.new_keys, valid));
}

// The first rows of keys or values, brought to the common exponent of the valid rows.
inline void pack_keys(const Tensor& from, const HeadOf& at, int64_t valid, const AttentionSizes& s,
                      int16_t* to) {
  const int64_t rows = std::min(s.new_keys, valid);
  pack_rows(from, at.key_offset, rows, s, to);
  if (!has_rows(from)) return;
  align_packed(from, s.first_key(at.segment), rows, key_exponent(from, s, at.segment, valid), s,
               to);
}

inline int64_t valid_keys(const OpContext& c, const AttentionSizes& s, const Segment& at) {
  if (is_packed(c)) return at.rows;
  const int64_t valid = c.inputs.size() < 4 ? s.keys : c.inputs[3].as<int32_t>()[at.sequence];
  return std::clamp<int64_t>(valid, 0, s.keys);
}

// A head's keys and values, [keys, channels] each.
struct HeadKeys {
  int16_t *k, *v;
};

// Packed into the room; or into the cache, which already has the earlier positions. Keys and values
// of another sequence are packed with its first piece. The first of the heads that share them packs
// them for all.
inline HeadKeys keys_of(const OpContext& c, const AttentionSizes& s, const HeadOf& at,
                        int64_t valid, const HeadRoom& room) {
  HeadKeys keys{room.k, room.v};
  int64_t first = 0;
  if (c.memory.cache.exists()) {
    std::byte* const of_head = c.memory.cache.of(at.segment.sequence) + 2 * at.key_head * s.key_bytes();
    keys = {reinterpret_cast<int16_t*>(of_head),
            reinterpret_cast<int16_t*>(of_head + s.key_bytes())};
    if (c.attributes<AttentionAttributes>().cross) {
      if (c.step.scalars->position > 0) return keys;
    } else {
      first = c.step.scalars->position * s.channels;
    }
  }
  if (at.place > 0) return keys;
  pack_keys(c.inputs[1], at, valid, s, keys.k + first);
  pack_keys(c.inputs[2], at, valid, s, keys.v + first);
  return keys;
}

constexpr double kLog2E = 1.4426950408889634;

// The queries of a segment without padding; all of them if keys are another sequence's.
inline int64_t valid_queries(const OpContext& c, const AttentionSizes& s, const Segment& at) {
  return c.attributes<AttentionAttributes>().cross ? s.queries
                                                   : std::min(s.queries, valid_keys(c, s, at));
}

// Writes the biases of all heads as kernels take them: logarithms to base 2 in Q16, clipped.
inline void prepare_bias(const OpContext& c, const AttentionSizes& s, int32_t* to) {
  if (s.bias_table == 0) return;
  const Tensor& bias = c.parameters[0].mantissa;
  const Mantissas mantissas(bias);
  for (int64_t i = 0; i < s.heads * s.bias_table; ++i) {
    const int64_t wide = rescale_rne(mantissas[i] * kLog2EQ16, -*bias.exponent);
    to[i] = static_cast<int32_t>(saturate(wide, REF_MOST_BIAS));
  }
}

// A head with its operands packed. Forward, each query keeps its exponent. Backward, the gradient
// of the keys is a sum over queries, so these are brought to one exponent.
inline kernels::AttentionHead pack(const OpContext& c, const AttentionSizes& s, const HeadOf& at,
                                   const HeadRoom& room, const int32_t* bias, bool is_backward) {
  const Tensor &q = c.inputs[0], &k = c.inputs[1], &v = c.inputs[2];
  const auto& attributes = c.attributes<AttentionAttributes>();
  const bool is_causal = attributes.causal;
  const int64_t valid = valid_keys(c, s, at.segment), first = c.step.scalars->position;
  const int64_t queries = valid_queries(c, s, at.segment), first_row = s.first_query(at.segment);
  pack_rows(q, at.offset, queries, s, room.q);
  const HeadKeys keys = keys_of(c, s, at, valid, room);
  const bool shifts_queries = has_rows(q) && !is_backward;
  int q_exponent = *q.exponent;
  if (shifts_queries) {
    for (int64_t i = 0; i < queries; ++i) {
      room.shifts[i] = q_exponent - q.row_exponent(first_row + i);
    }
  } else if (has_rows(q)) {
    q_exponent = query_exponent(q, s, at.segment, queries);
    align_packed(q, first_row, queries, q_exponent, s, room.q);
  }
  const Real scale = Real(kLog2E) / sqrt(Real(s.channels));
  const int fraction = fixed_point_shift(scale, kernels::kAttentionScaleBits);
  constexpr int64_t kMostScale = int64_t{1} << kernels::kAttentionScaleBits;
  const int k_exponent = key_exponent(k, s, at.segment, valid);
  return {.q = room.q,
          .k = keys.k,
          .v = keys.v,
          .queries = queries,
          .keys = is_packed(c) ? valid : s.keys,
          .channels = s.channels,
          .valid_keys = is_causal ? std::min(valid, first + queries) : valid,
          .causal = is_causal,
          .first_query = first,
          .window = attributes.window,
          .q_bits = is_backward ? shared_bits(q) : q.bits,
          .k_bits = shared_bits(k),
          .v_bits = shared_bits(v),
          .scale = to_fixed_point(scale, fraction, kMostScale),
          .shift = fraction - 16 - (q_exponent + k_exponent),
          .query_shifts = shifts_queries ? room.shifts : nullptr,
          .bias = s.bias_table == 0 ? nullptr : bias + at.head * s.bias_table,
          .bias_height = attributes.bias_height,
          .bias_width = attributes.bias_width,
          .row_probabilities = attributes.probabilities == Probabilities::kOfRow};
}

// wide = 0 for the queries that are padding.
inline void clear_padding(const AttentionSizes& s, const HeadOf& at, int64_t queries,
                          int64_t* wide) {
  for (int64_t i = queries; i < at.segment.rows; ++i) {
    std::fill_n(wide + at.offset + i * s.width, s.channels, int64_t{0});
  }
}

// Calls function(head, room) for all heads of all segments, on all threads. Heads that share keys
// follow each other in one room.
template <typename Function>
inline void for_heads(const OpContext& c, const AttentionSizes& s, std::byte* rooms,
                      bool is_backward, const Function& function) {
  const bool is_cached = c.memory.cache.exists();
  const int64_t room_bytes = HeadRoom(nullptr, s, is_backward, is_cached).bytes;
  kernels::parallel_ranges(
      *c.kernel.pool, s.sequences * s.key_heads, 1, [&](int64_t begin, int64_t end, int64_t part) {
        const HeadRoom room(rooms + part * room_bytes, s, is_backward, is_cached);
        for (int64_t i = begin; i < end; ++i) {
          const int64_t first_head = i % s.key_heads * s.group;
          for_segments(c, s.queries, i / s.key_heads, [&](const Segment& at) {
            for (int64_t k = 0; k < s.group; ++k) function(HeadOf(s, at, first_head + k), room);
          });
        }
      });
}

}  // namespace mantissa::ops
