// Shared by the optimisers: from the summed gradient to a direction, and from a direction to the
// weights.
#pragma once

#include "device/training/updates.h"
#include "reference/training/update.h"

enum {
  kGradientBits = 31,  // of |g|
  kTermBits = 59       // of the terms of a sum: three of them fit int64
};

// A term of a sum: its coefficient times a mantissa of `bits` bits.
typedef struct DevTerm {
  RefReal coefficient;
  int bits;
  int64_t* multiplier;
} DevTerm;

// A parameter's sums: the largest at the fixed exponent, and how they become g.
typedef struct DevGradient {
  uint64_t maximum;
  int exponent;  // of g
  bool is_usable;
} DevGradient;

typedef struct DevDirection {
  int wide, exponent;
  bool is_zero;
} DevDirection;

// The shift that brings wide mantissas to `bits`, and the resulting exponent.
typedef struct DevNarrowed {
  int shift, exponent;
} DevNarrowed;

REF_BEGIN

RefUpdate dev_update_of(const DevStep*, const DevParameter*) REF_NOEXCEPT;
// The update with the decay of a block, for which its multiplier is smaller by a power of two.
RefUpdate dev_of_block(const DevParameter*, const RefUpdate*, int32_t block) REF_NOEXCEPT;
DevGradient dev_measure(DevStep*, const DevParameter*, RefUpdate*) REF_NOEXCEPT;
DevTerm dev_gradient_term(const DevStep*, const DevGradient*, RefUpdate*) REF_NOEXCEPT;
DevTerm dev_decay_term(const DevStep*, const DevParameter*, RefUpdate*) REF_NOEXCEPT;
// Multipliers that give all terms one exponent, which is returned.
int dev_choose_multipliers(const DevTerm*, int count) REF_NOEXCEPT;
DevNarrowed dev_narrowed(uint64_t maximum, int wide_exponent, int bits) REF_NOEXCEPT;
// Chooses direction_shift for the multipliers of `wide`, by a pass over it.
DevDirection dev_direction(const DevParameter*, RefUpdate*, int wide_exponent) REF_NOEXCEPT;
// Steps by the direction, changes the weights' unit if necessary, and sets the exponent of the sums
// for the next step.
void dev_take_step(DevStep*, const DevParameter*, RefUpdate*, int direction_exponent,
                   uint64_t gradient_maximum) REF_NOEXCEPT;
int dev_largest_exponent_of(const DevParameter*) REF_NOEXCEPT;
uint64_t dev_largest_of(const RefExtremes*) REF_NOEXCEPT;

REF_END
