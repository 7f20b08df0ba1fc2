// Intermediate results of attention for one head, in memory of the caller's.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/checked.h"
#include "base/room.h"

namespace mantissa::kernels {

// Row by row, for operands of any width.
struct RowRoom {
  int16_t *kt, *vt;  // [channels, keys]
  int64_t* scores;   // [keys], as all that follow but the last two
  int32_t* powers;
  int16_t* p;
  int64_t* grad_p = nullptr;
  int32_t* grad_scores = nullptr;
  int64_t *grad_kt = nullptr, *grad_vt = nullptr;  // [channels, keys]
  int64_t bytes;

  RowRoom(std::byte* base, int64_t keys, int64_t channels, bool is_backward) {
    Room room(base);
    kt = room.take<int16_t>(channels * keys);
    vt = room.take<int16_t>(channels * keys);
    scores = room.take<int64_t>(keys);
    powers = room.take<int32_t>(keys);
    p = room.take<int16_t>(keys);
    if (is_backward) {
      grad_p = room.take<int64_t>(keys);
      grad_scores = room.take<int32_t>(keys);
      grad_kt = room.take<int64_t>(channels * keys);
      grad_vt = room.take<int64_t>(channels * keys);
    }
    bytes = room.bytes();
  }
};

constexpr int64_t kQueryBlock = 32;  // even, and a multiple of the most lanes, as the next
constexpr int64_t kPadding = 32;

// A block of queries at a time, for narrow operands: a pair is two int16 that follow each other in
// a sum, as one int32.
struct BlockRoom {
  int64_t keys, channels, queries;  // padded
  int32_t* kt_pairs;                // [channels / 2, keys], pairs of channels
  int32_t* v_pairs;                 // forward only: [keys / 2, channels], pairs of keys
  int32_t* scores;                  // [block, keys]
  int16_t* p;                       // [block, keys]
  // Forward, for scores that leave int32: queries in two halves, [queries, channels], the sums of
  // the higher ones, and the scores of a query.
  int16_t *q_low, *q_high;
  int32_t* high_scores;  // [block, keys]
  int64_t* wide_scores;  // [keys]
  // Backward only.
  int32_t *vt_pairs, *k_pairs;                // as kt_pairs and v_pairs
  int16_t* grad_out;                          // [queries, channels]
  int16_t *qt, *grad_out_t;                   // [channels, queries]
  int32_t* grad_p;                            // [block, keys]
  int16_t *low, *high;                        // [block, keys]: halves of the scores' gradients
  int32_t *p_pairs, *low_pairs, *high_pairs;  // [block / 2, keys], pairs of queries
  int64_t *grad_kt, *grad_vt;                 // [channels, keys]
  int64_t bytes;

  BlockRoom(std::byte* base, int64_t queries_, int64_t keys_, int64_t channels_, bool is_backward,
            bool has_wide_scores)
      : keys(round_up(keys_, kPadding)),
        channels(round_up(channels_, kPadding)),
        queries(round_up(queries_, kQueryBlock)) {
    Room room(base);
    kt_pairs = room.take<int32_t>(channels / 2 * keys);
    v_pairs = room.take<int32_t>(is_backward ? 0 : keys / 2 * channels);
    scores = room.take<int32_t>(kQueryBlock * keys);
    p = room.take<int16_t>(kQueryBlock * keys);
    const int64_t is_split = !is_backward && has_wide_scores ? 1 : 0;
    q_low = room.take<int16_t>(is_split * queries * channels);
    q_high = room.take<int16_t>(is_split * queries * channels);
    high_scores = room.take<int32_t>(is_split * kQueryBlock * keys);
    wide_scores = room.take<int64_t>(is_split * keys);
    const int64_t is_used = is_backward ? 1 : 0;
    vt_pairs = room.take<int32_t>(is_used * channels / 2 * keys);
    k_pairs = room.take<int32_t>(is_used * keys / 2 * channels);
    grad_out = room.take<int16_t>(is_used * queries * channels);
    qt = room.take<int16_t>(is_used * channels * queries);
    grad_out_t = room.take<int16_t>(is_used * channels * queries);
    grad_p = room.take<int32_t>(is_used * kQueryBlock * keys);
    low = room.take<int16_t>(is_used * kQueryBlock * keys);
    high = room.take<int16_t>(is_used * kQueryBlock * keys);
    p_pairs = room.take<int32_t>(is_used * kQueryBlock / 2 * keys);
    low_pairs = room.take<int32_t>(is_used * kQueryBlock / 2 * keys);
    high_pairs = room.take<int32_t>(is_used * kQueryBlock / 2 * keys);
    grad_kt = room.take<int64_t>(is_used * channels * keys);
    grad_vt = room.take<int64_t>(is_used * channels * keys);
    bytes = room.bytes();
  }
};

}  // namespace mantissa::kernels
