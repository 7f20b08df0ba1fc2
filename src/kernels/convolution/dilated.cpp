// Convolution with dilation: output pixels whose taps fall on the same pixels modulo the dilation
// (a phase) are an ordinary convolution of these pixels alone, with the kernel's own taps. Each
// phase is gathered, convolved and scattered, one after another, so no multiply-add is wasted.

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/checked.h"
#include "kernels/common/exact_sums.h"
#include "kernels/common/parallel_ranges.h"
#include "kernels/convolution/choice.h"
#include "numerics/rounding.h"

namespace mantissa::kernels {
namespace {

// Every `step`-th of `all` indices from `first` on: `count` of them.
struct Every {
  int64_t first, step, all;
  int64_t count() const { return first < all ? (all - first + step - 1) / step : 0; }
};

// Phases along an axis.
int64_t phases_of(int64_t stride, int64_t dilation) {
  return dilation / std::gcd(stride, dilation);
}

// A convolution along one axis.
struct Sizes {
  int64_t in, out, kernel, stride, padding;
};

// One phase along one axis. Output index r + outputs.step * i meets, with tap k, input index
// inputs.first + inputs.step * (stride * i + k - before).
struct Axis {
  Every inputs, outputs;
  int64_t stride;  // of the phase
  int64_t before;  // rows of padding; negative: rows left out
  int64_t after;   // rows of padding that the last tap needs

  Axis(const Sizes& s, int64_t dilation, int64_t r) {
    outputs = {r, phases_of(s.stride, dilation), s.out};
    stride = s.stride / std::gcd(s.stride, dilation);
    const int64_t start = r * s.stride - s.padding;
    const int64_t rest = (start % dilation + dilation) % dilation;
    inputs = {rest, dilation, s.in};
    before = (rest - start) / dilation;
    after = stride * (outputs.count() - 1) + s.kernel - 1 - before - (rows() - 1);
  }
  // A phase without pixels is given one row of zeros.
  int64_t rows() const { return std::max<int64_t>(1, inputs.count()); }
};

// A phase as an ordinary convolution: its padding is the larger that the two sides of an axis need,
// and zero taps in front of the kernel take back the excess.
struct PhaseOf {
  Axis y, x;
  ConvolutionShape shape;
  int64_t zero_rows, zero_columns;

  PhaseOf(const ConvolutionShape& s, int64_t ry, int64_t rx)
      : y({s.in_height, s.out_height, s.kernel_height, s.stride_height, s.padding_height},
          s.dilation, ry),
        x({s.in_width, s.out_width, s.kernel_width, s.stride_width, s.padding_width}, s.dilation,
          rx),
        shape(s) {
    shape.dilation = 1;
    shape.stride_height = y.stride, shape.stride_width = x.stride;
    shape.padding_height = std::max({int64_t{0}, y.before, y.after});
    shape.padding_width = std::max({int64_t{0}, x.before, x.after});
    zero_rows = shape.padding_height - y.before;
    zero_columns = shape.padding_width - x.before;
    shape.kernel_height = s.kernel_height + zero_rows;
    shape.kernel_width = s.kernel_width + zero_columns;
    shape.in_height = y.rows(), shape.in_width = x.rows();
    shape.out_height = y.outputs.count(), shape.out_width = x.outputs.count();
  }
  bool has_inputs() const { return y.inputs.count() > 0 && x.inputs.count() > 0; }
  bool pads_kernel() const { return zero_rows > 0 || zero_columns > 0; }
};

// Calls visit(phase, index) for each phase with outputs.
template <typename Visit>
void for_each_phase(const ConvolutionShape& s, const Visit& visit) {
  const int64_t rows = std::min(phases_of(s.stride_height, s.dilation), s.out_height);
  const int64_t columns = std::min(phases_of(s.stride_width, s.dilation), s.out_width);
  size_t index = 0;
  for (int64_t ry = 0; ry < rows; ++ry) {
    for (int64_t rx = 0; rx < columns; ++rx) {
      visit(PhaseOf(s, ry, rx), index++);
    }
  }
}

// Pixels of `bytes` bytes of a phase, apart and among all.
struct Pixels {
  int64_t batch, bytes;
  Every y, x;

  int64_t apart_bytes() const { return batch * y.count() * x.count() * bytes; }

  const std::byte* gather(ThreadPool& pool, const void* all, std::byte* apart) const {
    const auto* from = static_cast<const std::byte*>(all);
    for_each_pixel(pool, [&](int64_t at, int64_t among) {
      std::memcpy(apart + at, from + among, static_cast<size_t>(bytes));
    });
    return apart;
  }
  void scatter(ThreadPool& pool, const std::byte* apart, void* all) const {
    auto* to = static_cast<std::byte*>(all);
    for_each_pixel(pool, [&](int64_t at, int64_t among) {
      std::memcpy(to + among, apart + at, static_cast<size_t>(bytes));
    });
  }

