// Maxima, means, sums and softmax over axes in fp32.
#include "ops/pooling/reduce.h"

#include <algorithm>
#include <cmath>

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

// Calls row(first) for each row of a softmax: the elements first + k * inner for k up to count.
template <typename Row>
void for_softmax_rows(const OpContext& c, const Reduction& r, const Row& row) {
  for_each(c, r.results(),
           [&](int64_t i) { row(i / r.inner * r.count * r.inner + i % r.inner); });
}

// Writes the probabilities of a row of logits, `inner` elements apart.
void softmax_row(const float* in, const Reduction& r, float* out) {
  float most = in[0];
  for (int64_t k = 1; k < r.count; ++k) most = std::max(most, in[k * r.inner]);
  double sum = 0;
  for (int64_t k = 0; k < r.count; ++k) {
    out[k * r.inner] = std::exp(in[k * r.inner] - most);
    sum += out[k * r.inner];
  }
  const auto inverse = static_cast<float>(1 / sum);
  for (int64_t k = 0; k < r.count; ++k) out[k * r.inner] *= inverse;
}

void softmax_over(const OpContext& c) {
  const Reduction r = reduction(c, c.inputs[0]);
  for_softmax_rows(c, r, [&](int64_t first) {
    softmax_row(c.inputs[0].as<float>() + first, r, c.output().as<float>() + first);
  });
}

void softmax_over_backward(const OpContext& c) {
  const Reduction r = reduction(c, c.inputs[0]);
  for_softmax_rows(c, r, [&](int64_t first) {
    const auto* from = c.grad_output().as<float>() + first;
    auto* to = c.grad_inputs[0].as<float>() + first;
    softmax_row(c.inputs[0].as<float>() + first, r, to);
    double sum = 0;
    for (int64_t k = 0; k < r.count * r.inner; k += r.inner) sum += double{to[k]} * from[k];
    for (int64_t k = 0; k < r.count * r.inner; k += r.inner) {
      to[k] *= from[k] - static_cast<float>(sum);
    }
  });
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
const OpRows kSoftmax = {.forward = {.run = softmax_over},
                         .grad_input = {.run = softmax_over_backward},
                         .kernel = loops_name};

}  // namespace mantissa::ops::fp32
