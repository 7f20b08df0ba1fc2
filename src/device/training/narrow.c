#include "device/training/narrow.h"

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

// The shift from wide mantissas with this maximum. An exponent that leaves its range is no limit:
// the step fails.
static int limited_shift(const DevTensor* t, uint64_t maximum, int wide_exponent) {
  const int exact = ref_exact_shift(maximum, t->bits);
  if (t->limit >= REF_EXPONENT_MAX) return exact;
  return (int)ref_clamp(exact, 0, ref_larger(0, t->limit - wide_exponent));
}

int dev_largest_exponent(const DevTensor* t, uint64_t maximum, int wide_exponent) {
  return maximum == 0 ? REF_UNMEASURED : wide_exponent + limited_shift(t, maximum, wide_exponent);
}

// Clipped mantissas, except those that all readers clip.
static void add_clipped(DevStep* step, const DevTensor* t, int64_t count) {
  if (*t->exponent < t->limit) step->clipped += count;
}

// The first shift follows from the exponent that the slot still holds; a wrong one costs a pass,
// but changes no bit.
static void narrow_by_guess(DevStep* step, const DevNarrowing* n) {
  const DevTensor* t = n->to;
  const int guess = (int)ref_clamp(*t->exponent - n->wide_exponent, 0, n->most);
  RefStatistics found = n->pass(n->work, guess, NULL);
  const int exact = limited_shift(t, found.maximum, n->wide_exponent);
  const bool is_zero = found.maximum == 0;
  if (!is_zero && exact != guess) found = n->pass(n->work, exact, NULL);
  *t->exponent = dev_checked(step, is_zero ? ref_zero_exponent(t->bits) : n->wide_exponent + exact);
  add_clipped(step, t, found.saturated);
}

int dev_decided_shift(const DevTensor* t, int wide_exponent, int most) {
  const int decided = (int)ref_smaller(*t->predicted, t->limit);
  return (int)ref_clamp(decided - wide_exponent, 0, most);
}

void dev_empty_counts(const DevStep* step, const DevTensor* t, int shift, RefWideCounts* counts) {
  const int64_t all = (int64_t)t->count * step->micro_batches;
  counts->bits = t->bits;
  counts->shift = shift;
  counts->most = all * t->rule->clipped_ppm / 1000000;
  counts->least = ref_least_clipped(0, t->bits);
  counts->floor = 0;
  counts->above = 0;
  for (int i = 0; i <= REF_MOST_SHIFT; ++i) counts->by_shift[i] = 0;
}

// The smallest exponent at which at most clipped_ppm millionths are clipped: counted from the
// largest down to `floor`, below which too many are.
static int decided_by(const DevTensor* t, int wide_exponent, int largest,
                      const RefWideCounts* counts) {
  int64_t clipped = 0, rest = t->count, lowest = REF_EXPONENT_MAX;
  for (int shift = REF_MOST_SHIFT; shift > counts->floor; --shift) rest -= counts->by_shift[shift];
  for (int shift = counts->floor; shift <= REF_MOST_SHIFT; ++shift) {
    const int64_t here = shift == counts->floor ? rest : counts->by_shift[shift];
    const int needed = (int)ref_clamp(ref_smaller(wide_exponent + shift, largest), REF_EXPONENT_MIN,
                                      REF_EXPONENT_MAX);
    if (here != 0) lowest = ref_smaller(lowest, needed);
  }
  int exponent = REF_EXPONENT_MAX;
  for (; exponent > lowest; --exponent) {
    for (int shift = counts->floor; shift <= REF_MOST_SHIFT; ++shift) {
      const int64_t here = shift == counts->floor ? rest : counts->by_shift[shift];
      const int64_t needed = ref_smaller(wide_exponent + shift, largest);
      clipped += ref_clamp(needed, REF_EXPONENT_MIN, REF_EXPONENT_MAX) == exponent ? here : 0;
    }
    if (ref_too_many(clipped, t->count, t->rule->clipped_ppm)) break;
  }
  return exponent;
}

int dev_decide(const DevStep* step, const DevTensor* t, int largest, int wide_exponent, int most,
               const RefWideCounts* counts) {
  (void)step;
  const DevRule* rule = t->rule;
  const int before = dev_decided_shift(t, wide_exponent, most);
  const int decided = largest == REF_UNMEASURED ? ref_zero_exponent(t->bits)
                                                : decided_by(t, wide_exponent, largest, counts);
  t->counts->decided = decided;
  const int next = (int)ref_smaller(decided, t->limit);
  const int difference = next > *t->predicted ? next - *t->predicted : *t->predicted - next;
  if (!rule->decides_at_once && difference <= rule->threshold) return before;
  return (int)ref_clamp(next - wide_exponent, 0, most);
}

// In dynamic fixed point exponents in use stay in their range. If wide values would need one
// outside it, the step fails.
static void check_largest(DevStep* step, int largest) {
  if (largest > REF_EXPONENT_MAX) step->exponent_overflow = true;
}

