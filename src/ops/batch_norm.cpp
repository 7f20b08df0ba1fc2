// Batch norm, its frozen form scale_offset, and the running statistics. Source: METHODS sections
// 0.3, 0.8 and 4 (fused backward with kept convolution output).
//
// Parameters: scale (gamma), offset (beta), running mean and variance. In mantissa units q of the
// input x = q * 2^e_c: y = gamma (q - mean_q) / sigma_q + beta.
#include "ops/batch_norm.h"

#include <algorithm>
#include <cmath>

#include "base/checked.h"
#include "kernels/kernel_table.h"
#include "kernels/parallel_ranges.h"
#include "numerics/fixed_point.h"
#include "ops/fp32/fp32.h"
#include "ops/kernel_name.h"
#include "ops/narrowing.h"
#include "ops/ops.h"
#include "ops/wide_values.h"

namespace mantissa::ops {
namespace {

constexpr int64_t kGrain = 16384;
constexpr int64_t kOffsetLimit = int64_t{1} << 44;
constexpr int64_t kGradientOffsetLimit = int64_t{1} << 59;

// Per-channel arrays in a block of memory, one after the other, each aligned to 64 bytes.
class Carve {
 public:
  explicit Carve(std::byte* base) : next_(base) {}
  template <typename T>
  T* take(int64_t count) {
    if (next_ == nullptr) return nullptr;  // inference saves nothing
    T* start = reinterpret_cast<T*>(next_);
    next_ += round_up<int64_t>(count * int64_t{sizeof(T)}, 64);
    return start;
  }

