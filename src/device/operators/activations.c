#include "device/operators/activations.h"

enum { kMantissas = 128, kMostShift = 62, kSlopeBits = 30 };

typedef int64_t (*Function)(int64_t q, int e, RefFraction slope);

// What a pass computes: f of each element or, with gradients, f' times each gradient.
typedef struct Pass {
  const DevPoint* point;
  Function function;
  const DevTensor* grad_out;
} Pass;

static void fill_table(const DevPoint* p, Function function) {
  for (int q = -kMantissas; q < kMantissas && p->table != NULL; ++q) {
    p->table[q + kMantissas] = function(q, *p->in->exponent, p->slope);
  }
}

static int64_t result_of(const Pass* pass, int32_t i) {
  const DevPoint* p = pass->point;
  const int64_t q = dev_at(p->in, i);
  return p->table != NULL ? p->table[q + kMantissas]
                          : pass->function(q, *p->in->exponent, p->slope);
}

static int64_t value_of(const void* work, int32_t i, int32_t c) {
  (void)c;
  return result_of((const Pass*)work, i);
}

// A slope of 30 bits times a gradient of up to 16.
static int64_t gradient_of(const void* work, int32_t i, int32_t c) {
  const Pass* pass = (const Pass*)work;
  (void)c;
  return dev_at(pass->grad_out, i) * result_of(pass, i);
}

void dev_train_point(DevStep* step, const DevPoint* p, const DevTensor* out) {
  const Pass pass = {p, p->function->value, NULL};
  const DevElements elements = {value_of, &pass, out};
  fill_table(p, pass.function);
  dev_write_value(step, &elements, p->function->wide_exponent(*p->in->exponent), kMostShift);
}

void dev_train_point_gradient(DevStep* step, const DevPoint* p, const DevTensor* grad_out,
                              const DevTensor* grad_in) {
  const Pass pass = {p, p->function->derivative_q30, grad_out};
  const DevElements elements = {gradient_of, &pass, grad_in};
  fill_table(p, pass.function);
  dev_write_gradient(step, &elements, *grad_out->exponent - kSlopeBits);
}

void dev_train_point_mask(const DevPoint* p, const DevTensor* grad_out, const DevTensor* grad_in) {
  const RefMantissaRange range = p->function->passes(*p->in->exponent);
  RefStatistics unused = {0, 0};
  for (int32_t i = 0; i < grad_in->count; ++i) {
    const int64_t q = dev_at(p->in, i);
    const bool passes = q >= range.low && q <= range.high;
    dev_put(grad_in, i, passes ? dev_at(grad_out, i) : 0, 0, &unused);
  }
  *grad_in->exponent = *grad_out->exponent;
}
