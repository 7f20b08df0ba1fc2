// Heads of attention: the memory that they are computed in, and their operands packed for the
// kernels (kernels/attention/attention.h).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/room.h"
#include "kernels/attention/attention.h"
#include "kernels/common/parallel_ranges.h"
#include "numerics/exponential.h"
#include "numerics/real.h"
#include "ops/sequences/attention_keys.h"
#include "ops/wide_values.h"

namespace mantissa::ops {

// The room of one thread: a head's packed operands, its gradients, and the kernel's room.
struct HeadRoom {
  int16_t *q, *k, *v;
  int32_t* shifts;
  int32_t* grad_out = nullptr;
  int64_t* grad_bias = nullptr;
  std::byte* kernel;
  int64_t bytes;

  HeadRoom(std::byte* base, const AttentionSizes& s, bool is_backward) {
    Room room(base);
    q = room.take<int16_t>(s.queries * s.channels);
    k = room.take<int16_t>(s.keys * s.channels);
    v = room.take<int16_t>(s.keys * s.channels);
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

// Wide results: of the output, with the exponents of keys and values for each query; or of the
// three gradients and that of the bias. The bias comes after them, and then the rooms of the
// threads.
struct WideResults {
  int64_t *q, *k = nullptr, *v = nullptr, *grad_bias = nullptr;
  int32_t *k_exponents = nullptr, *v_exponents = nullptr;
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
    } else {
      k_exponents = room.take<int32_t>(s.sequences * s.queries);
      v_exponents = room.take<int32_t>(s.sequences * s.queries);
    }
    bias = room.take<int32_t>(s.heads * s.bias_table);
    bytes = room.bytes();
    rooms = base + bytes;
  }
};

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

constexpr double kLog2E = 1.4426950408889634;

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

// Packs a head's queries of a run. Forward, each of them keeps its exponent. Backward, the gradient
// of the keys is a sum over queries, so these are brought to one exponent. Returns the exponent
// from which the room's shifts count.
inline int pack_queries(const OpContext& c, const AttentionSizes& s, const HeadOf& at,
                        const QueryRun& run, const HeadRoom& room, bool is_backward) {
  const Tensor& q = c.inputs[0];
  const int64_t count = run.end - run.begin, first = s.first_query(at.segment) + run.begin;
  pack_rows(q, at.offset + run.begin * s.width, count, s.channels, room.q);
  if (!has_rows(q)) return *q.exponent;
  if (is_backward) {
    const int exponent = query_exponent(q, s, at.segment, count);
    align_packed(q, first, count, exponent, s.channels, room.q);
    return exponent;
  }
  for (int64_t i = 0; i < count; ++i) room.shifts[i] = *q.exponent - q.row_exponent(first + i);
  return *q.exponent;
}

// A head with the packed operands of a run. Its keys and values are in the room already.
inline kernels::AttentionHead pack(const OpContext& c, const AttentionSizes& s, const HeadOf& at,
                                   const QueryRun& run, const HeadRoom& room, const int32_t* bias,
                                   bool is_backward) {
  const auto& attributes = c.attributes<AttentionAttributes>();
  const int64_t position = c.step.scalars->position, valid = valid_keys(c, s, at.segment);
  const int q_exponent = pack_queries(c, s, at, run, room, is_backward);
  const int64_t met = attributes.causal ? std::min(valid, position + run.end) : valid;
  const int64_t all_keys = is_packed(c) ? valid : s.keys;
  const Real scale = Real(kLog2E) / sqrt(Real(s.channels));
  const int fraction = fixed_point_shift(scale, kernels::kAttentionScaleBits);
  constexpr int64_t kMostScale = int64_t{1} << kernels::kAttentionScaleBits;
  return {.q = room.q,
          .k = room.k,
          .v = room.v,
          .queries = run.end - run.begin,
          .keys = is_backward ? all_keys : met,
          .channels = s.channels,
          .valid_keys = met,
          .causal = attributes.causal,
          .first_query = position + run.begin,
          .window = attributes.window,
          .q_bits = is_backward ? s.q.shared_bits() : s.q.bits,
          .k_bits = s.k.shared_bits(),
          .v_bits = s.v.shared_bits(),
          .scale = to_fixed_point(scale, fraction, kMostScale),
          .shift = fraction - 16 - (q_exponent + run.k_exponent),
          .query_shifts = s.q.has_rows && !is_backward ? room.shifts : nullptr,
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

// Calls function(segment, first, room) with the first of the heads that share keys, for all keys of
// all segments, on all threads.
template <typename Function>
inline void for_key_heads(const OpContext& c, const AttentionSizes& s, std::byte* rooms,
                          bool is_backward, const Function& function) {
  const int64_t room_bytes = HeadRoom(nullptr, s, is_backward).bytes;
  kernels::parallel_ranges(
      *c.kernel.pool, s.sequences * s.key_heads, 1, [&](int64_t begin, int64_t end, int64_t part) {
        const HeadRoom room(rooms + part * room_bytes, s, is_backward);
        for (int64_t i = begin; i < end; ++i) {
          const int64_t first = i % s.key_heads * s.group;
          for_segments(c, s.queries, i / s.key_heads,
                       [&](const Segment& at) { function(at, first, room); });
        }
      });
}

}  // namespace mantissa::ops