 private:
  std::byte* next_;
};

int64_t carved_bytes(int64_t count, int64_t element) {
  return round_up<int64_t>(count * element, 64);
}

// Written forward, read backward.
struct Saved {
  double* mean;           // of q
  double* inverse_sigma;  // 1 / sigma_q
  int64_t* sum_grad;      // sum of dy, by backward_weights
  int64_t* sum_grad_in;   // sum of dy * q, by backward_weights
  Saved(std::byte* base, int64_t channels) {
    Carve carve(base);
    mean = carve.take<double>(channels);
    inverse_sigma = carve.take<double>(channels);
    sum_grad = carve.take<int64_t>(channels);
    sum_grad_in = carve.take<int64_t>(channels);
  }
  static int64_t bytes(int64_t channels) { return 4 * carved_bytes(channels, 8); }
};

struct Workspace {
  int32_t* multiplier;
  int32_t* in_multiplier;
  int64_t* offset;
  int64_t* partial;  // 3 arrays of int64 per part: two sums, and the extremes as int32 pairs
  Workspace(std::byte* base, int64_t channels) {
    Carve carve(base);
    multiplier = carve.take<int32_t>(channels);
    in_multiplier = carve.take<int32_t>(channels);
    offset = carve.take<int64_t>(channels);
    partial = carve.take<int64_t>(3 * kernels::kMaximumParts * channels);
  }
  static int64_t bytes(int64_t channels) {
    return 2 * carved_bytes(channels, 4) + carved_bytes(channels, 8) +
           carved_bytes(3 * kernels::kMaximumParts * channels, 8);
  }
};

Result<Shape> infer(const Attributes&, std::span<const Shape> inputs) {
  if (inputs.size() != 1 || inputs[0].rank == 0) return invalid_input("wants one input");
  return inputs[0];
}

std::vector<ParameterSpec> parameters(const Attributes& attributes, std::span<const Shape> inputs) {
  const Shape shape{inputs[0].last()};
  const auto scale = attributes.get("zero_scale", 0) != 0 ? Initialiser::kZero : Initialiser::kOne;
  return {{"scale", shape, ParameterRole::kScale, scale, 1},
          {"offset", shape, ParameterRole::kOffset, Initialiser::kZero, 1},
          {"running_mean", shape, ParameterRole::kRunningMean, Initialiser::kZero, 1},
          {"running_variance", shape, ParameterRole::kRunningVariance, Initialiser::kOne, 1}};
}

OpMemory memory(const OpShapes& s, const PlanningContext&) {
  const int64_t channels = s.output.last();
  const PhaseMemory phase{.workspace_bytes = Workspace::bytes(channels)};
  return {.saved_bytes = Saved::bytes(channels),
          .statistics_bytes = 2 * channels * int64_t{sizeof(double)},
          .forward = phase,
          .backward_input = phase,
          .backward_weights = phase};
}

double real(const Tensor& tensor, int64_t c) {
  return std::ldexp(static_cast<double>(tensor.as<int16_t>()[c]), *tensor.exponent);
}

// Exponent of channel c of the input.
int channel_exponent(const Tensor& input, int64_t c) {
  const bool guarded = input.guarded != nullptr && *input.guarded != 0;
  return *input.exponent + (guarded ? input.channel_exponent[c] : 0);
}

// What the kernel for 8 bits does, for any width: adds rows [begin, end) to the sums.
void add_wide_rows(const Tensor& input, int64_t channels, int64_t begin, int64_t end,
                   const kernels::ChannelSums& sums) {
  const Mantissas in(input);
  for (int64_t row = begin; row < end; ++row) {
    for (int64_t i = 0; i < channels; ++i) {
      const int64_t q = in[row * channels + i];
      sums.sum[i] += q;
      sums.sum_squares[i] += q * q;
      sums.minimum[i] = std::min(sums.minimum[i], static_cast<int32_t>(q));
      sums.maximum[i] = std::max(sums.maximum[i], static_cast<int32_t>(q));
    }
  }
}

// Exact per-channel sums over all rows, reduced over the parts.
kernels::ChannelSums channel_sums(const OpContext& c, const Workspace& work, int64_t channels,
                                  int64_t rows) {
  const auto part_sums = [&](int64_t part) {
    int64_t* base = work.partial + part * 3 * channels;
    auto* extremes = reinterpret_cast<int32_t*>(base + 2 * channels);
    return kernels::ChannelSums{base, base + channels, extremes, extremes + channels};
  };
  const int64_t parts = kernels::parallel_ranges(
      *c.kernel.pool, rows, std::max<int64_t>(1, kGrain / channels),
      [&](int64_t begin, int64_t end, int64_t part) {
        const kernels::ChannelSums sums = part_sums(part);
        std::fill_n(sums.sum, 2 * channels, 0);
        std::fill_n(sums.minimum, channels, INT32_MAX);
        std::fill_n(sums.maximum, channels, INT32_MIN);
        if (!is_bytes(c.inputs[0])) return add_wide_rows(c.inputs[0], channels, begin, end, sums);
        c.kernels->batch_norm->channel_sums(c.inputs[0].as<int8_t>(), channels, begin, end, sums);
      });
  kernels::ChannelSums total = part_sums(0);
  for (int64_t part = 1; part < parts; ++part) {
    const kernels::ChannelSums sums = part_sums(part);
    for (int64_t i = 0; i < channels; ++i) {
      total.sum[i] += sums.sum[i];
      total.sum_squares[i] += sums.sum_squares[i];
      total.minimum[i] = std::min(total.minimum[i], sums.minimum[i]);
      total.maximum[i] = std::max(total.maximum[i], sums.maximum[i]);
    }
  }
  return total;
}

// Batch statistics of each channel, in double from exact integers; the record for the running
// statistics; the guard (sigma of a channel at least one unit).
void batch_statistics(const OpContext& c, const kernels::ChannelSums& sums, const Saved& saved,
                      int64_t channels, int64_t rows) {
  auto* record = reinterpret_cast<double*>(c.statistics) + c.micro_batch * 2 * channels;
  const auto n = static_cast<double>(rows);
  bool violated = false;
  for (int64_t i = 0; i < channels; ++i) {
    const __int128 squares = static_cast<__int128>(rows) * sums.sum_squares[i];
    const __int128 spread = squares - static_cast<__int128>(sums.sum[i]) * sums.sum[i];
    violated |= spread < static_cast<__int128>(rows) * rows;
    const int exponent = channel_exponent(c.inputs[0], i);
    const double variance = static_cast<double>(spread) / n / n;
    saved.mean[i] = static_cast<double>(sums.sum[i]) / n;
    // A constant channel gives beta: x - mean is zero everywhere, whatever 1 / sigma is.
    saved.inverse_sigma[i] =
        spread == 0 ? 0 : 1 / std::sqrt(variance + std::ldexp(kBatchNormEpsilon, -2 * exponent));
    record[i] = std::ldexp(saved.mean[i], exponent);
    record[channels + i] = std::ldexp(rows > 1 ? variance * n / (n - 1) : variance, 2 * exponent);
  }
  c.totals->guard_violations += violated;
  if (violated && c.inputs[0].guard_violated != nullptr) *c.inputs[0].guard_violated = 1;
}

// Per-channel scale and offset in mantissa units of the input, from batch or running statistics.
struct Affine {
  double scale, offset;
};

Affine affine(const OpContext& c, const Saved& saved, int64_t i) {
  const double gamma = real(c.parameters[0].mantissa, i), beta = real(c.parameters[1].mantissa, i);
  if (is_training(c.exponent_mode)) {
    const double scale = gamma * saved.inverse_sigma[i];
    return {scale, beta - scale * saved.mean[i]};
  }
  const double mean = c.parameters[2].mantissa.as<double>()[i];
  const double variance = c.parameters[3].mantissa.as<double>()[i];
  const double scale = gamma / std::sqrt(variance + kBatchNormEpsilon);
  return {std::ldexp(scale, channel_exponent(c.inputs[0], i)), beta - scale * mean};
}

// Integer multipliers (31 bits, 29 for inputs of 16) and offsets of all channels with one exponent,
// which is returned.
int fixed_point_affine(const OpContext& c, const Saved& saved, const Workspace& work,
                       int64_t channels) {
  const int bits = std::max(8, c.inputs[0].bits);
  const double largest_input = std::ldexp(1, bits - 1);
  double peak = 0;
  for (int64_t i = 0; i < channels; ++i) {
    const Affine a = affine(c, saved, i);
    peak = std::max({peak, std::abs(a.scale), std::abs(a.offset) / largest_input});
    if (!std::isfinite(a.scale) || !std::isfinite(a.offset)) c.totals->exponent_overflow = true;
  }
  // So many bits that offsets stay within their limit.
  const int shift = std::isfinite(peak) ? fixed_point_shift(peak, std::min(31, 45 - bits)) : 0;
  for (int64_t i = 0; i < channels; ++i) {
    const Affine a = affine(c, saved, i);
    work.multiplier[i] = static_cast<int32_t>(to_fixed_point(a.scale, shift, mantissa_limit(32)));
    work.offset[i] = to_fixed_point(a.offset, shift, kOffsetLimit);
  }
  return -shift;
}

// max |q * multiplier + offset| over the channels' extremes (after ReLU): exact, without a pass.
uint64_t affine_maximum(const OpContext& c, const kernels::ChannelSums& sums, const Workspace& work,
                        int64_t channels) {
  uint64_t maximum = 0;
  for (int64_t i = 0; i < channels; ++i) {
    for (const int64_t q : {sums.minimum[i], sums.maximum[i]}) {
      const int64_t wide = q * work.multiplier[i] + work.offset[i];
      maximum = std::max(maximum, magnitude(c.relu ? std::max<int64_t>(0, wide) : wide));
    }
  }
  return maximum;
}

// out = narrow(relu?(in * multiplier[c] + offset[c]) >> shift), and counts wide values if
// calibrating.
void scale_and_offset(const OpContext& c, const int32_t* multiplier, const int64_t* offset,
                      int shift, int wide_exponent) {
  const int64_t channels = c.output.shape.last();
  const Mantissas in(c.inputs[0]);
  const auto wide_of = [&](int64_t i) {
    const int64_t wide = in[i] * multiplier[i % channels] + offset[i % channels];
    return c.relu ? std::max<int64_t>(0, wide) : wide;
  };
  if (c.exponent_mode == ExponentMode::kCalibrate) {
    for (int64_t i = 0; i < c.output.count(); ++i) {
      count_wide(c.histogram, wide_of(i), wide_exponent, c.output.bits);
    }
  }
  if (!is_bytes(c.inputs[0]) || !is_bytes(c.output)) {
    *c.output.saturated +=
        narrow_elements(*c.kernel.pool, c.output, true, shift, wide_of).saturated;
    return;
  }
  const kernels::ScaleOffset args{.in = c.inputs[0].as<int8_t>(),
                                  .channels = channels,
                                  .multiplier = multiplier,
                                  .offset = offset,
                                  .relu = c.relu,
                                  .shift = shift,
                                  .out = c.output.as<int8_t>(),
                                  .bits = c.output.bits};
  *c.output.saturated +=
      kernels::parallel_statistics(*c.kernel.pool, c.output.count() / channels,
                                   std::max<int64_t>(1, kGrain / channels),
                                   [&](int64_t begin, int64_t end) {
                                     return c.kernels->batch_norm->scale_offset(args, begin, end);
                                   })
          .saturated;
}

void forward(const OpContext& c) {
  const int64_t channels = c.output.shape.last(), rows = c.output.count() / channels;
  const Saved saved(c.saved, channels);
  const Workspace work(c.workspace, channels);
  const kernels::ChannelSums sums = channel_sums(c, work, channels, rows);
  if (is_training(c.exponent_mode)) {
    batch_statistics(c, sums, saved, channels, rows);
  }
  const int wide_exponent = fixed_point_affine(c, saved, work, channels);
  const int shift =
      choose_shift(c, c.output, affine_maximum(c, sums, work, channels), wide_exponent);
  scale_and_offset(c, work.multiplier, work.offset, shift, wide_exponent);
}

bool is_wide_gradient(const OpContext& c) {
  return !is_bytes(c.inputs[0]) || (c.relu && !is_bytes(c.output));
}

// The gradient that a ReLU behind the batch norm lets through, of any width.
class MaskedGradient {
 public:
  explicit MaskedGradient(const OpContext& c)
      : grads_(c.grad_output), output_(c.output), masked_(c.relu) {}
  int64_t operator[](int64_t i) const { return !masked_ || output_[i] > 0 ? grads_[i] : 0; }

