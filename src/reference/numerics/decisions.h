// Dynamic fixed point: exponents that are decided from counts of a tensor's wide values, by the
// exponents that they need. A value needs the smallest exponent at which narrowing does not clip
// it. Source: DynamicFixed, claim 1; METHODS section 2; docs/decisions/0026.
#pragma once

#include "reference/numerics/exponents.h"

// Elements of a tensor that was narrowed to an exponent decided before, by the bits that they need.
// Counts of parts, micro-batches and steps with one decided exponent add up to the whole's. Kept in
// checkpoints as it lies in memory.
typedef struct RefBitStatistics {
  int64_t too_large REF_CXX(= 0);  // clipped at the decided exponent
  // fits[k]: would be clipped at k + 1 below the decided exponent and not at k below it. The last:
  // not clipped at REF_FINER_EXPONENTS below either. Counts mantissas after rounding.
  int64_t fits[REF_FINER_EXPONENTS + 1] REF_CXX(= {});
  // The exponent at which nothing is clipped, the largest of the parts; or REF_UNMEASURED if all
  // were zeros.
  int64_t largest_exponent REF_CXX(= REF_UNMEASURED);
#ifdef __cplusplus
  bool operator==(const RefBitStatistics&) const = default;

  int64_t elements() const {
    int64_t sum = too_large;
    for (const int64_t count : fits) sum += count;
    return sum;
  }
  RefBitStatistics& operator+=(const RefBitStatistics& other) {
    too_large += other.too_large;
    for (int k = 0; k <= REF_FINER_EXPONENTS; ++k) fits[k] += other.fits[k];
    largest_exponent = ref_larger(largest_exponent, other.largest_exponent);
    return *this;
  }
#endif
} RefBitStatistics;

// The most elements that may be clipped: clipped_ppm millionths of them, rounded down. No product
// leaves 64 bits, since whole millions and the rest are taken apart.
REF_INLINE int64_t ref_most_clipped(int64_t elements, int clipped_ppm) {
  return elements / 1000000 * clipped_ppm + elements % 1000000 * clipped_ppm / 1000000;
}

// Whether more elements are clipped than may be.
REF_INLINE bool ref_too_many(int64_t clipped, int64_t elements, int clipped_ppm) {
  return clipped > ref_most_clipped(elements, clipped_ppm);
}

// Counts elements that need exactly the exponent `needed` in statistics about `decided`.
REF_INLINE void ref_count_needed(RefBitStatistics* statistics, int decided, int needed,
                                 int64_t count) {
  if (needed > decided) {
    statistics->too_large += count;
  } else {
    statistics->fits[ref_smaller(decided - needed, REF_FINER_EXPONENTS)] += count;
  }
}

// The next exponent for b-bit mantissas: the smallest, among the decided one and those below it
// that are counted separately, at which at most clipped_ppm millionths of the elements are clipped.
// If more are clipped already: one more; or, if a sixteenth is, the exponent that holds the largest
// element; never more than that one. If all are zero: the exponent of a zero block. Without a
// measurement the exponent stays.
REF_INLINE int ref_next_decided_exponent(const RefBitStatistics* statistics, int decided,
                                         int clipped_ppm, int bits) {
  int64_t elements = statistics->too_large;
  for (int k = 0; k <= REF_FINER_EXPONENTS; ++k) elements += statistics->fits[k];
  if (elements == 0) return decided;
  if (statistics->largest_exponent == REF_UNMEASURED) return ref_zero_exponent(bits);
  const int largest = (int)statistics->largest_exponent;
  const int64_t most = ref_most_clipped(elements, clipped_ppm);
  int64_t clipped = statistics->too_large;
  if (clipped > most) {
    const bool far = clipped >= elements / 16;
    return (int)ref_larger(decided, far ? largest : ref_smaller(decided + 1, largest));
  }
  int exponent = decided;
  for (int k = 0; k < REF_FINER_EXPONENTS; ++k) {
    clipped += statistics->fits[k];
    if (clipped > most) break;
    exponent = decided - k - 1;
  }
  return (int)ref_smaller(exponent, largest);
}

// The smallest exponent at which at most clipped_ppm millionths of the elements are clipped, for
// b-bit mantissas, from the warm-up's histogram: by_exponent[e - REF_EXPONENT_MIN] elements need
// the exponent e, and `zeros` none. Some element is not clipped. If all are zero: the exponent of a
// zero block.
REF_INLINE int ref_decided_exponent(const int64_t* by_exponent, int64_t zeros, int clipped_ppm,
                                    int bits) {
  const int count = REF_EXPONENT_MAX - REF_EXPONENT_MIN + 1;
  int64_t elements = zeros, clipped = 0;
  int lowest = 0, i = count - 1;
  for (int k = 0; k < count; ++k) elements += by_exponent[k];
  while (lowest < count && by_exponent[lowest] == 0) ++lowest;
  if (lowest == count) return ref_zero_exponent(bits);
  const int64_t most = ref_most_clipped(elements, clipped_ppm);
  for (; i > lowest; --i) {
    clipped += by_exponent[i];
    if (clipped > most) break;
  }
  return REF_EXPONENT_MIN + i;
}
