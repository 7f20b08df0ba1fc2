// Wide results become a block of mantissas: the exponent rules of METHODS sections 0.7, 1 and 2 for
// values and gradients, around passes that compute, write and measure.
#pragma once

#include "device/training/step.h"
#include "reference/numerics/wide_counts.h"

// Computes the wide values, writes them narrowed by a right shift, and returns their statistics;
// counts them unless `counts` is null. May run twice.
typedef RefStatistics (*DevPass)(const void* work, int shift, RefWideCounts* counts);

typedef struct DevNarrowing {
  DevPass pass;
  const void* work;
  const DevTensor* to;
  int wide_exponent;
  int most;  // the largest shift of a pass
} DevNarrowing;

// Wide value i of a pass over elements, of channel c.
typedef int64_t (*DevWide)(const void* work, int32_t i, int32_t c);

// A pass over the elements of a tensor.
typedef struct DevElements {
  DevWide wide;
  const void* work;
  const DevTensor* to;
} DevElements;

REF_BEGIN

// A value: from the block's own maximum, or the exponent that was decided.
void dev_narrow_value(DevStep*, const DevNarrowing*) REF_NOEXCEPT;
// A gradient: the exponent measured in the step before plus one bit of headroom, unless the block
// has outgrown that; without a predictor, from its own maximum; or as decided.
void dev_narrow_gradient(DevStep*, const DevNarrowing*) REF_NOEXCEPT;

// Of type DevPass: `work` is a DevElements.
RefStatistics dev_pass_elements(const void* work, int shift, RefWideCounts* counts) REF_NOEXCEPT;
// Values and gradients of wide values.
void dev_write_value(DevStep*, const DevElements*, int wide_exponent, int most) REF_NOEXCEPT;
void dev_write_gradient(DevStep*, const DevElements*, int wide_exponent) REF_NOEXCEPT;

// Element i of a tensor.
int64_t dev_at(const DevTensor*, int32_t i) REF_NOEXCEPT;
// Writes rescale_rne(wide, shift), clipped, and adds to the statistics.
void dev_put(const DevTensor*, int32_t i, int64_t wide, int shift, RefStatistics*) REF_NOEXCEPT;

// The exponent that clips nothing, or REF_UNMEASURED.
int dev_largest_exponent(const DevTensor*, uint64_t maximum, int wide_exponent) REF_NOEXCEPT;
// Adds clipped mantissas to the step's, except those that all readers clip.
void dev_add_clipped(DevStep*, const DevTensor*, int64_t count) REF_NOEXCEPT;

REF_END
