// Elements of an update, block by block: inside the reference only.
#pragma once

#include "reference/elements/elements.h"
#include "reference/numerics/lazy.h"
#include "reference/training/update.h"

static const RefExtremes kNone = {INT64_MAX, INT64_MIN, 0};

REF_LOOP void include(RefExtremes* extremes, int64_t n) {
  extremes->low = n < extremes->low ? n : extremes->low;
  extremes->high = n > extremes->high ? n : extremes->high;
}

// Elements are widened to small arrays block by block: one loop then serves every width. Machines of
// 32 bits have small stacks.
enum { kBlock = sizeof(void*) > 4 ? 256 : 8 };

REF_LOOP void load_range(int bytes, const void* from, int64_t first, int64_t count,
                         int64_t* restrict to) {
  for (int64_t i = 0; i < count; ++i) to[i] = ref_load(from, bytes, first + i);
}

REF_LOOP void store_range(int bytes, const int64_t* restrict from, int64_t count, void* to,
                          int64_t first) {
  for (int64_t i = 0; i < count; ++i) ref_store(to, bytes, first + i, from[i]);
}

static inline void load_numbers(int bits, const void* from, int64_t first, int64_t count,
                                int64_t* to) {
  if (bits <= 16) {
    load_range(2, from, first, count, to);
  } else {
    REF_WITH_SUM_BYTES(bits, bytes, load_range(bytes, from, first, count, to));
  }
}

static inline void store_numbers(int bits, const int64_t* from, int64_t count, void* to,
                                 int64_t first) {
  if (bits <= 16) {
    store_range(2, from, count, to, first);
  } else {
    REF_WITH_SUM_BYTES(bits, bytes, store_range(bytes, from, count, to, first));
  }
}

// V of `count` elements from `first` on.
REF_LOOP void load_values(int bytes, const RefUpdate* args, int64_t first, int64_t count,
                          int64_t* restrict values) {
  const int shift = args->shift;
  const void* restrict weights = args->weights;
  if (args->accumulator == NULL) {
    for (int64_t i = 0; i < count; ++i) {
      values[i] = ref_lazy_value(ref_load(weights, bytes, first + i), 0, shift);
    }
    return;
  }
  const int16_t* restrict accumulator = args->accumulator + first;
  for (int64_t i = 0; i < count; ++i) {
    values[i] = ref_lazy_value(ref_load(weights, bytes, first + i), accumulator[i], shift);
  }
}

static inline void load_block(const RefUpdate* args, int64_t first, int64_t count,
                              int64_t* values) {
  REF_WITH_SHORT_BYTES(args->weight_bits, bytes, load_values(bytes, args, first, count, values));
}

// rescale_rne(G, gradient_shift) * gradient_multiplier, a left shift being part of the product, and
// the decay.
REF_LOOP void scale_sums(int bytes, const RefUpdate* args, int64_t first, int64_t count,
                         const int64_t* restrict values, int64_t* restrict wide) {
  const int left = args->gradient_shift < 0 ? -args->gradient_shift : 0;
  const int64_t multiplier = args->gradient_multiplier * ((int64_t)1 << left);
  const int64_t decay = args->decay_multiplier;
  const RefRound64 round = ref_round64(args->gradient_shift);
  const void* restrict sums = args->gradient.data;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t scaled = ref_rounded64(&round, ref_load(sums, bytes, first + i)) * multiplier;
    wide[i] = scaled + values[i] * decay;
  }
}

REF_LOOP void add_velocity(int bytes, const RefUpdate* args, int64_t first, int64_t count,
                           int64_t* restrict wide) {
  const int64_t multiplier = args->velocity_multiplier;
  const void* restrict velocity = args->velocity.data;
  for (int64_t i = 0; i < count; ++i) wide[i] += ref_load(velocity, bytes, first + i) * multiplier;
}

// `wide` of `count` elements from `first` on, whose V are given. |wide| <= 2^61: each product is
// below 2^60 by the plan's choice of shifts.
static inline void wide_block(const RefUpdate* args, int64_t first, int64_t count,
                              const int64_t* restrict values, int64_t* restrict wide) {
  REF_WITH_SUM_BYTES(args->gradient.bits, bytes,
                     scale_sums(bytes, args, first, count, values, wide));
  if (args->velocity.data == NULL) return;
  if (args->velocity.bits <= 16) {
    add_velocity(2, args, first, count, wide);
  } else {
    add_velocity(4, args, first, count, wide);
  }
}
