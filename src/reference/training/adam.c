// The moments and the direction of Adam.
#include "reference/training/blocks.h"

// M and S of an element whose g is given: |M| <= 2^61, and S before its bits are cut off at most
// 2^62, since h and r are at most 2^19 and the weights add up to 2^24.
REF_LOOP int64_t first_of(const RefAdam* args, int64_t g, int64_t i) {
  return g * args->gradient_multiplier + args->first[i] * args->first_multiplier;
}

REF_LOOP int64_t square_of(const RefAdam* args, int64_t g, int64_t i) {
  const RefRound64 magnitude = ref_round64(args->magnitude_shift);
  const RefRound64 root = ref_round64(-args->root_align);
  const int left = args->root_align > 0 ? args->root_align : 0;
  const int64_t h = ref_rounded64(&magnitude, g < 0 ? -g : g);
  const int64_t r = ref_rounded64(&root, (int64_t)args->root[i] * ((int64_t)1 << left));
  const int64_t old_weight = ((int64_t)1 << REF_ADAM_WEIGHT_BITS) - args->square_multiplier;
  return (r * r * old_weight + h * h * args->square_multiplier) >> REF_ADAM_CUT_BITS;
}

// g of `count` elements from `first` on.
static void adam_gradients(const RefUpdate* args, int64_t first, int64_t count,
                           int64_t* restrict gradients) {
  int64_t values[kBlock];
  const RefRound64 round = ref_round64(args->direction_shift);
  const int64_t limit = ref_mantissa_limit(32);
  load_block(args, first, count, values);
  wide_block(args, first, count, values, gradients);
  for (int64_t i = 0; i < count; ++i) {
    gradients[i] = ref_saturate(ref_rounded64(&round, gradients[i]), limit);
  }
}

RefAdamExtremes ref_adam_extremes(const RefUpdate* update, const RefAdam* args, int64_t begin,
                                  int64_t end) {
  int64_t gradients[kBlock];
  RefAdamExtremes found = {kNone, 0};
  for (int64_t at = begin; at < end; at += kBlock) {
    const int64_t count = ref_smaller(kBlock, end - at);
    adam_gradients(update, at, count, gradients);
    store_numbers(update->gradient.bits, gradients, count, update->gradient.data, at);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t square = square_of(args, gradients[i], at + i);
      include(&found.first, first_of(args, gradients[i], at + i));
      found.largest_square = ref_larger(found.largest_square, square);
    }
  }
  return found;
}

// The numerator is below 2^61, the denominator below 2^29.
REF_LOOP int64_t quotient_of(const RefAdam* args, int64_t i, int64_t* clipped) {
  const int64_t numerator =
      args->numerator_shift < 0 ? 0 : args->first[i] * ((int64_t)1 << args->numerator_shift);
  const int64_t denominator = ref_larger(1, args->root[i] * args->root_multiplier + args->epsilon);
  const int64_t within = ref_saturate(numerator, denominator << REF_ADAM_LIMIT_BITS);
  *clipped += within != numerator;
  return ref_divide_rne(within, denominator);
}

int64_t ref_adam_direction(const RefSums* gradient, const RefAdam* args, int64_t begin,
                           int64_t end) {
  const int bytes = gradient->bits <= 32 ? 4 : 8;
  const int64_t limit = ref_mantissa_limit(16);
  int64_t clipped = 0;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t g = ref_load(gradient->data, bytes, i), sum = first_of(args, g, i);
    const int64_t size = (int64_t)ref_magnitude(sum);
    const int64_t m = (size + args->first_offset) >> args->first_shift;
    const int64_t root = ref_integer_root((uint64_t)square_of(args, g, i));
    const int64_t s = (root + args->root_offset) >> args->root_shift;
    args->first[i] = (int16_t)ref_saturate(sum < 0 ? -m : m, limit);
    args->root[i] = (int16_t)ref_clamp(s, args->root_floor, limit);
    clipped += (m > limit) + (s > limit);
    ref_store(gradient->data, bytes, i, quotient_of(args, i, &clipped));
  }
  return clipped;
}