 private:
  template <typename Copy>
  void for_each_pixel(ThreadPool& pool, const Copy& copy) const {
    const int64_t rows = y.count(), columns = x.count();
    if (columns == 0) return;
    parallel_ranges(pool, batch * rows, std::max<int64_t>(1, kBytesPerThread / (columns * bytes)),
                    [&](int64_t begin, int64_t end, int64_t) {
                      for (int64_t row = begin; row < end; ++row) {
                        const int64_t n = row / rows, i = row % rows;
                        const int64_t line = (n * y.all + y.first + y.step * i) * x.all;
                        for (int64_t j = 0; j < columns; ++j) {
                          copy((row * columns + j) * bytes, (line + x.first + x.step * j) * bytes);
                        }
                      }
                    });
  }
};

Pixels inputs_of(const PhaseOf& phase, int64_t bytes) {
  return {phase.shape.batch, phase.shape.in_channels * bytes, phase.y.inputs, phase.x.inputs};
}
Pixels outputs_of(const PhaseOf& phase, int64_t bytes) {
  return {phase.shape.batch, phase.shape.out_channels * bytes, phase.y.outputs, phase.x.outputs};
}

// Calls visit(apart, among) for the first element of each row of taps (a row of the kernel), of the
// phase's kernel and of the own.
template <typename Visit>
void for_each_tap_row(const PhaseOf& phase, const ConvolutionShape& s, const Visit& visit) {
  const int64_t channels = s.group_in_channels();
  for (int64_t o = 0; o < s.out_channels; ++o) {
    for (int64_t ky = 0; ky < s.kernel_height; ++ky) {
      const int64_t row = o * phase.shape.kernel_height + ky + phase.zero_rows;
      visit((row * phase.shape.kernel_width + phase.zero_columns) * channels,
            (o * s.kernel_height + ky) * s.kernel_width * channels);
    }
  }
}

// The phase's weights: the own, or with zero taps in front.
const int8_t* weights_of(const PhaseOf& phase, const ConvolutionShape& s, const int8_t* weights,
                         std::byte* scratch) {
  if (!phase.pads_kernel()) return weights;
  auto* padded = reinterpret_cast<int8_t*>(scratch);
  std::fill_n(padded, phase.shape.weights_count(), int8_t{0});
  const int64_t length = s.kernel_width * s.group_in_channels();
  for_each_tap_row(phase, s, [&](int64_t apart, int64_t among) {
    std::copy_n(weights + among, length, padded + apart);
  });
  return padded;
}

// Scratch for a phase's input, output and weights, each as large as any phase's, then the scratch
// of the rows that take the phases.
struct ScratchBytes {
  size_t input = 0, output = 0, weights = 0, kernel = 0;

  ScratchBytes(ConvolutionParts phases, int threads, int64_t in_bytes, int64_t out_bytes,
               int64_t weight_bytes) {
    for (const ConvolutionChoice& phase : phases) {
      const ConvolutionShape& s = phase.work.shape;
      input = std::max(input, aligned_bytes(s.input_count() * in_bytes));
      output = std::max(output, aligned_bytes(s.output_count() * out_bytes));
      weights = std::max(weights, aligned_bytes(s.weights_count() * weight_bytes));
      kernel = std::max(kernel, phase.scratch_bytes(threads));
    }
  }
  size_t total() const { return input + output + weights + kernel; }
};

struct Scratch {
  std::byte *input, *output, *weights;
  KernelContext kernel;

