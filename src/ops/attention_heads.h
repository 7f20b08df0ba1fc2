// Heads of attention: their sizes, the memory that they are computed in, and their operands packed
// for the kernels (kernels/attention/attention.h).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/attention/attention.h"
#include "kernels/parallel_ranges.h"
#include "numerics/real.h"
#include "ops/room.h"
#include "ops/rows.h"
#include "ops/wide_values.h"

namespace mantissa::ops {

// The sizes that all passes work with; shapes include the examples. Of a sequence that is computed
// piece by piece the tensors have the queries and new keys of a piece, and the cache has room for
// the keys of all positions; those of another sequence are all there from the first piece on.
struct AttentionSizes {
  int64_t sequences, queries, new_keys, keys, width, heads, channels;
  AttentionSizes(const Attributes& attributes, const Shape& q, const Shape& k,
                 int64_t cached_positions)
      : queries(q[q.rank - 2]),
        new_keys(k[k.rank - 2]),
        keys(new_keys),
        width(q.last()),
        heads(attributes.whole("heads")),
        channels(width / heads) {
    sequences = q.count() / (queries * width);
    if (cached_positions > 0 && !attributes.is_set("cross")) keys = cached_positions;
  }
  explicit AttentionSizes(const OpContext& c)
      : AttentionSizes(*c.attributes, c.inputs[0].shape, c.inputs[1].shape, c.cache.positions) {}

  // Keys, or values, of a head.
  int64_t column_bytes() const { return keys * channels * int64_t{sizeof(int16_t)}; }
};

// The room of one thread: a head's operands packed, where no cache has them, a row, and the
// gradients of a head.
struct HeadRoom {
  int16_t *q, *kt, *vt;
  kernels::AttentionRow row;
  int32_t* grad_out = nullptr;
  int64_t *grad_kt = nullptr, *grad_vt = nullptr;
  int64_t bytes;

  HeadRoom(std::byte* base, const AttentionSizes& s, bool is_backward, bool is_cached) {
    Room room(base);
    q = room.take<int16_t>(s.queries * s.channels);
    kt = room.take<int16_t>(is_cached ? 0 : s.keys * s.channels);
    vt = room.take<int16_t>(is_cached ? 0 : s.keys * s.channels);
    row.scores = room.take<int64_t>(s.keys);
    row.powers = room.take<int32_t>(s.keys);
    row.p = room.take<int16_t>(s.keys);
    if (is_backward) {
      row.grad_p = room.take<int64_t>(s.keys);
      row.grad_scores = room.take<int32_t>(s.keys);
      grad_out = room.take<int32_t>(s.queries * s.channels);
      grad_kt = room.take<int64_t>(s.keys * s.channels);
      grad_vt = room.take<int64_t>(s.keys * s.channels);
    }
    bytes = room.bytes();
  }
};

// Wide results: of the output, or of the three gradients. The rooms of the threads lie behind them.
struct WideResults {
  int64_t *q, *k = nullptr, *v = nullptr;
  std::byte* rooms;
  int64_t bytes;

  WideResults(std::byte* base, const AttentionSizes& s, bool is_backward) {
    Room room(base);
    q = room.take<int64_t>(s.sequences * s.queries * s.width);
    if (is_backward) {
      k = room.take<int64_t>(s.sequences * s.keys * s.width);
      v = room.take<int64_t>(s.sequences * s.keys * s.width);
    }
    bytes = room.bytes();
    rooms = base + bytes;
  }
};

// One head of one sequence: `offset` is where its first channel lies in queries, `key_offset` in
// keys and values.
struct HeadOf {
  int64_t sequence, head, offset, key_offset;
  HeadOf(const AttentionSizes& s, int64_t i) : sequence(i / s.heads), head(i % s.heads) {
    offset = sequence * s.queries * s.width + head * s.channels;
    key_offset = sequence * s.new_keys * s.width + head * s.channels;
  }
};

// The exponent that a sequence's keys or values have in common, in mantissas of 16 bits: of those
// that are no padding the largest, less the 8 bits that these have more. Rows with one exponent
// keep it, and their bits.
constexpr int kSharedBits = 16;

inline int shared_exponent(const Tensor& rows, int64_t sequence, int64_t positions, int64_t valid) {
  if (!has_rows(rows)) return *rows.exponent;
  int largest = kExponentMin;
  for (int64_t i = 0; i < valid; ++i) {
    largest = std::max(largest, rows.row_exponent(sequence * positions + i));
  }
  return largest - (kSharedBits - rows.bits);
}

inline int shared_bits(const Tensor& rows) { return has_rows(rows) ? kSharedBits : rows.bits; }

template <typename T>
inline void pack_rows(const Tensor& from, int64_t offset, int64_t rows, const AttentionSizes& s,
                      T* to) {
  const Mantissas mantissas(from);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t c = 0; c < s.channels; ++c) {
      to[i * s.channels + c] = static_cast<T>(mantissas[offset + i * s.width + c]);
    }
  }
}

