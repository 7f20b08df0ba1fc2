#include "device/training/dynamic.h"
#include "reference/elements/elements.h"

int16_t dev_checked(DevStep* step, int exponent) {
  if (!ref_exponent_in_range(exponent)) step->exponent_overflow = true;
  return (int16_t)ref_clamp(exponent, REF_EXPONENT_MIN, REF_EXPONENT_MAX);
}

static int bytes_of(int bits) { return bits <= 8 ? 1 : bits <= 16 ? 2 : 4; }

int64_t dev_at(const DevTensor* t, int32_t i) { return ref_load(t->data, bytes_of(t->bits), i); }

void dev_put(const DevTensor* t, int32_t i, int64_t wide, int shift, RefStatistics* found) {
  const int64_t rounded = ref_rescale_rne(wide, shift);
  const int64_t narrow = ref_saturate(rounded, ref_mantissa_limit(t->bits));
  const uint64_t size = ref_magnitude(wide);
  found->maximum = size > found->maximum ? size : found->maximum;
  found->saturated += narrow != rounded;
  ref_store(t->data, bytes_of(t->bits), i, narrow);
}

RefStatistics dev_pass_elements(const void* work, int shift, RefWideCounts* counts) {
  const DevElements* e = (const DevElements*)work;
  RefStatistics found = {0, 0};
  int32_t channel = 0;
  for (int32_t i = 0; i < e->to->count; ++i) {
    const int64_t wide = e->wide(e->work, i, channel);
    dev_put(e->to, i, wide, shift, &found);
    ref_count_wide(counts, wide);
    if (++channel == e->to->channels) channel = 0;
  }
  return found;
}

int dev_largest_exponent(const DevTensor* t, uint64_t maximum, int wide_exponent) {
  if (maximum == 0) return REF_UNMEASURED;
  return ref_limited_exponent(maximum, wide_exponent, t->bits, t->limit);
}

void dev_add_clipped(DevStep* step, const DevTensor* t, int64_t count) {
  if (*t->exponent < t->limit) step->clipped += count;
}

// The first shift follows from the exponent that the slot still holds; a wrong one costs a pass,
// but changes no bit.
static void narrow_by_guess(DevStep* step, const DevNarrowing* n) {
  const DevTensor* t = n->to;
  const int guess = (int)ref_clamp(*t->exponent - n->wide_exponent, 0, n->most);
  RefStatistics found = n->pass(n->work, guess, NULL);
  const uint64_t maximum = found.maximum;
  const int exact = ref_limited_shift(maximum, n->wide_exponent, t->bits, t->limit);
  if (maximum != 0 && exact != guess) found = n->pass(n->work, exact, NULL);
  *t->exponent =
      dev_checked(step, ref_limited_exponent(maximum, n->wide_exponent, t->bits, t->limit));
  dev_add_clipped(step, t, found.saturated);
}

void dev_narrow_value(DevStep* step, const DevNarrowing* n) {
  if (step->again) {
    (void)n->pass(n->work, (int)ref_clamp(*n->to->exponent - n->wide_exponent, 0, n->most), NULL);
  } else if (step->dynamic != NULL) {
    step->dynamic->narrow(step, n);
  } else {
    narrow_by_guess(step, n);
  }
}

void dev_narrow_gradient(DevStep* step, const DevNarrowing* narrowing) {
  DevNarrowing n = *narrowing;
  n.most = 62;  // beyond it everything rounds to zero, which that does as well
  const DevTensor* t = n.to;
  if (step->dynamic != NULL) {
    step->dynamic->narrow(step, &n);
    return;
  }
  if (t->predicted == NULL) {
    narrow_by_guess(step, &n);
    return;
  }
  const int predicted = *t->predicted;
  int exponent = ref_headroom_exponent(predicted, n.wide_exponent);
  RefStatistics found = n.pass(n.work, (int)ref_smaller(62, exponent - n.wide_exponent), NULL);
  const int measured = ref_exact_exponent(found.maximum, n.wide_exponent, t->bits);
  if (found.maximum == 0) {
    exponent = measured;
  } else {
    if (predicted == REF_UNMEASURED || measured > exponent) {
      exponent = measured;
      found = n.pass(n.work, measured - n.wide_exponent, NULL);
    }
    *t->measured = (int16_t)ref_larger(*t->measured, measured);
  }
  *t->exponent = dev_checked(step, exponent);
  step->clipped += found.saturated;
}

void dev_write_value(DevStep* step, const DevElements* e, int wide_exponent, int most) {
  const DevNarrowing n = {dev_pass_elements, e, e->to, wide_exponent, most};
  dev_narrow_value(step, &n);
}

void dev_write_gradient(DevStep* step, const DevElements* e, int wide_exponent) {
  const DevNarrowing n = {dev_pass_elements, e, e->to, wide_exponent, 62};
  dev_narrow_gradient(step, &n);
}

void dev_commit_measured(int16_t* predicted, int16_t* measured, int32_t slots) {
  for (int32_t i = 0; i < slots; ++i) {
    predicted[i] = measured[i];
    measured[i] = REF_UNMEASURED;
  }
}
