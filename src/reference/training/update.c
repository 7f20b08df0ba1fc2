#include "reference/training/update.h"

#include "reference/training/blocks.h"

RefExtremes ref_gradient_extremes(const RefSums* sums, int64_t begin, int64_t end) {
  RefExtremes found = kNone;
  if (begin >= end) return found;
  if (sums->bits <= 32) {
    const int32_t* restrict words = (const int32_t*)sums->data;
    RefRange32 range = {INT32_MAX, INT32_MIN};
    for (int64_t i = begin; i < end; ++i) ref_include32(&range, words[i]);
    found.low = range.low;
    found.high = range.high;
    return found;
  }
  const int64_t* restrict wide = (const int64_t*)sums->data;
  for (int64_t i = begin; i < end; ++i) include(&found, wide[i]);
  return found;
}

RefSketchExtremes ref_sketch_extremes(const RefSums* sums, const RefDirectionSketch* sketch,
                                      int64_t begin, int64_t end) {
  RefSketchExtremes found = {kNone, kNone};
  REF_WITH_SUM_BYTES(
      sums->bits, bytes, for (int64_t i = begin; i < end; ++i) {
        const int64_t sum = ref_load(sums->data, bytes, i);
        const int64_t g = (int16_t)(sum >> sketch->gradient_shift);
        include(&found.gradient, sum);
        include(&found.direction,
                g * sketch->gradient_factor + sketch->velocity[i] * sketch->velocity_factor);
      });
  return found;
}

static void include_block(RefExtremes* found, const int64_t* restrict numbers, int64_t count) {
  RefExtremes extremes = *found;
  for (int64_t i = 0; i < count; ++i) include(&extremes, numbers[i]);
  *found = extremes;
}

RefExtremes ref_direction_extremes(const RefUpdate* args, int64_t begin, int64_t end) {
  int64_t values[kBlock], wide[kBlock];
  RefExtremes found = kNone;
  for (int64_t first = begin; first < end; first += kBlock) {
    const int64_t count = ref_smaller(kBlock, end - first);
    load_block(args, first, count, values);
    wide_block(args, first, count, values, wide);
    include_block(&found, wide, count);
  }
  return found;
}

// d of `count` elements from `first` on, whose V are given; returns how many were clipped.
static int64_t direction_block(const RefUpdate* args, int64_t first, int64_t count,
                               const int64_t* restrict values, int64_t* restrict directions) {
  const int64_t limit = ref_mantissa_limit(args->direction_bits);
  const RefRound64 round = ref_round64(args->direction_shift);
  wide_block(args, first, count, values, directions);
  int64_t clipped = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t rounded = ref_rounded64(&round, directions[i]);
    directions[i] = ref_saturate(rounded, limit);
    clipped += directions[i] != rounded;
  }
  return clipped;
}

void ref_count_directions(const RefUpdate* args, int64_t begin, int64_t end,
                          RefWideCounts* counts) {
  int64_t values[kBlock], wide[kBlock];
  for (int64_t first = begin; first < end; first += kBlock) {
    const int64_t count = ref_smaller(kBlock, end - first);
    load_block(args, first, count, values);
    wide_block(args, first, count, values, wide);
    for (int64_t i = 0; i < count; ++i) ref_count_wide(counts, wide[i]);
  }
}

int64_t ref_look_ahead(const RefUpdate* args, int64_t begin, int64_t end) {
  int64_t values[kBlock], directions[kBlock], clipped = 0;
  for (int64_t first = begin; first < end; first += kBlock) {
    const int64_t count = ref_smaller(kBlock, end - first);
    load_block(args, first, count, values);
    clipped += direction_block(args, first, count, values, directions);
    store_numbers(args->velocity.bits, directions, count, args->velocity.data, first);
  }
  return clipped;
}

// d to u at random: |d * rate_multiplier| < 2^62, and the random number is below 2^shift.
static void random_updates(const RefUpdate* args, int64_t first, int64_t count,
                           int64_t* directions) {
  const int shift = args->update_shift;
  uint32_t words[4] = {0};
  for (int64_t i = 0; i < count; ++i) {
    const int64_t element = first + i;
    if (i == 0 || element % 4 == 0) ref_random_block(&args->key, (uint32_t)(element / 4), words);
    const int64_t random = words[element % 4];
    const int64_t below = shift <= 32 ? random >> (32 - shift) : random << (shift - 32);
    directions[i] = (directions[i] * args->rate_multiplier + below) >> shift;
  }
}

