#include "device/training/dynamic.h"

#include "reference/elements/elements.h"

enum { kMostShift = 62 };  // of a velocity

// The shift to the exponent decided before, from 0 to `most`.
static int decided_shift(const DevTensor* t, int wide_exponent, int most) {
  const int decided = (int)ref_smaller(*t->predicted, t->limit);
  return (int)ref_clamp(decided - wide_exponent, 0, most);
}

// Empty counts of wide values that are narrowed by `shift`.
static void empty_counts(const DevStep* step, const DevTensor* t, int shift,
                         RefWideCounts* counts) {
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

// The warm-up's decision about wide values that were counted: the shift to use. `largest` is the
// exponent that clips nothing, or REF_UNMEASURED if all are zero.
static int decide(const DevTensor* t, int largest, int wide_exponent, int most,
                  const RefWideCounts* counts) {
  const DevRule* rule = t->rule;
  const int before = decided_shift(t, wide_exponent, most);
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

// Keeps an exponent among the `room` largest; whether it is one.
static bool insert(int8_t* exponents, int32_t* count, int32_t room, int exponent) {
  if (*count == room && exponents[room - 1] >= exponent) return false;
  int32_t at = *count < room ? (*count)++ : room - 1;
  for (; at > 0 && exponents[at - 1] < exponent; --at) exponents[at] = exponents[at - 1];
  exponents[at] = (int8_t)exponent;
  return true;
}

// Adds the exponents that a micro-batch's elements need, and decides by all micro-batches so far.
static void note_needed(const DevStep* step, const DevTensor* t, int largest, int wide_exponent,
                        const RefWideCounts* counts) {
  const DevNeeded* needed = step->needed;
  const int32_t* place = needed->places + (t->rule - needed->rules);
  int8_t* exponents = needed->exponents + place[0];
  int64_t rest = t->count;
  for (int shift = REF_MOST_SHIFT; largest != REF_UNMEASURED && shift >= counts->floor; --shift) {
    int64_t here = shift == counts->floor ? rest : counts->by_shift[shift];
    rest -= here;
    const int wanted = (int)ref_clamp(ref_smaller(wide_exponent + shift, largest), REF_EXPONENT_MIN,
                                      REF_EXPONENT_MAX);
    while (here > 0 && insert(exponents, &t->counts->needed, place[1] - place[0], wanted)) --here;
  }
  const int32_t count = t->counts->needed;
  t->counts->decided = count == 0 ? ref_zero_exponent(t->bits) : exponents[count - 1];
}

REF_LOOP void narrow_in_warm_up(DevStep* step, const DevNarrowing* n, bool notes) {
  const DevTensor* t = n->to;
  const int before = decided_shift(t, n->wide_exponent, n->most);
  RefWideCounts counts;
  empty_counts(step, t, before, &counts);
  RefStatistics found = n->pass(n->work, before, &counts);
  const int largest = dev_largest_exponent(t, found.maximum, n->wide_exponent);
  check_largest(step, largest);
  const int shift = decide(t, largest, n->wide_exponent, n->most, &counts);
  if (notes) note_needed(step, t, largest, n->wide_exponent, &counts);
  if (shift != before) found = n->pass(n->work, shift, NULL);
  *t->exponent = dev_checked(step, n->wide_exponent + shift);
  dev_add_clipped(step, t, found.saturated);
}

DEV_APART void narrow_and_decide(DevStep* step, const DevNarrowing* n) {
  narrow_in_warm_up(step, n, false);
}
DEV_APART void narrow_and_note(DevStep* step, const DevNarrowing* n) {
  narrow_in_warm_up(step, n, true);
}

// Counts the bits of a tensor that was written with the decided exponent.
static void count_written(const DevTensor* t, int largest, int64_t clipped) {
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

static void narrow_as_decided_before(DevStep* step, const DevNarrowing* n) {
  const DevTensor* t = n->to;
  const int shift = decided_shift(t, n->wide_exponent, n->most);
  *t->exponent = dev_checked(step, n->wide_exponent + shift);
  const RefStatistics found = n->pass(n->work, shift, NULL);
  const int largest = dev_largest_exponent(t, found.maximum, n->wide_exponent);
  check_largest(step, largest);
  count_written(t, largest, found.saturated);
  dev_add_clipped(step, t, found.saturated);
}

static void narrow_as_decided(DevStep* step, const DevNarrowing* n) {
  if (step->warms_up) {
    narrow_and_decide(step, n);
  } else {
    narrow_as_decided_before(step, n);
  }
}

static void narrow_micro_batch(DevStep* step, const DevNarrowing* n) {
  if (step->warms_up) {
    narrow_and_note(step, n);
  } else {
    narrow_as_decided_before(step, n);
  }
}

DEV_APART void use_velocity(DevStep* step, const DevParameter* p, const DevDirection* exact,
                            RefUpdate* update) {
  const DevTensor* velocity = &p->velocity;
  const int before = decided_shift(velocity, exact->wide, kMostShift);
  update->direction_shift = before;
  if (!step->warms_up) return;
  // The step writes in place: it is counted in a pass before.
  const int32_t length = p->count / p->blocks;
  RefWideCounts counts;
  empty_counts(step, velocity, before, &counts);
  for (int32_t b = 0; b < p->blocks; ++b) {
    const RefUpdate own = dev_of_block(p, update, b);
    ref_count_directions(&own, b * length, (b + 1) * length, &counts);
  }
  const int largest = exact->is_zero ? REF_UNMEASURED : exact->exponent;
  if (largest > REF_EXPONENT_MAX) step->exponent_overflow = true;
  update->direction_shift = decide(velocity, largest, exact->wide, kMostShift, &counts);
}

static void count_velocity(const DevStep* step, const DevParameter* p, const DevDirection* exact,
                           int64_t clipped) {
  if (step->warms_up) return;
  count_written(&p->velocity, exact->is_zero ? REF_UNMEASURED : exact->exponent, clipped);
}

static void commit(DevStep* step, const DevRule* rules, DevCounts* counts, int16_t* decided,
                   RefBitStatistics* bits, int32_t slots, int64_t steps, int64_t decision_steps) {
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

const DevDynamic dev_dynamic = {narrow_as_decided, use_velocity, count_velocity, commit};
const DevDynamic dev_dynamic_of_micro_batches = {narrow_micro_batch, use_velocity, count_velocity,
                                                 commit};