  Scratch(const KernelContext& context, const ScratchBytes& bytes)
      : input(context.scratch.data()),
        output(input + bytes.input),
        weights(output + bytes.output),
        kernel{context.pool, context.scratch.subspan(bytes.total() - bytes.kernel)} {}
};

const char* declines(const ConvolutionWork& work) noexcept {
  if (work.bits > 16) return "takes only gradients of up to 16 bits";
  return work.shape.dilation == 1 ? "takes only dilation" : nullptr;
}

// The phases, one after another.
std::vector<ConvolutionWork> parts(const ConvolutionWork& work) {
  std::vector<ConvolutionWork> phases;
  for_each_phase(work.shape, [&](const PhaseOf& phase, size_t) {
    phases.push_back({work.pass, phase.shape, work.bits});
  });
  return phases;
}

ScratchBytes forward_bytes(ConvolutionParts phases, int threads) {
  return {phases, threads, 1, 4, 1};
}

ScratchBytes grad_input_bytes(ConvolutionParts phases, int bits, int threads) {
  // The gradient of the input may have 16 bits although the gradient of the output has fewer.
  return {phases, threads, gradient_bytes(16), gradient_bytes(bits), 1};
}

ScratchBytes grad_weights_bytes(ConvolutionParts phases, int bits, int threads) {
  return {phases, threads, 1, gradient_bytes(bits), 8};
}

WideStatistics forward(const ConvolutionForward& args, ConvolutionParts phases,
                       const KernelContext& context) noexcept {
  const ConvolutionShape& s = args.shape;
  const Scratch scratch(context, forward_bytes(phases, context.pool->size()));
  const bool writes_sums = args.sums != nullptr;
  WideStatistics total;
  for_each_phase(s, [&](const PhaseOf& phase, size_t index) {
    ConvolutionForward part = args;
    part.counts.written = nullptr;  // of the whole result, by the caller
    part.shape = phase.shape;
    part.input = reinterpret_cast<const int8_t*>(
        inputs_of(phase, 1).gather(*context.pool, args.input, scratch.input));
    if (!phase.has_inputs()) {
      std::memset(scratch.input, 0, static_cast<size_t>(phase.shape.input_count()));
    }
    part.weights = weights_of(phase, s, args.weights, scratch.weights);
    if (writes_sums) part.sums = reinterpret_cast<int32_t*>(scratch.output);
    if (!writes_sums) part.output = reinterpret_cast<int8_t*>(scratch.output);
    total += phases[index].forward(part, scratch.kernel);
    outputs_of(phase, writes_sums ? 4 : 1)
        .scatter(*context.pool, scratch.output,
                 writes_sums ? static_cast<void*>(args.sums) : static_cast<void*>(args.output));
  });
  return total;
}

size_t forward_scratch_bytes(const ConvolutionShape&, int threads,
                             ConvolutionParts phases) noexcept {
  return forward_bytes(phases, threads).total();
}

WideStatistics grad_input(const ConvolutionGradInput& args, ConvolutionParts phases,
                          const KernelContext& context) noexcept {
  const ConvolutionShape& s = args.shape;
  const int bits = args.grad_output.bits;
  const Scratch scratch(context, grad_input_bytes(phases, bits, context.pool->size()));
  const int64_t in_bytes = gradient_bytes(args.grad_input.bits);
  // Pixels that no tap meets are of no phase.
  std::memset(args.grad_input.data, 0, static_cast<size_t>(s.input_count() * in_bytes));
  WideStatistics total;
  for_each_phase(s, [&](const PhaseOf& phase, size_t index) {
    if (!phase.has_inputs()) return;
    ConvolutionGradInput part = args;
    part.counts.written = nullptr;  // of the whole result, by the caller
    part.shape = phase.shape;
    part.grad_output.data = outputs_of(phase, gradient_bytes(bits))
                                .gather(*context.pool, args.grad_output.data, scratch.output);
    part.weights = weights_of(phase, s, args.weights, scratch.weights);
    part.grad_input.data = scratch.input;
    total += phases[index].grad_input(part, scratch.kernel);
    inputs_of(phase, in_bytes).scatter(*context.pool, scratch.input, args.grad_input.data);
  });
  return total;
}

size_t grad_input_scratch_bytes(const ConvolutionShape&, int bits, int threads,
                                ConvolutionParts phases) noexcept {
  return grad_input_bytes(phases, bits, threads).total();
}

void grad_weights(const ConvolutionGradWeights& args, ConvolutionParts phases,
                  const KernelContext& context) noexcept {
  const ConvolutionShape& s = args.shape;
  const int bits = args.grad_output.bits;
  // The sums over all phases come first: they are rounded once.
  auto* sums = reinterpret_cast<int64_t*>(context.scratch.data());
  const size_t used = aligned_bytes(s.weights_count() * 8);
  const Scratch scratch({context.pool, context.scratch.subspan(used)},
                        grad_weights_bytes(phases, bits, context.pool->size()));
  std::fill_n(sums, s.weights_count(), 0);
  const int64_t length = s.kernel_width * s.group_in_channels();
  for_each_phase(s, [&](const PhaseOf& phase, size_t index) {
    if (!phase.has_inputs()) return;
    auto* part_sums = reinterpret_cast<int64_t*>(scratch.weights);
    ConvolutionGradWeights part = args;
    part.shape = phase.shape;
    part.shift = 0;
    part.totals = {part_sums};
    part.adds = false;
    part.input = reinterpret_cast<const int8_t*>(
        inputs_of(phase, 1).gather(*context.pool, args.input, scratch.input));
    part.grad_output.data = outputs_of(phase, gradient_bytes(bits))
                                .gather(*context.pool, args.grad_output.data, scratch.output);
    phases[index].grad_weights(part, scratch.kernel);
    for_each_tap_row(phase, s, [&](int64_t apart, int64_t among) {
      for (int64_t i = 0; i < length; ++i) sums[among + i] += part_sums[apart + i];
    });
  });
  add_sums(*context.pool, sums, args.shift, s.weights_count(), args.adds, args.totals);
}

size_t grad_weights_scratch_bytes(const ConvolutionShape& shape, int bits, int threads,
                                  ConvolutionParts phases) noexcept {
  return aligned_bytes(shape.weights_count() * 8) +
         grad_weights_bytes(phases, bits, threads).total();
}

}  // namespace

const ConvolutionKernels kConvolutionDilated = {
    .name = "convolution_dilated",
    .needs = kNeedsNothing,
    .declines = declines,
    .parts = parts,
    .forward = forward,
    .forward_scratch_bytes = forward_scratch_bytes,
    .grad_input = grad_input,
    .grad_input_scratch_bytes = grad_input_scratch_bytes,
    .grad_weights = grad_weights,
    .grad_weights_scratch_bytes = grad_weights_scratch_bytes,
};

}  // namespace mantissa::kernels