 private:
  Mantissas grads_, output_;
  bool masked_;
};

// What the kernel for 8 bits does, for any width: adds rows [begin, end) to the sums.
void add_wide_gradients(const OpContext& c, int64_t channels, int64_t begin, int64_t end,
                        int64_t* sum_grad, int64_t* sum_grad_in) {
  const MaskedGradient grads(c);
  const Mantissas in(c.inputs[0]);
  for (int64_t row = begin; row < end; ++row) {
    for (int64_t i = 0; i < channels; ++i) {
      const int64_t grad = grads[row * channels + i];
      sum_grad[i] += grad;
      sum_grad_in[i] += grad * in[row * channels + i];
    }
  }
}

kernels::BatchNormGradient gradient_arguments(const OpContext& c, int64_t channels) {
  return {.grad_out = gradient_of(c.grad_output),
          .in = c.inputs[0].as<int8_t>(),
          .output = c.relu ? c.output.as<int8_t>() : nullptr,
          .channels = channels};
}

// Adds a real number in units of 2^exponent to a gradient accumulator.
void accumulate_real(const Tensor& gradient, int64_t i, double value, int exponent) {
  int64_t& total = gradient.as<int64_t>()[i];
  total = accumulate(total, to_fixed_point(value, exponent - *gradient.exponent, kWideLimit));
}

void backward_weights(const OpContext& c) {
  const int64_t channels = c.grad_output.shape.last(), rows = c.grad_output.count() / channels;
  const Saved saved(c.saved, channels);
  const Workspace work(c.workspace, channels);
  const auto args = gradient_arguments(c, channels);
  const int64_t parts = kernels::parallel_ranges(
      *c.kernel.pool, rows, std::max<int64_t>(1, kGrain / channels),
      [&](int64_t begin, int64_t end, int64_t part) {
        int64_t* sums = work.partial + part * 2 * channels;
        std::fill_n(sums, 2 * channels, 0);
        if (is_wide_gradient(c)) {
          return add_wide_gradients(c, channels, begin, end, sums, sums + channels);
        }
        c.kernels->batch_norm->gradient_sums(args, begin, end, sums, sums + channels);
      });
  const int exponent = *c.grad_output.exponent;
  const Tensor &scale = c.parameters[0].gradient, &offset = c.parameters[1].gradient;
  for (int64_t i = 0; i < channels; ++i) {
    saved.sum_grad[i] = saved.sum_grad_in[i] = 0;
    for (int64_t part = 0; part < parts; ++part) {
      saved.sum_grad[i] += work.partial[part * 2 * channels + i];
      saved.sum_grad_in[i] += work.partial[(part * 2 + 1) * channels + i];
    }
    const double centred = static_cast<double>(saved.sum_grad_in[i]) -
                           saved.mean[i] * static_cast<double>(saved.sum_grad[i]);
    accumulate_real(scale, i, centred * saved.inverse_sigma[i], exponent);
    int64_t& total = offset.as<int64_t>()[i];
    total = accumulate(total, rescale_rne(saved.sum_grad[i], *offset.exponent - exponent));
  }
}

// dx = (gamma / sigma) (dy - S1/n - x^ * dgamma/n) = A dy + D q + C per channel.
struct GradientAffine {
  double grad, in, offset;
};

GradientAffine gradient_affine(const OpContext& c, const Saved& saved, int64_t i, double rows) {
  const double centred = static_cast<double>(saved.sum_grad_in[i]) -
                         saved.mean[i] * static_cast<double>(saved.sum_grad[i]);
  const double inverse_sigma = saved.inverse_sigma[i];
  const double grad = std::ldexp(real(c.parameters[0].mantissa, i) * inverse_sigma,
                                 -channel_exponent(c.inputs[0], i));
  const double in = -grad * inverse_sigma * (centred * inverse_sigma) / rows;
  const double offset = -grad * static_cast<double>(saved.sum_grad[i]) / rows - in * saved.mean[i];
  return {grad, in, offset};
}

void backward_input(const OpContext& c) {
  const Tensor& grad_input = c.grad_inputs[0];
  const int64_t channels = c.grad_output.shape.last(), rows = c.grad_output.count() / channels;
  const Saved saved(c.saved, channels);
  const Workspace work(c.workspace, channels);
  double peak = 0;
  for (int64_t i = 0; i < channels; ++i) {
    const GradientAffine a = gradient_affine(c, saved, i, static_cast<double>(rows));
    peak = std::max({peak, std::abs(a.grad), std::abs(a.in)});
    if (!std::isfinite(a.grad + a.in + a.offset)) c.totals->exponent_overflow = true;
  }
  const int shift = std::isfinite(peak) ? fixed_point_shift(peak, 31) : 0;
  for (int64_t i = 0; i < channels; ++i) {
    const GradientAffine a = gradient_affine(c, saved, i, static_cast<double>(rows));
    work.multiplier[i] = static_cast<int32_t>(to_fixed_point(a.grad, shift, mantissa_limit(32)));
    work.in_multiplier[i] = static_cast<int32_t>(to_fixed_point(a.in, shift, mantissa_limit(32)));
    work.offset[i] = to_fixed_point(a.offset, shift, kGradientOffsetLimit);
  }
  auto args = gradient_arguments(c, channels);
  args.grad_multiplier = work.multiplier;
  args.in_multiplier = work.in_multiplier;
  args.offset = work.offset;
  args.grad_in = gradient_of(grad_input);
  const MaskedGradient grads(c);
  const Mantissas in(c.inputs[0]);
  narrow_gradient(c, grad_input, *c.grad_output.exponent - shift, [&](int narrow_shift) {
    if (is_wide_gradient(c)) {
      return narrow_elements(*c.kernel.pool, grad_input, true, narrow_shift, [&](int64_t i) {
        const int64_t channel = i % channels;
        return grads[i] * work.multiplier[channel] + in[i] * work.in_multiplier[channel] +
               work.offset[channel];
      });
    }
    args.shift = narrow_shift;
    return kernels::parallel_statistics(*c.kernel.pool, rows,
                                        std::max<int64_t>(1, kGrain / channels),
                                        [&](int64_t begin, int64_t end) {
                                          return c.kernels->batch_norm->gradient(args, begin, end);
                                        });
  });
}

// scale_offset: integers M, B and the exponent k of the frozen network; wide = q M + B at 2^k.
std::vector<ParameterSpec> frozen_parameters(const Attributes&, std::span<const Shape> inputs) {
  const Shape shape{inputs[0].last()};
  return {{"multiplier", shape, ParameterRole::kMultiplier, Initialiser::kZero, 1},
          {"wide_offset", shape, ParameterRole::kWideOffset, Initialiser::kZero, 1}};
}

void frozen_forward(const OpContext& c) {
  const Tensor& multiplier = c.parameters[0].mantissa;
  scale_and_offset(c, multiplier.as<int32_t>(), c.parameters[1].mantissa.as<int64_t>(),
                   *c.output.exponent - *multiplier.exponent, *multiplier.exponent);
}

}  // namespace

void update_running_statistics(const OpContext& c) {
  double* mean = c.parameters[2].mantissa.as<double>();
  double* variance = c.parameters[3].mantissa.as<double>();
  const int64_t channels = c.parameters[2].mantissa.count();
  const double momentum = c.scalars->statistics_momentum;
  for (int micro_batch = 0; micro_batch < c.micro_batches; ++micro_batch) {
    const auto* record = reinterpret_cast<const double*>(c.statistics) + micro_batch * 2 * channels;
    for (int64_t i = 0; i < channels; ++i) {
      mean[i] += momentum * (record[i] - mean[i]);
      variance[i] += momentum * (record[channels + i] - variance[i]);
    }
  }
}

int freeze_batch_norm(const OpContext& context, int32_t* multiplier, int64_t* offset,
                      std::byte* workspace) {
  const int64_t channels = context.parameters[0].mantissa.count();
  const Workspace work(workspace, channels);
  const int exponent = fixed_point_affine(context, Saved(nullptr, channels), work, channels);
  std::copy_n(work.multiplier, channels, multiplier);
  std::copy_n(work.offset, channels, offset);
  return exponent;
}

int64_t freeze_batch_norm_workspace_bytes(int64_t channels) { return Workspace::bytes(channels); }

const Op kBatchNorm = {.name = "batch_norm",
                       .traits = {.applies_relu = true,
                                  .weights_read_input = true,
                                  .input_reads_input = true,
                                  .reads_output_if_relu = true,
                                  .guards_input = true},
                       .infer_shape = infer,
                       .parameters = parameters,
                       .memory = memory,
                       .forward = forward,
                       .backward_input = backward_input,
                       .backward_weights = backward_weights,
                       .update_statistics = update_running_statistics,
                       .kernel = kernel_name<&kernels::KernelTable::batch_norm>,
                       .frozen = &kScaleOffset,
                       .fp32 = &fp32::kBatchNorm};

const Op kScaleOffset = {.name = "scale_offset",
                         .traits = {.applies_relu = true, .guards_input = true},
                         .infer_shape = infer,
                         .parameters = frozen_parameters,
                         .forward = frozen_forward,
                         .kernel = kernel_name<&kernels::KernelTable::batch_norm>,
                         .fp32 = &fp32::kScaleOffset};

}  // namespace mantissa::ops
