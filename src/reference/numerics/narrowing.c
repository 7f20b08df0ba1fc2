#include "reference/numerics/narrowing.h"

// The shift from wide mantissas with this maximum. An exponent that leaves its range is no limit:
// the step fails.
static int limited_shift(const RefNarrowing* n, uint64_t maximum) {
  const int exact = ref_exact_shift(maximum, n->bits);
  if (n->limit >= REF_EXPONENT_MAX) return exact;
  return (int)ref_clamp(exact, 0, ref_larger(0, n->limit - n->wide_exponent));
}

static RefNarrowed run(const RefNarrowing* n, int shift) {
  const RefStatistics found = n->pass(n->work, shift);
  const RefNarrowed narrowed = {n->wide_exponent + shift,
                                ref_exact_exponent(found.maximum, n->wide_exponent, n->bits), false,
                                found};
  return narrowed;
}

RefNarrowed ref_narrow_exactly(const RefNarrowing* n, uint64_t maximum) {
  RefNarrowed narrowed = run(n, limited_shift(n, maximum));
  if (maximum == 0) narrowed.exponent = ref_zero_exponent(n->bits);
  return narrowed;
}

RefNarrowed ref_narrow_by_guess(const RefNarrowing* n, int guess) {
  const int first = (int)ref_clamp(guess - n->wide_exponent, 0, n->most);
  RefNarrowed narrowed = run(n, first);
  const uint64_t maximum = narrowed.statistics.maximum;
  const int exact = limited_shift(n, maximum);
  if (maximum != 0 && exact != first) {
    narrowed = run(n, exact);
    narrowed.ran_again = true;
  }
  narrowed.exponent = maximum == 0 ? ref_zero_exponent(n->bits) : n->wide_exponent + exact;
  return narrowed;
}

RefNarrowed ref_narrow_with_headroom(const RefNarrowing* n, int predicted) {
  const bool measured = predicted != REF_UNMEASURED;
  const int exponent =
      measured ? ref_headroom_exponent(predicted, n->wide_exponent) : n->wide_exponent;
  // Beyond the most everything rounds to zero, which that does as well.
  RefNarrowed narrowed = run(n, (int)ref_smaller(n->most, exponent - n->wide_exponent));
  narrowed.exponent = exponent;
  if (narrowed.statistics.maximum == 0) {
    narrowed.exponent = narrowed.measured;
  } else if (!measured || narrowed.measured > exponent) {
    narrowed = run(n, narrowed.measured - n->wide_exponent);
    narrowed.ran_again = true;
  }
  return narrowed;
}

RefNarrowed ref_narrow_as_decided(const RefNarrowing* n, int decided) {
  return run(n, (int)ref_clamp(ref_smaller(decided, n->limit) - n->wide_exponent, 0, n->most));
}

RefNarrowed ref_narrow_to(const RefNarrowing* n, int exponent) {
  return run(n, exponent - n->wide_exponent);
}
