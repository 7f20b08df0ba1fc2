// Maxima, means and sums over axes in fp32.
#include "ops/pooling/reduce.h"

#include <algorithm>

#include "ops/fp32.h"

namespace mantissa::ops::fp32 {
namespace {

Reduction reduction(const OpContext& c, const Tensor& tensor) {
  return reduction_of(tensor.shape, c.attributes<ReduceAttributes>().over);
}

// Sums in double, or means.
template <bool kMean>
void add_up(const OpContext& c) {
  const Reduction r = reduction(c, c.inputs[0]);
  const auto* in = c.inputs[0].as<float>();
  auto* out = c.output().as<float>();
  for_each(c, r.results(), [&](int64_t i) {
    const float* from = in + i / r.inner * r.count * r.inner + i % r.inner;
    double sum = 0;
    for (int64_t k = 0; k < r.count; ++k) sum += from[k * r.inner];
    out[i] = static_cast<float>(kMean ? sum / static_cast<double>(r.count) : sum);
  });
}

template <bool kMean>
void add_up_backward(const OpContext& c) {
  const Reduction r = reduction(c, c.grad_inputs[0]);
  const float factor = kMean ? 1.0f / static_cast<float>(r.count) : 1.0f;
  const auto* from = c.grad_output().as<float>();
  auto* to = c.grad_inputs[0].as<float>();
  for_each(c, c.grad_inputs[0].count(), [&](int64_t i) { to[i] = from[r.result_of(i)] * factor; });
}

// The place of the first maximum of result i.
int64_t place_of(const Reduction& r, const float* in, int64_t i) {
  const int64_t first = i / r.inner * r.count * r.inner + i % r.inner;
  int64_t best = first;
  for (int64_t k = 1; k < r.count; ++k) {
    if (in[first + k * r.inner] > in[best]) best = first + k * r.inner;
  }
  return best;
}

void maximum(const OpContext& c) {
  const Reduction r = reduction(c, c.inputs[0]);
  const auto* in = c.inputs[0].as<float>();
  for_each(c, r.results(),
           [&](int64_t i) { c.output().as<float>()[i] = in[place_of(r, in, i)]; });
}

void maximum_backward(const OpContext& c) {
  const Reduction r = reduction(c, c.grad_inputs[0]);
  const auto *in = c.inputs[0].as<float>(), *from = c.grad_output().as<float>();
  auto* to = c.grad_inputs[0].as<float>();
  for_each(c, c.grad_inputs[0].count(), [&](int64_t i) { to[i] = 0; });
  for_each(c, r.results(), [&](int64_t i) { to[place_of(r, in, i)] = from[i]; });
}

}  // namespace

const OpRows kReduceMax = {
    .forward = {.run = maximum}, .grad_input = {.run = maximum_backward}, .kernel = loops_name};
const OpRows kReduceMean = {.forward = {.run = add_up<true>},
                            .grad_input = {.run = add_up_backward<true>},
                            .kernel = loops_name};
const OpRows kReduceSum = {.forward = {.run = add_up<false>},
                           .grad_input = {.run = add_up_backward<false>},
                           .kernel = loops_name};

}  // namespace mantissa::ops::fp32
