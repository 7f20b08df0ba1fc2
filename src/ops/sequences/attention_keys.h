// Keys and values of attention: where their rows are, the cache of earlier positions, and the
// exponents to which they are brought for the queries.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/room.h"
#include "kernels/common/parallel_ranges.h"
#include "kernels/kernel_table.h"
#include "ops/sequences/attention_sizes.h"

namespace mantissa::ops {

// The cache of a sequence: the rows of its keys and values as they are, with their exponents.
struct CachedKeys {
  int16_t *k_exponents, *v_exponents;
  std::byte *k, *v;
  int64_t bytes;

  CachedKeys(std::byte* base, const AttentionSizes& s) {
    Room room(base);
    k_exponents = room.take<int16_t>(s.k.has_rows ? s.keys : 0);
    v_exponents = room.take<int16_t>(s.v.has_rows ? s.keys : 0);
    k = room.take<std::byte>(s.keys * s.key_width * s.k.bytes());
    v = room.take<std::byte>(s.keys * s.key_width * s.v.bytes());
    bytes = room.bytes();
  }
};

// The keys and values of a segment: `first` is the row of the first one in both tensors.
struct KeyRows {
  Tensor k, v;
  int64_t first;
};

// The same value with rows in a cache.
inline Tensor cached_rows(const Tensor& value, const AttentionSizes& s, std::byte* data,
                          int16_t* exponents) {
  Tensor rows = value;
  rows.data = data;
  rows.shape = Shape{s.keys, s.key_width};
  rows.row_exponents = has_rows(value) ? exponents : nullptr;
  return rows;
}

inline KeyRows key_rows(const OpContext& c, const AttentionSizes& s, const Segment& at) {
  const Tensor &k = c.inputs[1], &v = c.inputs[2];
  if (!c.memory.cache.exists()) return {k, v, s.first_key(at)};
  const CachedKeys cached(c.memory.cache.of(at.sequence), s);
  return {cached_rows(k, s, cached.k, cached.k_exponents),
          cached_rows(v, s, cached.v, cached.v_exponents), 0};
}

// Adds the new rows of a sequence to its cached ones.
inline void remember_rows(const Tensor& value, int64_t sequence, int64_t count, int64_t position,
                          const Tensor& to) {
  const int64_t row_bytes = value.shape.last() * element_bytes(value.type);
  std::memcpy(to.as<std::byte>() + position * row_bytes,
              value.as<std::byte>() + sequence * count * row_bytes,
              static_cast<size_t>(count * row_bytes));
  if (!has_rows(value)) return;
  std::copy_n(value.row_exponents + sequence * count, count, to.row_exponents + position);
}

// Adds the keys and values of a piece to the cache, if there is one. Keys of another sequence are
// there with its first piece.
inline void remember_keys(const OpContext& c, const AttentionSizes& s) {
  if (!c.memory.cache.exists()) return;
  const bool is_cross = c.attributes<AttentionAttributes>().cross;
  const int64_t position = c.step.scalars->position;
  if (is_cross && position > 0) return;
  for (int64_t sequence = 0; sequence < s.sequences; ++sequence) {
    const KeyRows rows = key_rows(c, s, {sequence, 0, s.queries});
    remember_rows(c.inputs[1], sequence, s.new_keys, position, rows.k);
    remember_rows(c.inputs[2], sequence, s.new_keys, position, rows.v);
  }
}

// For each query of a segment, the exponent to which keys, or values, are brought for it: from
// the rows that are not padding and, if attention is causal, not behind the query.
inline void write_shared_exponents(const OpContext& c, const AttentionSizes& s, const Segment& at,
                                   const Tensor& rows, int64_t first, int32_t* to) {
  const int64_t valid = valid_keys(c, s, at), position = c.step.scalars->position;
  const bool is_causal = c.attributes<AttentionAttributes>().causal;
  int largest = kExponentMin;
  int64_t seen = 0;
  for (int64_t i = 0; i < at.rows; ++i) {
    const int64_t end = is_causal ? std::min(valid, position + i + 1) : valid;
    for (; has_rows(rows) && seen < end; ++seen) {
      largest = std::max(largest, rows.row_exponent(first + seen));
    }
    to[i] = has_rows(rows) ? largest - (kSharedBits - rows.bits) : *rows.exponent;
  }
}

// The queries [begin, end) of a segment, and the exponents of the keys and values for them.
struct QueryRun {
  int64_t begin, end;
  int k_exponent, v_exponent;
};

// Calls visit(run) for the queries [0, count) of a segment, given the exponents of each of them.
template <typename Visit>
void for_runs(int64_t count, const int32_t* k_exponents, const int32_t* v_exponents,
              const Visit& visit) {
  for (int64_t begin = 0, end = 0; begin < count; begin = end) {
    while (end < count && k_exponents[end] == k_exponents[begin] &&
           v_exponents[end] == v_exponents[begin]) {
      ++end;
    }
    visit(QueryRun{begin, end, k_exponents[begin], v_exponents[begin]});
  }
}

// The channels of a head of this many rows, one row after the other.
template <typename T>
inline void pack_rows(const Tensor& from, int64_t offset, int64_t rows, int64_t channels, T* to) {
  const int64_t width = from.shape.last();
  kernels::with_wide_gradient_type(from.bits, [&](auto type) {
    const auto* row = from.as<decltype(type)>() + offset;
    for (int64_t i = 0; i < rows; ++i, row += width, to += channels) {
      for (int64_t c = 0; c < channels; ++c) to[c] = static_cast<T>(row[c]);
    }
  });
}

// Brings packed rows to an exponent. The first of them is the tensor's row `first`.
inline void align_packed(const Tensor& from, int64_t first, int64_t rows, int exponent,
                         int64_t channels, int16_t* to) {
  for (int64_t i = 0; i < rows; ++i, to += channels) {
    const int shift = exponent - from.row_exponent(first + i);
    for (int64_t c = 0; c < channels; ++c) {
      to[c] = static_cast<int16_t>(rescale_rne(to[c], shift));
    }
  }
}

// A head's first `count` rows of keys or values, brought to the exponent.
inline void pack_keys(const OpContext& c, const Tensor& from, int64_t first, int64_t count,
                      int64_t key_head, int exponent, const AttentionSizes& s, int16_t* to) {
  c.kernel.table->attention->align(
      {.from = gradient_from(from, first * s.key_width + key_head * s.channels),
       .rows = count,
       .stride = s.key_width,
       .channels = s.channels,
       .exponents = has_rows(from) ? from.row_exponents + first : nullptr,
       .exponent = exponent,
       .to = to});
}

}  // namespace mantissa::ops