// Keys or values, brought to the exponent that they share, as columns from `to` on.
inline void pack_columns(const Tensor& from, const HeadOf& at, int64_t valid,
                         const AttentionSizes& s, int16_t* to) {
  const Mantissas mantissas(from);
  const int exponent = shared_exponent(from, at.sequence, s.new_keys, valid);
  for (int64_t i = 0; i < s.new_keys; ++i) {
    const int shift = exponent - from.row_exponent(at.sequence * s.new_keys + i);
    for (int64_t c = 0; c < s.channels; ++c) {
      const int64_t mantissa = mantissas[at.key_offset + i * s.width + c];
      to[c * s.keys + i] =
          i < valid || shift == 0 ? static_cast<int16_t>(rescale_rne(mantissa, shift)) : int16_t{0};
    }
  }
}

inline int64_t valid_keys(const OpContext& c, const AttentionSizes& s, int64_t sequence) {
  const int64_t valid = c.inputs.size() < 4 ? s.keys : c.inputs[3].as<int32_t>()[sequence];
  return std::clamp<int64_t>(valid, 0, s.keys);
}

// A head's keys and values, [channels, keys] each.
struct HeadColumns {
  int16_t *kt, *vt;
};

// Packed into the room; or into the cache, which has those of earlier positions. The columns of
// another sequence are packed with its first piece.
inline HeadColumns columns_of(const OpContext& c, const AttentionSizes& s, const HeadOf& at,
                              int64_t valid, const HeadRoom& room) {
  HeadColumns columns{room.kt, room.vt};
  int64_t first = 0;
  if (c.cache.exists()) {
    std::byte* const of_head = c.cache.of(at.sequence) + 2 * at.head * s.column_bytes();
    columns = {reinterpret_cast<int16_t*>(of_head),
               reinterpret_cast<int16_t*>(of_head + s.column_bytes())};
    if (c.attributes->is_set("cross")) {
      if (c.scalars->position > 0) return columns;
    } else {
      first = c.scalars->position;
    }
  }
  pack_columns(c.inputs[1], at, valid, s, columns.kt + first);
  pack_columns(c.inputs[2], at, valid, s, columns.vt + first);
  return columns;
}

constexpr double kLog2E = 1.4426950408889634;

// A head with its operands packed.
inline kernels::AttentionHead pack(const OpContext& c, const AttentionSizes& s, const HeadOf& at,
                                   const HeadRoom& room) {
  const Tensor &q = c.inputs[0], &k = c.inputs[1], &v = c.inputs[2];
  const int64_t valid = valid_keys(c, s, at.sequence);
  pack_rows(q, at.offset, s.queries, s, room.q);
  const HeadColumns columns = columns_of(c, s, at, valid, room);
  const Real scale = Real(kLog2E) / sqrt(Real(s.channels));
  const int fraction = fixed_point_shift(scale, kernels::kAttentionScaleBits);
  constexpr int64_t kMostScale = int64_t{1} << kernels::kAttentionScaleBits;
  const int score_bits =
      q.bits - 1 + shared_bits(k) - 1 + bit_length(static_cast<uint64_t>(s.channels));
  return {
      .q = room.q,
      .kt = columns.kt,
      .vt = columns.vt,
      .channels = s.channels,
      .keys = s.keys,
      .valid_keys = valid,
      .causal = c.attributes->is_set("causal"),
      .first_query = c.scalars->position,
      .scale = to_fixed_point(scale, fraction, kMostScale),
      .shift = fraction - 16 - (*q.exponent + shared_exponent(k, at.sequence, s.new_keys, valid)),
      .narrow_scores = score_bits <= 30};
}

// Queries that are no padding: of another sequence all are taken.
inline int64_t valid_queries(const OpContext& c, const AttentionSizes& s,
                             const kernels::AttentionHead& head) {
  return c.attributes->is_set("cross") ? s.queries : std::min(s.queries, head.valid_keys);
}

// Calls function(head, room) for all heads of all sequences, on all threads.
template <typename Function>
inline void for_heads(const OpContext& c, const AttentionSizes& s, std::byte* rooms,
                      bool is_backward, const Function& function) {
  const bool is_cached = c.cache.exists();
  const int64_t room_bytes = HeadRoom(nullptr, s, is_backward, is_cached).bytes;
  kernels::parallel_ranges(
      *c.kernel.pool, s.sequences * s.heads, 1, [&](int64_t begin, int64_t end, int64_t part) {
        const HeadRoom room(rooms + part * room_bytes, s, is_backward, is_cached);
        for (int64_t i = begin; i < end; ++i) function(HeadOf(s, i), room);
      });
}

}  // namespace mantissa::ops
