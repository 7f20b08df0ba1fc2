// PReLU in fp32.
#include "ops/fp32.h"

namespace mantissa::ops::fp32 {
namespace {

// The slope of element i.
class SlopeOf {
 public:
  explicit SlopeOf(const OpContext& c)
      : slopes_(c.parameters[0].mantissa.as<float>()), count_(c.parameters[0].mantissa.count()) {}
  float operator()(int64_t i) const { return slopes_[i % count_]; }

 private:
  const float* slopes_;
  int64_t count_;
};

void prelu(const OpContext& c) {
  const SlopeOf slope(c);
  const auto* in = c.inputs[0].as<float>();
  auto* out = c.output().as<float>();
  for_each(c, c.output().count(),
           [&](int64_t i) { out[i] = in[i] > 0 ? in[i] : slope(i) * in[i]; });
}

void prelu_backward(const OpContext& c) {
  const SlopeOf slope(c);
  const auto *in = c.inputs[0].as<float>(), *from = c.grad_output().as<float>();
  auto* to = c.grad_inputs[0].as<float>();
  for_each(c, c.grad_inputs[0].count(),
           [&](int64_t i) { to[i] = in[i] > 0 ? from[i] : slope(i) * from[i]; });
}

// Channels shared among threads, so that no two add to one element.
void prelu_backward_weights(const OpContext& c) {
  const Tensor& gradient = c.parameters[0].gradient;
  const auto *in = c.inputs[0].as<float>(), *from = c.grad_output().as<float>();
  const int64_t count = c.inputs[0].count(), step = gradient.count();
  kernels::parallel_ranges(*c.kernel.pool, step, 16, [&](int64_t begin, int64_t end, int64_t) {
    for (int64_t channel = begin; channel < end; ++channel) {
      double sum = 0;
      for (int64_t i = channel; i < count; i += step) {
        if (in[i] < 0) sum += double{in[i]} * from[i];
      }
      gradient.as<float>()[channel] += static_cast<float>(sum);
    }
  });
}

}  // namespace

const OpRows kPrelu = {.forward = {.run = prelu},
                       .grad_input = {.run = prelu_backward},
                       .grad_weights = {.run = prelu_backward_weights},
                       .kernel = loops_name};

}  // namespace mantissa::ops::fp32
