// An exported training program: its tensors and parameters as tables of places, and the memory that
// a model has.
#pragma once

#include "device/training/layers.h"

// A tensor's place. Offsets are in bytes; -1: there is none.
typedef struct DevTensorPlace {
  int32_t data;  // in the arena
  int32_t count, channels;
  int32_t channel_exponents;  // among those of all guarded values
  int16_t exponent;           // among the exponents
  int16_t predictor;          // among the predictors
  int16_t guard;              // among the guards
  int8_t bits, limit;
} DevTensorPlace;

// A tensor of a parameter: a constant, or a place in the state; -1: there is none.
typedef struct DevKept {
  const void* constant;
  int32_t state;
} DevKept;

typedef struct DevLayerPlace {
  const DevConvolution* shape;
  DevKept weights, exponents, bias, bias_exponent;
  int32_t blocks;
  int8_t bias_bits;
} DevLayerPlace;

// A parameter's places in the state, and of its sums in the arena.
typedef struct DevParameterPlace {
  uint64_t rate_factor;  // a double, as bits
  int32_t weights, exponents, accumulator;
  int32_t first, first_exponent, second, second_exponent;
  int32_t fixed_exponent;
  int32_t sums;
  int16_t sums_exponent;  // among the exponents; -1: the fixed one
  int16_t velocity;       // predictor; -1: none
  int32_t count, blocks;
  int8_t sum_bits, bits, shift;
  bool decays, stochastic;
  int16_t index;
} DevParameterPlace;

// The sums of a parameter's gradient.
typedef struct DevSumsPlace {
  int32_t data;            // in the arena
  int32_t fixed_exponent;  // in the state
  int32_t count;
  int16_t exponent;  // among the exponents; -1: the fixed one
  int8_t bits;
} DevSumsPlace;

// The state's places that a step ends with.
typedef struct DevProgram {
  const DevDynamic* dynamic;  // or null
  const DevRule* rules;       // [predictors], of dynamic fixed point; or null
  int32_t predictors;         // exponents that are decided or predicted
  int32_t measured;           // predictors of gradients, which a step measures
  int32_t predicted;          // in the state; -1: there are none
  int32_t counts;             // in the state: of dynamic fixed point
  int32_t guards;             // in the state
  int32_t guarded;            // guards
  int32_t arena_bytes;
  int16_t deciding_steps, decision_steps;
} DevProgram;

// The memory of a model. `state` and `arena` are aligned to 8 bytes.
typedef struct DevMemory {
  const DevProgram* program;
  uint8_t *state, *arena;
  int16_t* exponents;
  int16_t* measured;
  int8_t* channel_exponents;
  uint8_t* violated;
  DevCounts* counts;
  DevStep step;
} DevMemory;

REF_BEGIN

DevTensor dev_tensor(const DevMemory*, const DevTensorPlace*) REF_NOEXCEPT;
void* dev_kept(const DevMemory*, const DevKept*) REF_NOEXCEPT;
// `in`: null where it is not read. `work`: in the arena.
DevLayer dev_layer(const DevMemory*, const DevLayerPlace*, const DevTensor* in,
                   int32_t work) REF_NOEXCEPT;
DevParameter dev_parameter(const DevMemory*, const DevParameterPlace*) REF_NOEXCEPT;
DevSums dev_sums(const DevMemory*, const DevSumsPlace*) REF_NOEXCEPT;
// Sets sums to zero, in the first micro-batch of a step.
void dev_clear_sums(const DevMemory*, const DevSumsPlace*) REF_NOEXCEPT;

// Around an instruction that computes a value again: clipped mantissas were counted before.
int64_t dev_begin_again(DevMemory*) REF_NOEXCEPT;
void dev_end_again(DevMemory*, int64_t clipped) REF_NOEXCEPT;

// Before the instructions of a step: `step.scalars` are set.
void dev_begin_step(DevMemory*) REF_NOEXCEPT;
// After them: exponents for the next step. False if training diverged; the state is then of no use.
bool dev_end_step(DevMemory*) REF_NOEXCEPT;

REF_END
