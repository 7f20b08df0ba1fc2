#include "device/operators/multiply.h"

enum { kWideBits = 32 };

// Elements of `a`, each times the element of `b` that it meets.
typedef struct Product {
  const DevFactors* factors;
  const DevTensor *a, *b;
} Product;

static int64_t product_of(const void* work, int32_t i, int32_t c) {
  const Product* p = (const Product*)work;
  const int32_t period = p->factors->period;
  const int32_t at = period == 0 ? i : i / p->factors->image * period + c;
  return dev_at(p->a, i) * dev_at(p->b, at);
}

static int64_t sum_of(const void* work, int32_t i, int32_t c) {
  const Product* p = (const Product*)work;
  const int32_t image = p->factors->image, period = p->factors->period;
  const int32_t first = i / period * image + c;
  int64_t sum = 0;
  for (int32_t at = first; at < first - c + image; at += period) {
    sum += dev_at(p->a, at) * dev_at(p->b, at);
  }
  return sum;
}

void dev_train_multiply(DevStep* step, const DevFactors* factors, const DevTensor* a,
                        const DevTensor* b, const DevTensor* out) {
  const Product product = {factors, a, b};
  const DevElements elements = {product_of, &product, out};
  dev_write_value(step, &elements, *a->exponent + *b->exponent, kWideBits - out->bits);
}

void dev_train_multiply_gradient(DevStep* step, const DevFactors* factors,
                                 const DevTensor* grad_out, const DevTensor* other,
                                 const DevTensor* grad_in) {
  const Product product = {factors, grad_out, other};
  const DevElements elements = {product_of, &product, grad_in};
  dev_write_gradient(step, &elements, *grad_out->exponent + *other->exponent);
}

void dev_train_gate_gradient(DevStep* step, const DevFactors* factors, const DevTensor* grad_out,
                             const DevTensor* image, const DevTensor* grad_gate) {
  const Product product = {factors, grad_out, image};
  const DevElements elements = {sum_of, &product, grad_gate};
  dev_write_gradient(step, &elements, *grad_out->exponent + *image->exponent);
}
