// Dynamic fixed point (METHODS section 2) as a table of functions: a program of another format does
// not name it, so that no linker keeps them.
#pragma once

#include "device/training/narrow.h"
#include "device/training/update_parts.h"

struct DevDynamic {
  // Narrows with the decided exponent; the warm-up may decide another.
  void (*narrow)(DevStep*, const DevNarrowing*);
  // A velocity gets the decided exponent in place of `exact`, the one that clips nothing.
  void (*use_velocity)(DevStep*, const DevParameter*, const DevDirection* exact, RefUpdate*);
  // Counts the bits of a velocity that was written.
  void (*count_velocity)(const DevStep*, const DevParameter*, const DevDirection* exact,
                         int64_t clipped);
  // Ends a step, after `steps` steps: decides the exponents of the next. `bits` are the counts
  // since the last decision.
  void (*commit)(DevStep*, const DevRule*, DevCounts*, int16_t* decided, RefBitStatistics* bits,
                 int32_t slots, int64_t steps, int64_t decision_steps);
};

// The warm-up of a step with several micro-batches, which decides for the next step by the elements
// of all: of each tensor the largest exponents that elements need, from the largest down. There is
// room for one more than may be clipped: the last is decided.
struct DevNeeded {
  const DevRule* rules;
  const int32_t* places;  // [predictors + 1], among the exponents
  int8_t* exponents;
};

REF_BEGIN

extern const DevDynamic dev_dynamic;
extern const DevDynamic dev_dynamic_of_micro_batches;

REF_END