DEV_APART void narrow_and_decide(DevStep* step, const DevNarrowing* n) {
  const DevTensor* t = n->to;
  const int before = dev_decided_shift(t, n->wide_exponent, n->most);
  RefWideCounts counts;
  dev_empty_counts(step, t, before, &counts);
  RefStatistics found = n->pass(n->work, before, &counts);
  const int largest = dev_largest_exponent(t, found.maximum, n->wide_exponent);
  check_largest(step, largest);
  const int shift = dev_decide(step, t, largest, n->wide_exponent, n->most, &counts);
  if (shift != before) found = n->pass(n->work, shift, NULL);
  *t->exponent = dev_checked(step, n->wide_exponent + shift);
  add_clipped(step, t, found.saturated);
}

void dev_count_written(const DevTensor* t, int largest, int64_t clipped) {
  int64_t large[REF_FINER_EXPONENTS] = {0};
  for (int32_t i = 0; i < t->count; ++i) {
    const int64_t size = (int64_t)ref_magnitude(dev_at(t, i));
    for (int k = 0; k < REF_FINER_EXPONENTS; ++k) {
      const int64_t from = t->bits < k + 2 ? 1 : INT64_C(1) << (t->bits - 2 - k);
      large[k] += size >= from;
    }
  }
  const int written = *t->exponent, decided = *t->predicted;
  RefBitStatistics found = {0, {0}, largest};
  ref_count_needed(&found, decided, written + 1, clipped);
  int64_t counted = clipped;  // clipped mantissas are large
  for (int k = 0; k < REF_FINER_EXPONENTS; ++k) {
    ref_count_needed(&found, decided, written - k, large[k] - counted);
    counted = large[k];
  }
  // Many of the rest are zeros, which fit every exponent.
  ref_count_needed(&found, decided, (int)ref_smaller(written - REF_FINER_EXPONENTS, decided),
                   t->count - counted);
  RefBitStatistics* sum = &t->counts->written;
  sum->too_large += found.too_large;
  for (int k = 0; k <= REF_FINER_EXPONENTS; ++k) sum->fits[k] += found.fits[k];
  sum->largest_exponent = ref_larger(sum->largest_exponent, found.largest_exponent);
}

static void narrow_as_decided(DevStep* step, const DevNarrowing* n) {
  if (step->warms_up) {
    narrow_and_decide(step, n);
    return;
  }
  const DevTensor* t = n->to;
  const int shift = dev_decided_shift(t, n->wide_exponent, n->most);
  *t->exponent = dev_checked(step, n->wide_exponent + shift);
  const RefStatistics found = n->pass(n->work, shift, NULL);
  const int largest = dev_largest_exponent(t, found.maximum, n->wide_exponent);
  check_largest(step, largest);
  dev_count_written(t, largest, found.saturated);
  add_clipped(step, t, found.saturated);
}

void dev_narrow_value(DevStep* step, const DevNarrowing* n) {
  if (step->again) {
    (void)n->pass(n->work, (int)ref_clamp(*n->to->exponent - n->wide_exponent, 0, n->most), NULL);
  } else if (step->decides) {
    narrow_as_decided(step, n);
  } else {
    narrow_by_guess(step, n);
  }
}

void dev_narrow_gradient(DevStep* step, const DevNarrowing* narrowing) {
  DevNarrowing n = *narrowing;
  n.most = 62;  // beyond it everything rounds to zero, which that does as well
  const DevTensor* t = n.to;
  if (step->decides) {
    narrow_as_decided(step, &n);
    return;
  }
  if (t->predicted == NULL) {
    narrow_by_guess(step, &n);
    return;
  }
  const int predicted = *t->predicted;
  int exponent = predicted == REF_UNMEASURED ? n.wide_exponent
                                             : ref_headroom_exponent(predicted, n.wide_exponent);
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

void dev_commit_decided(DevStep* step, const DevRule* rules, DevCounts* counts, int16_t* decided,
                        RefBitStatistics* bits, int32_t slots, int64_t steps,
                        int64_t decision_steps) {
  for (int32_t i = 0; i < slots; ++i) {
    const DevRule* rule = rules + i;
    RefBitStatistics* all = bits + i;
    const RefBitStatistics* here = &counts[i].written;
    if (rule->bits == 0) continue;  // nothing of the program
    if (step->warms_up) {
      if (counts[i].decided != INT32_MIN) {
        decided[i] = (int16_t)ref_smaller(counts[i].decided, rule->limit);
      }
      continue;
    }
    all->too_large += here->too_large;
    for (int k = 0; k <= REF_FINER_EXPONENTS; ++k) all->fits[k] += here->fits[k];
    all->largest_exponent = ref_larger(all->largest_exponent, here->largest_exponent);
    if (steps % decision_steps != 0) continue;
    const int next = ref_next_decided_exponent(all, decided[i], rule->clipped_ppm, rule->bits);
    decided[i] = (int16_t)ref_smaller(next, rule->limit);
    const RefBitStatistics none = {0, {0}, REF_UNMEASURED};
    *all = none;
  }
}
