#include "device/training/program.h"

#include "device/training/dynamic.h"

static int16_t* in_state(const DevMemory* m, int32_t place) {
  return place < 0 ? NULL : (int16_t*)(void*)(m->state + place);
}

static int16_t* predictor_of(const DevMemory* m, int16_t predictor) {
  return predictor < 0 ? NULL : in_state(m, m->program->predicted) + predictor;
}

DevTensor dev_tensor(const DevMemory* m, const DevTensorPlace* p) {
  const DevProgram* program = m->program;
  DevTensor t = {m->arena + p->data,
                 p->count,
                 p->channels,
                 p->bits,
                 p->limit,
                 m->exponents + p->exponent,
                 predictor_of(m, p->predictor),
                 NULL,
                 NULL,
                 NULL,
                 NULL,
                 NULL,
                 NULL};
  if (p->predictor >= 0 && p->predictor < program->measured) {
    t.measured = m->measured + p->predictor;
  }
  if (p->predictor >= 0 && program->rules != NULL) {
    t.rule = program->rules + p->predictor;
    t.counts = m->counts + p->predictor;
  }
  if (p->guard >= 0) {
    t.channel_exponents = m->channel_exponents + p->channel_exponents;
    t.guarded = m->state + program->guards + p->guard;
    t.violated = m->violated + p->guard;
  }
  return t;
}

static int16_t* sums_exponent(const DevMemory* m, int16_t exponent, int32_t fixed) {
  return exponent < 0 ? in_state(m, fixed) : m->exponents + exponent;
}

DevParameter dev_parameter(const DevMemory* m, const DevParameterPlace* p) {
  DevParameter v = {.weights = m->state + p->weights,
                    .exponents = in_state(m, p->exponents),
                    .accumulator = in_state(m, p->accumulator),
                    .first = in_state(m, p->first),
                    .second = in_state(m, p->second),
                    .first_exponent = in_state(m, p->first_exponent),
                    .second_exponent = in_state(m, p->second_exponent),
                    .fixed_exponent = in_state(m, p->fixed_exponent),
                    .sums = m->arena + p->sums,
                    .sums_exponent = sums_exponent(m, p->sums_exponent, p->fixed_exponent),
                    .sum_bits = p->sum_bits,
                    .count = p->count,
                    .blocks = p->blocks,
                    .bits = p->bits,
                    .shift = p->shift,
                    .decays = p->decays,
                    .stochastic = p->stochastic,
                    .rate_factor = ref_real_of_bits(p->rate_factor),
                    .index = (uint32_t)p->index};
  if (p->velocity < 0 || m->program->rules == NULL) return v;
  v.velocity.data = v.first;
  v.velocity.count = p->count;
  v.velocity.channels = p->count;
  v.velocity.bits = 16;
  v.velocity.limit = m->program->rules[p->velocity].limit;
  v.velocity.exponent = v.first_exponent;
  v.velocity.predicted = predictor_of(m, p->velocity);
  v.velocity.rule = m->program->rules + p->velocity;
  v.velocity.counts = m->counts + p->velocity;
  return v;
}

void* dev_kept(const DevMemory* m, const DevKept* p) {
  return p->constant != NULL || p->state < 0 ? (void*)p->constant : m->state + p->state;
}

DevLayer dev_layer(const DevMemory* m, const DevLayerPlace* p, const DevTensor* in, int32_t work) {
  const DevLayer layer = {p->shape,
                          in,
                          (const int8_t*)dev_kept(m, &p->weights),
                          (const int16_t*)dev_kept(m, &p->exponents),
                          p->blocks,
                          (const int16_t*)dev_kept(m, &p->bias),
                          (const int16_t*)dev_kept(m, &p->bias_exponent),
                          p->bias_bits,
                          (int32_t*)(void*)(m->arena + work)};
  return layer;
}

DevSums dev_sums(const DevMemory* m, const DevSumsPlace* p) {
  const DevSums sums = {m->arena + p->data, sums_exponent(m, p->exponent, p->fixed_exponent),
                        p->bits};
  return sums;
}

void dev_clear_sums(const DevMemory* m, const DevSumsPlace* p) {
  if (m->step.micro_batch > 0) return;
  uint8_t* bytes = m->arena + p->data;
  for (int32_t i = 0; i < p->count * (p->bits / 8); ++i) bytes[i] = 0;
}

int64_t dev_begin_again(DevMemory* m) {
  m->step.again = true;
  return m->step.clipped;
}

void dev_end_again(DevMemory* m, int64_t clipped) {
  m->step.again = false;
  m->step.clipped = clipped;
}

void dev_begin_step(DevMemory* m) {
  const DevProgram* program = m->program;
  DevStep* step = &m->step;
  step->exponent_overflow = step->gradient_overflow = false;
  step->clipped = step->loss = step->correct = step->counted = step->weight = 0;
  step->micro_batch = 0;
  step->again = false;
  step->dynamic = program->dynamic;
  step->warms_up = step->scalars.step < program->deciding_steps;
  for (int32_t i = 0; i < program->measured; ++i) m->measured[i] = REF_UNMEASURED;
  for (int32_t i = 0; i < program->guarded; ++i) m->violated[i] = 0;
  if (step->dynamic == NULL) return;
  const DevCounts none = {{0, {0}, REF_UNMEASURED}, INT32_MIN, 0};
  for (int32_t i = 0; i < program->predictors; ++i) m->counts[i] = none;
}

bool dev_end_step(DevMemory* m) {
  const DevProgram* program = m->program;
  DevStep* step = &m->step;
  if (step->exponent_overflow || step->gradient_overflow) return false;
  int16_t* predicted = in_state(m, program->predicted);
  if (step->dynamic != NULL) {
    step->dynamic->commit(step, program->rules, m->counts, predicted,
                          (RefBitStatistics*)(void*)(m->state + program->counts),
                          program->predictors, step->scalars.step + 1, program->decision_steps);
  } else if (predicted != NULL) {
    dev_commit_measured(predicted, m->measured, program->measured);
  }
  for (int32_t i = 0; i < program->guarded; ++i) {
    uint8_t* guard = m->state + program->guards + i;
    *guard = (uint8_t)(*guard | m->violated[i]);
  }
  ++step->scalars.step;
  return true;
}
