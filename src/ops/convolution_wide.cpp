#include "ops/convolution_wide.h"

#include <algorithm>

#include "base/checked.h"
#include "kernels/convolution_wide.h"
#include "ops/convolution_shape.h"
#include "ops/wide_values.h"

namespace mantissa::ops {
namespace {

using kernels::ConvolutionShape;

// Images whose sums are held at once; they are computed again where a second pass needs them.
int64_t images_per_chunk(const ConvolutionShape& s) {
  constexpr int64_t kChunkElements = 256 * 1024;
  return std::clamp<int64_t>(kChunkElements * s.batch / s.output_count(), 1, s.batch);
}

// By how many bits the sums are finer than those of 8-bit operands of the same magnitude.
int extra_bits(int input_bits, int weight_bits) {
  return std::max(0, input_bits - 8) + std::max(0, weight_bits - 8);
}

// Parts of the workspace: per-channel arrays, then the sums of a chunk.
struct Workspace {
  int64_t* bias;     // at the sum's exponent
  int64_t* shifts;   // of guarded channels
  uint64_t* maxima;  // of guarded channels
  int64_t* sums;
  Workspace(std::byte* base, int64_t channels)
      : bias(reinterpret_cast<int64_t*>(base)),
        shifts(reinterpret_cast<int64_t*>(base + channel_bytes(channels))),
        maxima(reinterpret_cast<uint64_t*>(base + 2 * channel_bytes(channels))),
        sums(reinterpret_cast<int64_t*>(base + 3 * channel_bytes(channels))) {}
};

// The bias at the sum's exponent, rounded to nearest even; null without a bias.
const int64_t* align_bias(const OpContext& c, int sum_exponent, int64_t limit, int64_t* aligned) {
  if (c.parameters.size() < 2) return nullptr;
  const Tensor& bias = c.parameters[1].mantissa;
  const Mantissas mantissas(bias);
  for (int64_t o = 0; o < bias.count(); ++o) {
    const int64_t wide = rescale_rne(mantissas[o], sum_exponent - *bias.exponent);
    aligned[o] = saturate(wide, limit);
    *c.output.saturated += aligned[o] != wide;
  }
  return aligned;
}

// Calls visit(part) for each chunk of images once its sums are there: `part` is the output's piece.
template <typename Visit>
void for_each_chunk(const OpContext& c, const kernels::WideForward& whole, const Visit& visit) {
  const ConvolutionShape& s = whole.shape;
  const int64_t images = images_per_chunk(s);
  for (int64_t first = 0; first < s.batch; first += images) {
    kernels::WideForward chunk = whole;
    chunk.shape.batch = std::min(images, s.batch - first);
    const int64_t in = first * (s.input_count() / s.batch);
    chunk.input.data = gradient_from(c.inputs[0], in).data;
    kernels::wide_forward(*c.kernels, chunk, c.kernel);
    Tensor part = c.output;
    part.shape.dims[0] = chunk.shape.batch;
    part.data = c.output.as<std::byte>() +
                first * (c.output.count() / c.output.shape[0]) * element_bytes(c.output.type);
    visit(part);
  }
}

void leave_wide(const OpContext& c, const kernels::WideForward& args, int sum_exponent, int shift) {
  for_each_chunk(c, args, [&](const Tensor& part) {
    auto* out = part.as<int32_t>();
    for (int64_t i = 0; i < part.count(); ++i) {
      const int64_t rounded = shift_right_rne(args.sums[i], shift);
      out[i] = static_cast<int32_t>(saturate(rounded, INT32_MAX));
      *c.output.saturated += out[i] != rounded;
    }
  });
  set_exponent(c, c.output, sum_exponent + shift);
}

void calibrate(const OpContext& c, const kernels::WideForward& args, int sum_exponent) {
  const int64_t channels = is_guarded(c.output) ? c.output.shape.last() : 1;
  for_each_chunk(c, args, [&](const Tensor& part) {
    for (int64_t i = 0; i < part.count(); ++i) {
      count_wide(c.histogram + i % channels * kHistogramBins, args.sums[i], sum_exponent,
                 part.bits);
    }
  });
}

// Guarded outputs: the shift of each channel, and its exponent as an offset from the tensor's.
void choose_channel_shifts(const OpContext& c, const kernels::WideForward& args,
                           const Workspace& work, int sum_exponent) {
  const int64_t channels = c.output.shape.last();
  if (c.exponent_mode == ExponentMode::kFixed) {
    for (int64_t o = 0; o < channels; ++o) {
      work.shifts[o] = *c.output.exponent + c.output.channel_exponent[o] - sum_exponent;
    }
    return;
  }
  std::fill_n(work.maxima, channels, uint64_t{0});
  for_each_chunk(c, args, [&](const Tensor& part) {
    for (int64_t i = 0; i < part.count(); ++i) {
      uint64_t& maximum = work.maxima[i % channels];
      maximum = std::max(maximum, magnitude(args.sums[i]));
    }
  });
  int64_t largest = 0;
  for (int64_t o = 0; o < channels; ++o) {
    work.shifts[o] = exact_shift(work.maxima[o], c.output.bits);
    largest = std::max(largest, work.shifts[o]);
  }
  set_exponent(c, c.output, sum_exponent + static_cast<int>(largest));
  for (int64_t o = 0; o < channels; ++o) {
    work.shifts[o] = std::max(work.shifts[o], largest - kMostChannelShift);
    c.output.channel_exponent[o] = static_cast<int8_t>(work.shifts[o] - largest);
  }
}

void narrow_channels(const OpContext& c, const kernels::WideForward& args, const Workspace& work,
                     int sum_exponent) {
  const int64_t channels = c.output.shape.last();
  choose_channel_shifts(c, args, work, sum_exponent);
  for_each_chunk(c, args, [&](const Tensor& part) {
    *c.output.saturated +=
        narrow_elements(*c.kernel.pool, part, true, 0, [&](int64_t i) {
          return rescale_rne(args.sums[i], static_cast<int>(work.shifts[i % channels]));
        }).saturated;
  });
}

}  // namespace

bool is_wide_forward(const OpContext& c) {
  return c.inputs[0].type == DataType::kInt16 ||
         c.parameters[0].mantissa.type == DataType::kInt16 || c.output.type == DataType::kInt16;
}

bool is_wide_grad_input(const OpContext& c) {
  return c.parameters[0].mantissa.type == DataType::kInt16;
}

bool is_wide_grad_weights(const OpContext& c) { return c.inputs[0].type == DataType::kInt16; }

void plan_wide_convolution(const OpShapes& s, const PlanningContext& planning, OpMemory& memory) {
  const ConvolutionShape shape = convolution_shape(s);
  const int input_bits = s.input_bits.empty() ? 8 : s.input_bits[0];
  const int weight_bits = s.format.weight_bits;
  const kernels::KernelTable& table = *planning.kernels;
  if (input_bits > 8 || weight_bits > 8 || s.output_type == DataType::kInt16) {
    memory.forward = {};
    ConvolutionShape chunk = shape;
    const int64_t images = images_per_chunk(shape);
    for (const int64_t batch : {images, shape.batch % images}) {
      if (batch == 0) continue;
      chunk.batch = batch;
      memory.forward.scratch_bytes =
          std::max(memory.forward.scratch_bytes,
                   static_cast<int64_t>(kernels::wide_forward_scratch_bytes(
                       table, chunk, input_bits, weight_bits, planning.threads)));
    }
    chunk.batch = images;
    memory.forward.workspace_bytes =
        3 * channel_bytes(shape.out_channels) + chunk.output_count() * int64_t{sizeof(int64_t)};
  }
  if (weight_bits > 8) {
    memory.backward_input.scratch_bytes =
        static_cast<int64_t>(kernels::wide_grad_input_scratch_bytes(shape, planning.threads));
  }
  if (input_bits > 8) {
    memory.backward_weights.scratch_bytes =
        static_cast<int64_t>(kernels::wide_grad_weights_scratch_bytes(
            table, shape, input_bits, s.format.wide_gradient_bits(), planning.threads));
  }
}

void wide_forward(const OpContext& c) {
  const Tensor &input = c.inputs[0], &weights = c.parameters[0].mantissa;
  const int sum_exponent = *input.exponent + *weights.exponent;
  const int extra = extra_bits(input.bits, weights.bits);
  const Workspace work(c.workspace, c.output.shape.last());
  const kernels::WideForward args{
      .shape = convolution_shape(c, input.shape, c.output.shape),
      .input = value_of(input),
      .weights = value_of(weights),
      .bias = align_bias(c, sum_exponent, int64_t{1} << (30 + extra), work.bias),
      .sums = work.sums};
  if (c.output.type == DataType::kInt32) return leave_wide(c, args, sum_exponent, extra);
  if (c.exponent_mode == ExponentMode::kCalibrate) calibrate(c, args, sum_exponent);
  if (is_guarded(c.output)) return narrow_channels(c, args, work, sum_exponent);
  narrow_by_passes(
      c, sum_exponent,
      [&](bool writes, int shift) {
        kernels::WideStatistics found;
        for_each_chunk(c, args, [&](const Tensor& part) {
          found += narrow_elements(*c.kernel.pool, part, writes, shift,
                                   [&](int64_t i) { return args.sums[i]; });
        });
        return found;
      },
      64);
}

void wide_backward_input(const OpContext& c) {
  const Tensor &grad_input = c.grad_inputs[0], &weights = c.parameters[0].mantissa;
  const ConvolutionShape shape = convolution_shape(c, grad_input.shape, c.grad_output.shape);
  narrow_gradient(c, grad_input, *c.grad_output.exponent + *weights.exponent, [&](int shift) {
    return kernels::wide_grad_input(
        {shape, gradient_of(c.grad_output), value_of(weights), shift, gradient_of(grad_input)},
        c.kernel);
  });
}

void wide_backward_weights(const OpContext& c) {
  const Tensor& input = c.inputs[0];
  const Tensor& gradient = c.parameters[0].gradient;
  kernels::wide_grad_weights(
      *c.kernels,
      {convolution_shape(c, input.shape, c.grad_output.shape), value_of(input),
       gradient_of(c.grad_output), *gradient.exponent - *input.exponent - *c.grad_output.exponent,
       gradient.as<int64_t>()},
      c.kernel);
}

}  // namespace mantissa::ops
