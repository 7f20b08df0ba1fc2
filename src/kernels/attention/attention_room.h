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
constexpr int kMostGradDigits = 2, kMostScoreDigits = 3;  // of grad_out, of the scores' gradients

// A block of queries at a time: a pair is two int16 that follow each other in a sum, as one int32.
// Operands whose sums of products would leave int32 are cut into digits; `is_wide` has room for
// them.
struct BlockRoom {
  int64_t keys, channels, queries;  // padded
  int32_t* kt_pairs;                // [channels / 2, keys], pairs of channels
  int32_t* v_pairs;                 // forward only: [keys / 2, channels], pairs of keys
  int32_t* scores;                  // [block, keys]
  int16_t* p;                       // [block, keys]
  // Wide only: queries in two digits, [queries, channels], the sums of the higher one, and the
  // scores of a query.
  int16_t *q_low, *q_high;
  int32_t* high_scores;  // [block, keys]
  int64_t* wide_scores;  // [keys]
  // Backward only. Narrow operands have one digit of grad_out, and two of the scores' gradients.
  int32_t *vt_pairs, *k_pairs;                       // as kt_pairs and v_pairs
  int16_t* qt;                                       // [channels, queries]
  int16_t* grad_out[kMostGradDigits];                // [queries, channels]
  int16_t* grad_out_t[kMostGradDigits];              // [channels, queries]
  int32_t* grad_p;                                   // [block, keys]
  int16_t* grad_scores[kMostScoreDigits];            // [block, keys]
  int32_t *p_pairs, *score_pairs[kMostScoreDigits];  // [block / 2, keys], pairs of queries
  int64_t *grad_kt, *grad_vt;                        // [channels, keys]
  int64_t bytes;

  BlockRoom(std::byte* base, int64_t queries_, int64_t keys_, int64_t channels_, bool is_backward,
            bool is_wide)
      : keys(round_up(keys_, kPadding)),
        channels(round_up(channels_, kPadding)),
        queries(round_up(queries_, kQueryBlock)) {
    const auto if_used = [](bool is_used, int64_t count) { return is_used ? count : 0; };
    const int64_t of_keys = kQueryBlock * keys;
    Room room(base);
    kt_pairs = room.take<int32_t>(channels / 2 * keys);
    v_pairs = room.take<int32_t>(if_used(!is_backward, keys / 2 * channels));
    scores = room.take<int32_t>(of_keys);
    p = room.take<int16_t>(of_keys);
    q_low = room.take<int16_t>(if_used(is_wide, queries * channels));
    q_high = room.take<int16_t>(if_used(is_wide, queries * channels));
    high_scores = room.take<int32_t>(if_used(is_wide, of_keys));
    wide_scores = room.take<int64_t>(if_used(is_wide, keys));
    vt_pairs = room.take<int32_t>(if_used(is_backward, channels / 2 * keys));
    k_pairs = room.take<int32_t>(if_used(is_backward, keys / 2 * channels));
    qt = room.take<int16_t>(if_used(is_backward, channels * queries));
    for (int i = 0; i < kMostGradDigits; ++i) {
      const bool is_used = is_backward && (is_wide || i == 0);
      grad_out[i] = room.take<int16_t>(if_used(is_used, queries * channels));
      grad_out_t[i] = room.take<int16_t>(if_used(is_used, channels * queries));
    }
    grad_p = room.take<int32_t>(if_used(is_backward, of_keys));
    p_pairs = room.take<int32_t>(if_used(is_backward, of_keys / 2));
    for (int i = 0; i < kMostScoreDigits; ++i) {
      const bool is_used = is_backward && (is_wide || i < 2);
      grad_scores[i] = room.take<int16_t>(if_used(is_used, of_keys));
      score_pairs[i] = room.take<int32_t>(if_used(is_used, of_keys / 2));
    }
    grad_kt = room.take<int64_t>(if_used(is_backward, channels * keys));
    grad_vt = room.take<int64_t>(if_used(is_backward, channels * keys));
    bytes = room.bytes();
  }
};

}  // namespace mantissa::kernels
