// Look-ups, clamps, products, and gradients through them.
#include "reference/elements/elements.h"
#include "reference/elements/elementwise.h"

void ref_count_values(const int8_t* in, int64_t begin, int64_t end, int64_t* counts) {
  // Four sets of counts, so that equal neighbours do not wait for each other.
  enum { kSets = 4 };
  const int64_t most = (int64_t)1 << 30;
  const uint8_t* bytes = (const uint8_t*)in;
  for (int64_t block = begin; block < end; block += most) {
    const int64_t stop = ref_smaller(end, block + most);
    uint32_t sets[kSets][256] = {{0}};
    int64_t i = block;
    for (; i + kSets <= stop; i += kSets) {
      for (int set = 0; set < kSets; ++set) ++sets[set][bytes[i + set]];
    }
    for (; i < stop; ++i) ++sets[0][bytes[i]];
    for (int value = 0; value < 256; ++value) {
      for (int set = 0; set < kSets; ++set) counts[value] += sets[set][value];
    }
  }
}

void ref_look_up(const int8_t* in, const int8_t* table, int8_t* out, int64_t begin, int64_t end) {
  const uint8_t* bytes = (const uint8_t*)in;
  for (int64_t i = begin; i < end; ++i) out[i] = table[bytes[i]];
}

void ref_clamp_values(const int8_t* in, int8_t low, int8_t high, int8_t* out, int64_t begin,
                      int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    const int8_t above = in[i] < low ? low : in[i];
    out[i] = above > high ? high : above;
  }
}

void ref_within(const int8_t* in, int8_t low, int8_t high, int8_t* out, int64_t begin,
                int64_t end) {
  const int8_t* restrict from = in;
  int8_t* restrict to = out;
  for (int64_t i = begin; i < end; ++i) to[i] = (int8_t)((from[i] >= low) & (from[i] <= high));
}

void ref_extremes(const int8_t* in, int64_t begin, int64_t end, int8_t* least, int8_t* most) {
  int8_t low = *least, high = *most;
  for (int64_t i = begin; i < end; ++i) {
    low = in[i] < low ? in[i] : low;
    high = in[i] > high ? in[i] : high;
  }
  *least = low;
  *most = high;
}

// The other operand repeats every `period` elements, or never (0): how many elements a row has.
static int64_t row_length(int64_t period, int64_t begin, int64_t end) {
  return period == 0 ? end - begin : period;
}

// |product| < 2^14: a fixed exponent below the product's saturates from 7 left shifts on.
RefStatistics ref_multiply(const RefMultiply* args, int64_t begin, int64_t end) {
  const int up = args->shift < 0 ? (int)ref_smaller(-args->shift, 7) : 0;
  const RefRound32 round = ref_round32((int)ref_clamp(args->shift, 0, 30));
  const int32_t limit = (int32_t)ref_mantissa_limit(args->bits);
  const int64_t count = row_length(args->period, begin, end);
  RefRange32 range = {0, 0};
  int64_t saturated = 0;
  for (int64_t first = begin; first < end; first += count) {
    const int8_t* restrict a = args->a + first;
    const int8_t* restrict b = args->b + (args->period == 0 ? first : 0);
    for (int64_t i = 0; i < count; ++i) ref_include32(&range, a[i] * b[i]);
    if (args->out == NULL) continue;
    int8_t* restrict out = args->out + first;
    for (int64_t i = 0; i < count; ++i) {
      const int32_t rounded = ref_rounded32(&round, a[i] * b[i] * ((int32_t)1 << up));
      const int32_t narrow = rounded < -limit ? -limit : rounded > limit ? limit : rounded;
      saturated += narrow != rounded;
      out[i] = (int8_t)narrow;
    }
  }
  return ref_statistics(range.low, range.high, saturated);
}

REF_LOOP RefStatistics scale_rows(int bytes, int to_bytes, const RefScaleGradient* args,
                                  int64_t begin, int64_t end) {
  const int64_t limit = ref_mantissa_limit(args->grad_in.bits);
  const RefRound64 round = ref_round64(args->shift);
  const int64_t count = row_length(args->period, begin, end);
  RefRange64 range = {0, 0};
  int64_t saturated = 0;
  for (int64_t first = begin; first < end; first += count) {
    const uint8_t* by = (const uint8_t*)args->by + (args->period == 0 ? first : 0);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t wide = ref_load(args->grad_out.data, bytes, first + i) * args->factors[by[i]];
      ref_include64(&range, wide);
      const int64_t rounded = ref_rounded64(&round, wide);
      saturated += ref_store_narrow(args->grad_in.data, to_bytes, first + i, rounded, limit);
    }
  }
  return ref_statistics(range.low, range.high, saturated);
}

RefStatistics ref_scale_gradient(const RefScaleGradient* args, int64_t begin, int64_t end) {
  REF_WITH_BYTES(args->grad_out.bits, bytes,
                 REF_WITH_BYTES(args->grad_in.bits, to_bytes,
                                return scale_rows(bytes, to_bytes, args, begin, end)));
}

REF_LOOP void sum_products(int bytes, RefConstSpan grad, const int8_t* in, int64_t channels,
                           int64_t begin_row, int64_t end_row, int64_t* sums) {
  for (int64_t row = begin_row; row < end_row; ++row) {
    for (int64_t c = 0; c < channels; ++c) {
      const int64_t i = row * channels + c, n = ref_load(grad.data, bytes, i);
      sums[c] += bytes <= 2 ? (int32_t)n * in[i] : n * in[i];
    }
  }
}

void ref_sum_products(RefConstSpan grad, const int8_t* in, int64_t channels, int64_t begin_row,
                      int64_t end_row, int64_t* sums) {
  REF_WITH_BYTES(grad.bits, bytes,
                 sum_products(bytes, grad, in, channels, begin_row, end_row, sums));
}

REF_LOOP RefStatistics scale_within(int bytes, int to_bytes, const RefScaleWithin* args,
                                    int64_t begin, int64_t end) {
  const int64_t limit = ref_mantissa_limit(args->grad_in.bits);
  const RefRound64 round = ref_round64(args->shift);
  RefRange64 range = {0, 0};
  int64_t saturated = 0;
  for (int64_t i = begin; i < end; ++i) {
    const bool passes = args->by[i] >= args->low && args->by[i] <= args->high;
    const int64_t wide = passes ? ref_load(args->grad_out.data, bytes, i) * args->factor : 0;
    ref_include64(&range, wide);
    const int64_t rounded = ref_rounded64(&round, wide);
    saturated += ref_store_narrow(args->grad_in.data, to_bytes, i, rounded, limit);
  }
  return ref_statistics(range.low, range.high, saturated);
}

RefStatistics ref_scale_within(const RefScaleWithin* args, int64_t begin, int64_t end) {
  REF_WITH_BYTES(args->grad_out.bits, bytes,
                 REF_WITH_BYTES(args->grad_in.bits, to_bytes,
                                return scale_within(bytes, to_bytes, args, begin, end)));
}

REF_LOOP int64_t sum_by_table(int bytes, const void* grad, const uint8_t* in, const int8_t* table,
                              int64_t begin, int64_t end) {
  int64_t sum = 0;
  for (int64_t i = begin; i < end; ++i) sum += ref_load(grad, bytes, i) * table[in[i]];
  return sum;
}

int64_t ref_sum_by_table(RefConstSpan grad, const int8_t* in, const int8_t* table, int64_t begin,
                         int64_t end) {
  REF_WITH_BYTES(grad.bits, bytes,
                 return sum_by_table(bytes, grad.data, (const uint8_t*)in, table, begin, end));
}
