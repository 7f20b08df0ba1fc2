// Batch norm in fp32: sums per channel in double.
#include "ops/norms/batch_norm.h"

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>

#include "ops/attributes.h"
#include "ops/fp32.h"
#include "ops/ops.h"
#include "ops/quantise_steps.h"

namespace mantissa::ops::fp32 {
namespace {

// Written forward, read backward: [channels] each.
struct Saved {
  double *mean, *inverse_sigma, *sum_grad, *sum_grad_in;
  Saved(std::byte* base, int64_t channels)
      : mean(reinterpret_cast<double*>(base)),
        inverse_sigma(mean + channels),
        sum_grad(inverse_sigma + channels),
        sum_grad_in(sum_grad + channels) {}
};

OpMemory memory(const OpShapes& s, const PlanningContext&) {
  const int64_t doubles = s.output.last() * int64_t{sizeof(double)};
  const RowMemory phase{.workspace_bytes = 2 * kernels::kMaximumParts * doubles};
  return {.saved_bytes = 4 * doubles,
          .statistics_bytes = 2 * doubles,
          .forward = phase,
          .grad_input = phase,
          .grad_weights = phase};
}

// Calls add(row, sums) for each row, with the two [channels] sums of its part; they are then added
// up, in order, at the start of the workspace, which is returned.
template <typename Add>
double* row_sums(const OpContext& c, int64_t rows, int64_t channels, Add&& add) {
  auto* work = reinterpret_cast<double*>(c.memory.workspace);
  const int64_t parts = kernels::parallel_ranges(*c.kernel.pool, rows,
                                                 std::max<int64_t>(1, kFloatsPerThread / channels),
                                                 [&](int64_t begin, int64_t end, int64_t part) {
                                                   double* sums = work + part * 2 * channels;
                                                   std::fill_n(sums, 2 * channels, 0.0);
                                                   for (int64_t row = begin; row < end; ++row)
                                                     add(row, sums);
                                                 });
  for (int64_t part = 1; part < parts; ++part) {
    for (int64_t i = 0; i < 2 * channels; ++i) work[i] += work[part * 2 * channels + i];
  }
  return work;
}

// Per-channel scale and offset from running statistics.
struct Affine {
  float scale, offset;
};

Affine running_affine(const OpContext& c, int64_t i) {
  const double mean = c.parameters[2].mantissa.as<double>()[i];
  const double variance = c.parameters[3].mantissa.as<double>()[i];
  const double scale =
      c.parameters[0].mantissa.as<float>()[i] / std::sqrt(variance + kBatchNormEpsilon);
  return {static_cast<float>(scale),
          static_cast<float>(c.parameters[1].mantissa.as<float>()[i] - scale * mean)};
}

Affine batch_affine(const OpContext& c, const Saved& saved, int64_t i) {
  const double scale = c.parameters[0].mantissa.as<float>()[i] * saved.inverse_sigma[i];
  return {static_cast<float>(scale),
          static_cast<float>(c.parameters[1].mantissa.as<float>()[i] - scale * saved.mean[i])};
}

void batch_statistics(const OpContext& c, const Saved& saved, int64_t rows, int64_t channels) {
  const auto* in = c.inputs[0].as<float>();
  const double* sums = row_sums(c, rows, channels, [&](int64_t row, double* part) {
    const float* x = in + row * channels;
    for (int64_t i = 0; i < channels; ++i) {
      part[i] += x[i];
      part[channels + i] += static_cast<double>(x[i]) * x[i];
    }
  });
  auto* record = reinterpret_cast<double*>(c.memory.statistics) + c.step.micro_batch * 2 * channels;
  const auto n = static_cast<double>(rows);
  for (int64_t i = 0; i < channels; ++i) {
    saved.mean[i] = sums[i] / n;
    const double variance = std::max(0.0, sums[channels + i] / n - saved.mean[i] * saved.mean[i]);
    saved.inverse_sigma[i] = 1 / std::sqrt(variance + kBatchNormEpsilon);
    record[i] = saved.mean[i];
    record[channels + i] = rows > 1 ? variance * n / (n - 1) : variance;
  }
}

// y = x * scale + offset, then the fused ReLU.
void apply(const OpContext& c, const float* scale, const float* offset, int64_t channels) {
  const auto* in = c.inputs[0].as<float>();
  auto* out = c.output().as<float>();
  const float least = c.mode.relu ? 0.0f : -__builtin_huge_valf();
  kernels::parallel_ranges(*c.kernel.pool, c.output().count() / channels,
                           std::max<int64_t>(1, kFloatsPerThread / channels),
                           [&](int64_t begin, int64_t end, int64_t) {
                             for (int64_t row = begin; row < end; ++row) {
                               const float* x = in + row * channels;
                               float* y = out + row * channels;
                               for (int64_t i = 0; i < channels; ++i) {
                                 y[i] = std::max(x[i] * scale[i] + offset[i], least);
                               }
                             }
                           });
}

void forward(const OpContext& c) {
  const int64_t channels = c.output().shape.last(), rows = c.output().count() / channels;
  const Saved saved(c.memory.saved, channels);
  const bool training = is_training(c.mode.exponents);
  if (training) batch_statistics(c, saved, rows, channels);
  auto* scale = reinterpret_cast<float*>(c.memory.workspace);
  float* offset = scale + channels;
  for (int64_t i = 0; i < channels; ++i) {
    const Affine affine = training ? batch_affine(c, saved, i) : running_affine(c, i);
    scale[i] = affine.scale, offset[i] = affine.offset;
  }
  apply(c, scale, offset, channels);
}

// Calls visit(gradient) with a function that gives the incoming gradient at an element, through the
// fused ReLU if there is one. Each case has its own loop, which compilers vectorise.
template <typename Visit>
void with_incoming(const OpContext& c, Visit&& visit) {
  const auto *from = c.grad_output().as<float>(), *out = c.output().as<float>();
  if (c.mode.relu) {
    visit([=](int64_t at) {
      const int32_t passes = -static_cast<int32_t>(out[at] > 0);  // all ones or none
      return std::bit_cast<float>(std::bit_cast<int32_t>(from[at]) & passes);
    });
  } else {
    visit([=](int64_t at) { return from[at]; });
  }
}

void backward_weights(const OpContext& c) {
  const int64_t channels = c.grad_output().shape.last(), rows = c.grad_output().count() / channels;
  const Saved saved(c.memory.saved, channels);
  const auto* in = c.inputs[0].as<float>();
  const double* sums = nullptr;
  with_incoming(c, [&](auto&& incoming) {
    sums = row_sums(c, rows, channels, [=](int64_t row, double* part) {
      const double *mean = saved.mean, *inverse_sigma = saved.inverse_sigma;
      for (int64_t i = 0; i < channels; ++i) {
        const int64_t at = row * channels + i;
        const double gradient = incoming(at);
        part[i] += gradient;
        part[channels + i] += gradient * (in[at] - mean[i]) * inverse_sigma[i];
      }
    });
  });
  for (int64_t i = 0; i < channels; ++i) {
    saved.sum_grad[i] = sums[i];
    saved.sum_grad_in[i] = sums[channels + i];
    c.parameters[0].gradient.as<float>()[i] += static_cast<float>(sums[channels + i]);
    c.parameters[1].gradient.as<float>()[i] += static_cast<float>(sums[i]);
  }
}

// dx = (gamma / sigma) (dy - mean of dy - x^ * mean of dy x^)
void backward_input(const OpContext& c) {
  const int64_t channels = c.grad_output().shape.last(), rows = c.grad_output().count() / channels;
  const Saved saved(c.memory.saved, channels);
  auto* grad = reinterpret_cast<float*>(c.memory.workspace);
  float *by_input = grad + channels, *offset = by_input + channels;
  for (int64_t i = 0; i < channels; ++i) {
    const double scale = c.parameters[0].mantissa.as<float>()[i] * saved.inverse_sigma[i];
    const double slope =
        -scale * saved.sum_grad_in[i] / static_cast<double>(rows) * saved.inverse_sigma[i];
    grad[i] = static_cast<float>(scale);
    by_input[i] = static_cast<float>(slope);
    offset[i] = static_cast<float>(-scale * saved.sum_grad[i] / static_cast<double>(rows) -
                                   slope * saved.mean[i]);
  }
  const auto* in = c.inputs[0].as<float>();
  auto* out = c.grad_inputs[0].as<float>();
  with_incoming(c, [&](auto&& incoming) {
    kernels::parallel_ranges(
        *c.kernel.pool, rows, std::max<int64_t>(1, kFloatsPerThread / channels),
        [=](int64_t begin, int64_t end, int64_t) {
          for (int64_t row = begin; row < end; ++row) {
            for (int64_t i = 0; i < channels; ++i) {
              const int64_t at = row * channels + i;
              out[at] = grad[i] * incoming(at) + by_input[i] * in[at] + offset[i];
            }
          }
        });
  });
}

// The factor of ops/norms/rescale.cpp.
double rescale_factor(const OpContext& c) {
  const auto& attributes = c.attributes<QuantiseAttributes>();
  if (attributes.bits == 0) return 1;
  const double range = std::max(c.parameters[0].mantissa.as<float>()[0], FLT_MIN);
  return std::ldexp(range / static_cast<double>(quantise_levels(attributes)), -attributes.exponent);
}

Affine rescale_affine(const OpContext& c, int64_t i) {
  const size_t scale = c.parameters.size() - 2;
  return {static_cast<float>(c.parameters[scale].mantissa.as<float>()[i] * rescale_factor(c)),
          c.parameters[scale + 1].mantissa.as<float>()[i]};
}

OpMemory rescale_memory(const OpShapes& s, const PlanningContext& planning) {
  OpMemory result = memory(s, planning);
  result.saved_bytes = result.statistics_bytes = 0;
  return result;
}

void rescale_forward(const OpContext& c) {
  const int64_t channels = c.output().shape.last();
  auto* scale = reinterpret_cast<float*>(c.memory.workspace);
  float* offset = scale + channels;
  for (int64_t i = 0; i < channels; ++i) {
    const Affine affine = rescale_affine(c, i);
    scale[i] = affine.scale, offset[i] = affine.offset;
  }
  apply(c, scale, offset, channels);
}

void rescale_backward_weights(const OpContext& c) {
  const int64_t channels = c.grad_output().shape.last(), rows = c.grad_output().count() / channels;
  const auto* in = c.inputs[0].as<float>();
  const double* sums = nullptr;
  with_incoming(c, [&](auto&& incoming) {
    sums = row_sums(c, rows, channels, [=](int64_t row, double* part) {
      for (int64_t i = 0; i < channels; ++i) {
        const int64_t at = row * channels + i;
        const double gradient = incoming(at);
        part[i] += gradient;
        part[channels + i] += gradient * in[at];
      }
    });
  });
  const size_t scale = c.parameters.size() - 2;
  const double factor = rescale_factor(c);
  for (int64_t i = 0; i < channels; ++i) {
    c.parameters[scale].gradient.as<float>()[i] += static_cast<float>(factor * sums[channels + i]);
    c.parameters[scale + 1].gradient.as<float>()[i] += static_cast<float>(sums[i]);
  }
}

void rescale_backward_input(const OpContext& c) {
  const int64_t channels = c.grad_output().shape.last(), rows = c.grad_output().count() / channels;
  auto* by = reinterpret_cast<float*>(c.memory.workspace);
  for (int64_t i = 0; i < channels; ++i) by[i] = rescale_affine(c, i).scale;
  auto* out = c.grad_inputs[0].as<float>();
  with_incoming(c, [&](auto&& incoming) {
    kernels::parallel_ranges(*c.kernel.pool, rows,
                             std::max<int64_t>(1, kFloatsPerThread / channels),
                             [=](int64_t begin, int64_t end, int64_t) {
                               for (int64_t row = begin; row < end; ++row) {
                                 for (int64_t i = 0; i < channels; ++i) {
                                   const int64_t at = row * channels + i;
                                   out[at] = by[i] * incoming(at);
                                 }
                               }
                             });
  });
}

void scale_offset(const OpContext& c) {
  apply(c, c.parameters[0].mantissa.as<float>(), c.parameters[1].mantissa.as<float>(),
        c.output().shape.last());
}

}  // namespace

void freeze_affine(const OpContext& context, float* multiplier, float* offset) {
  const bool rescales = context.node.op == &ops::kRescale;
  for (int64_t i = 0; i < context.output().shape.last(); ++i) {
    const Affine affine = rescales ? rescale_affine(context, i) : running_affine(context, i);
    multiplier[i] = affine.scale, offset[i] = affine.offset;
  }
}

const OpRows kBatchNorm = {.memory = memory,
                           .forward = {.run = forward},
                           .grad_input = {.run = backward_input},
                           .grad_weights = {.run = backward_weights},
                           .statistics = {.run = update_running_statistics},
                           .kernel = loops_name};
const OpRows kRescale = {.memory = rescale_memory,
                         .forward = {.run = rescale_forward},
                         .grad_input = {.run = rescale_backward_input},
                         .grad_weights = {.run = rescale_backward_weights},
                         .kernel = loops_name};
const OpRows kScaleOffset = {.forward = {.run = scale_offset}, .kernel = loops_name};

}  // namespace mantissa::ops::fp32
