// How many wide values need which shift to b bits: the warm-up's histogram of dynamic fixed point,
// filled by the pass that narrows them. Source: DynamicFixed, claim 1; METHODS section 2.
//
// An exponent that clips more elements than may be clipped is ruled out for good, and smaller
// values decide nothing. So only the largest values are looked at, some in ten thousand: whoever
// narrows a tile knows its maximum, and hands its values on only if that is large enough.
#pragma once

#include "reference/numerics/exponents.h"

enum { REF_MOST_SHIFT = 64 };

// Of one worker, for values that are being narrowed to `bits` by `shift`, of which at most `most`
// may be clipped.
typedef struct RefWideCounts {
  int bits REF_CXX(= 2), shift REF_CXX(= 0);
  int64_t most REF_CXX(= 0);
  uint64_t least REF_CXX(= 2);  // the smallest magnitude that still counts: it clips at `floor`
  int floor REF_CXX(= 0);       // smaller shifts than this one clip too many
  int64_t above REF_CXX(= 0);   // values that need more than `floor`
  // Those that need each larger one: 32 bits on machines that have no more to count.
  ptrdiff_t by_shift[REF_MOST_SHIFT + 1] REF_CXX(= {});
#ifdef __cplusplus
  static constexpr int kMostShift = REF_MOST_SHIFT;

  constexpr RefWideCounts() = default;
  constexpr RefWideCounts(int bits_of_mantissas, int shift_to_them, int64_t most_clipped)
      : bits(bits_of_mantissas),
        shift(shift_to_them),
        most(most_clipped),
        least(ref_least_clipped(0, bits_of_mantissas)) {}

  // The smallest magnitude of a mantissa whose wide value may count: its rounded quotient is at
  // least the truncated one.
  int64_t least_written() const {
    const auto limit = static_cast<uint64_t>(ref_mantissa_limit(bits));
    const uint64_t quotient = least >> (shift < 63 ? shift : 63);
    return static_cast<int64_t>(quotient < limit ? quotient : limit);
  }
  int64_t needing(int larger) const { return by_shift[larger]; }

  inline bool wants(const RefStatistics& piece) const;
  inline void add(uint64_t size, int64_t times = 1);
  template <typename Wide>
  void add(const Wide* wide, int64_t count) {
    for (int64_t i = 0; i < count; ++i) add(ref_magnitude(wide[i]));
  }
  // The counts of both; no more are added to these.
  friend RefWideCounts operator+(RefWideCounts sum, const RefWideCounts& other) {
    sum.floor = sum.floor < other.floor ? other.floor : sum.floor;
    for (int i = 0; i <= REF_MOST_SHIFT; ++i) sum.by_shift[i] += other.by_shift[i];
    return sum;
  }
#endif
} RefWideCounts;

// Whether values that count may be among those with these statistics.
REF_INLINE bool ref_wants(const RefWideCounts* counts, const RefStatistics* piece) {
  return piece->maximum >= counts->least && (piece->saturated > 0 || counts->floor < counts->shift);
}

// Counts wide values of this magnitude.
REF_INLINE void ref_count_size(RefWideCounts* counts, uint64_t size, int64_t times) {
  if (size < counts->least) return;
  counts->by_shift[ref_needed_shift(size, counts->bits)] += (ptrdiff_t)times;
  counts->above += times;
  while (counts->above > counts->most) {
    counts->above -= counts->by_shift[++counts->floor];
    counts->least = ref_least_clipped(counts->floor, counts->bits);
  }
}

// Counts a wide value, unless there is nothing to count in.
REF_INLINE void ref_count_wide(RefWideCounts* counts, int64_t wide) {
  if (counts != NULL) ref_count_size(counts, ref_magnitude(wide), 1);
}

#ifdef __cplusplus
inline bool RefWideCounts::wants(const RefStatistics& piece) const {
  return ref_wants(this, &piece);
}
inline void RefWideCounts::add(uint64_t size, int64_t times) { ref_count_size(this, size, times); }
#endif
