// A training step of an exported program: its scalars, its tensors and what it counts.
#pragma once

#include "reference/numerics/decisions.h"
#include "scalars/real.h"

// A function with much memory on the stack, which its caller must not get.
#if defined(__GNUC__)
#define DEV_APART static __attribute__((noinline))
#else
#define DEV_APART static
#endif

// Scalars of a step, as doubles of the engine.
typedef struct DevScalars {
  RefReal learning_rate, momentum, weight_decay;
  RefReal beta1, beta2, epsilon;  // Adam
  RefReal gradient_scale;         // 1 / batch size
  RefReal statistics_momentum;
  uint64_t seed;
  int64_t step;  // steps done before
} DevScalars;

typedef struct DevDynamic DevDynamic;  // device/training/dynamic.h
typedef struct DevNeeded DevNeeded;

typedef struct DevStep {
  DevScalars scalars;
  int32_t micro_batch, micro_batches;
  const DevDynamic* dynamic;  // dynamic fixed point; null in other formats
  bool warms_up;              // and in its warm-up
  const DevNeeded* needed;    // with several micro-batches
  // An instruction computes a value again that was not kept: its exponent is there.
  bool again;
  bool exponent_overflow, gradient_overflow;
  int64_t clipped;  // mantissas
  // Sums over the examples: the loss in Q24, right classes, examples that count, and their weights.
  int64_t loss, correct, counted, weight;
} DevStep;

// Dynamic fixed point: how the exponent of a tensor is decided.
typedef struct DevRule {
  int bits, limit, clipped_ppm, threshold;
  bool decides_at_once;
} DevRule;

// And what a step counts for that.
typedef struct DevCounts {
  RefBitStatistics written;
  int32_t decided;  // by the warm-up; INT32_MIN: not yet
  int32_t needed;   // exponents that micro-batches have noted
} DevCounts;

// mantissa * 2^(*exponent), the last dimension innermost.
typedef struct DevTensor {
  void* data;  // of 8 bits int8, up to 16 int16, else int32
  int32_t count, channels;
  int bits;
  int limit;            // of its exponent
  int16_t* exponent;    // parameters: of each block
  int16_t* predicted;   // measured in the last step, or decided; null: neither
  int16_t* measured;    // the largest of this step
  const DevRule* rule;  // dynamic fixed point
  DevCounts* counts;
  int8_t* channel_exponents;  // what a guarded value adds to its exponent; null: it has no guard
  const uint8_t* guarded;
  uint8_t* violated;
} DevTensor;

// A parameter with its update's tensors.
typedef struct DevParameter {
  void* weights;
  int16_t* exponents;  // [blocks]
  int16_t* accumulator;
  int16_t *first, *second;  // moments: velocity, or Adam's two
  int16_t *first_exponent, *second_exponent;
  int16_t* fixed_exponent;  // of the sums
  void* sums;               // int64 at the fixed exponent, or int32 at one of their own
  int16_t* sums_exponent;
  int sum_bits;
  int32_t count, blocks;
  int bits, shift;
  bool decays, stochastic;
  RefReal rate_factor;
  uint32_t index;
  DevTensor velocity;  // dynamic fixed point: how its exponent is decided
} DevParameter;

static inline bool dev_is_guarded(const DevTensor* t) {
  return t->guarded != NULL && *t->guarded != 0;
}

static inline int dev_channel_exponent(const DevTensor* t, int32_t channel) {
  return *t->exponent + (dev_is_guarded(t) ? t->channel_exponents[channel] : 0);
}

REF_BEGIN

// The exponent to keep: outside -128..127 it is clamped, and the step fails.
int16_t dev_checked(DevStep*, int exponent) REF_NOEXCEPT;

// Ends a step of block floating point: exponents that were measured are the predictors of the next.
void dev_commit_measured(int16_t* predicted, int16_t* measured, int32_t slots) REF_NOEXCEPT;

REF_END