// d to u for `count` elements from `first` on. If nothing is cut off, or everything, nothing is
// random. One of the shifts is 0, and saturating at 2^61 after a left shift is clipping at 2^61 >>
// left before it.
static void update_block(const RefUpdate* args, int64_t first, int64_t count,
                         int64_t* restrict directions) {
  const int shift = args->update_shift;
  if (args->stochastic && shift > 0 && shift <= 62) {
    random_updates(args, first, count, directions);
    return;
  }
  const int left = shift < 0 ? (int)ref_smaller(-shift, 61) : 0;
  const int right = shift > 0 ? (int)ref_smaller(shift, 62) : 0;
  const int64_t bound = shift > 62 ? 0 : shift < 0 ? REF_WIDE_LIMIT >> left : INT64_MAX;
  const int64_t half = right == 0 ? 0 : (int64_t)1 << (right - 1);
  const int64_t rate = args->rate_multiplier;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t clipped = ref_clamp(directions[i] * rate, -bound, bound);
    directions[i] = (clipped * ((int64_t)1 << left) + half) >> right;
  }
}

// W and A of V', with V' rescaled already if the unit grows. Modulo 2^32: the 16 bits of W and of A
// depend on no more, since shift + 16 <= 32. Ties go to the smaller W, after a change of the unit
// to the larger one.
REF_LOOP void split_block(int bytes, const RefUpdate* args, int growth, int64_t first,
                          int64_t count, const int64_t* restrict values) {
  int16_t unused[kBlock];
  const int shift = args->shift, left = growth < 0 ? -growth : 0;
  int16_t* restrict accumulator = args->accumulator == NULL ? unused : args->accumulator + first;
  void* restrict weights = args->weights;
  const uint32_t below = (((uint32_t)1 << shift) >> 1) - (growth == 0 && shift > 0 ? 1 : 0);
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t shifted = (uint32_t)values[i] << left;
    const int32_t weight = (int32_t)(shifted + below) >> shift;
    accumulator[i] = (int16_t)(((uint32_t)weight << shift) - shifted);
    ref_store(weights, bytes, first + i, weight);
  }
}

static void store_block(const RefUpdate* args, int growth, int64_t first, int64_t count,
                        const int64_t* values) {
  REF_WITH_SHORT_BYTES(args->weight_bits, bytes,
                       split_block(bytes, args, growth, first, count, values));
}

// Where a step writes d, and ref_change_unit reads it: in place of the velocity, or of G.
static RefSums directions_of(const RefUpdate* args) {
  const RefSums of_velocity = {args->velocity.data, args->velocity.bits};
  return args->velocity.data != NULL && !args->looks_ahead ? of_velocity : args->gradient;
}

RefExtremes ref_update_step(const RefUpdate* args, int64_t begin, int64_t end) {
  const RefSums to = directions_of(args);
  int64_t values[kBlock], directions[kBlock];
  RefExtremes found = kNone;
  for (int64_t first = begin; first < end; first += kBlock) {
    const int64_t count = ref_smaller(kBlock, end - first);
    load_block(args, first, count, values);
    found.saturated += direction_block(args, first, count, values, directions);
    store_numbers(to.bits, directions, count, to.data, first);
    update_block(args, first, count, directions);
    for (int64_t i = 0; i < count; ++i) values[i] -= directions[i];
    store_block(args, 0, first, count, values);
    include_block(&found, values, count);
  }
  return found;
}

// V' + u, known modulo 2^above, is V.
void ref_change_unit(const RefUpdate* args, int growth, int64_t begin, int64_t end) {
  const RefSums from = directions_of(args);
  const int above = 64 - (args->weight_bits <= 8 ? 8 : 16) - args->shift;
  int64_t values[kBlock], updates[kBlock];
  for (int64_t first = begin; first < end; first += kBlock) {
    const int64_t count = ref_smaller(kBlock, end - first);
    load_block(args, first, count, values);
    load_numbers(from.bits, from.data, first, count, updates);
    update_block(args, first, count, updates);
    for (int64_t i = 0; i < count; ++i) {
      const uint64_t before = (uint64_t)values[i] + (uint64_t)updates[i];
      values[i] = ((int64_t)(before << above) >> above) - updates[i];
      for (int doubling = 0; doubling < growth; ++doubling) values[i] = (values[i] + 1) >> 1;
    }
    store_block(args, growth, first, count, values);
  }
}

REF_LOOP RefSquareSum squares_of(int bytes, const void* restrict sums, int shift, int64_t begin,
                                 int64_t end) {
  const RefRound64 round = ref_round64(shift);
  const int left = -shift > 0 ? -shift : 0;
  RefSquareSum total = {0, 0};
  for (int64_t i = begin; i < end; ++i) {
    const int64_t g = ref_rounded64(&round, ref_load(sums, bytes, i)) * ((int64_t)1 << left);
    const uint64_t square = (uint64_t)(g * g);
    total.low += square & UINT32_MAX;
    total.high += square >> 32;
  }
  return total;
}

RefSquareSum ref_sum_of_squares(const RefSums* sums, int shift, int64_t begin, int64_t end) {
  REF_WITH_SUM_BYTES(sums->bits, bytes, return squares_of(bytes, sums->data, shift, begin, end));
}
