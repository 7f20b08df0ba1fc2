// Which source pixels a result along one axis sums: forward (source: the input) and, mirrored, for
// the gradient of the input (source: the gradient of the output).
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/checked.h"
#include "kernels/convolution/convolution.h"

namespace mantissa::kernels::depthwise {

// Results at first, first + Axis::step(), ... up to Axis::results; the k-th of them sums `taps`
// consecutive source pixels from source + k * Axis::source_step(), tap i with the kernel's tap
// kernel_first + i * kernel_step.
struct AxisPhase {
  int64_t first, source, taps, kernel_first, kernel_step;
};

struct Axis {
  int64_t results, sources, kernel, stride, padding;
  bool mirrored = false;

  // Mirrored, each remainder of the stride has taps of its own.
  int64_t phases() const { return mirrored ? stride : 1; }
  int64_t step() const { return mirrored ? stride : 1; }
  int64_t source_step() const { return mirrored ? 1 : stride; }
  int64_t most_taps() const { return mirrored ? divide_up(kernel, stride) : kernel; }

  AxisPhase phase(int64_t index) const {
    if (!mirrored) return {0, -padding, kernel, 0, 1};
    const int64_t taps = divide_up(std::max<int64_t>(kernel - index, 0), stride);
    const int64_t first = ((index - padding) % stride + stride) % stride;
    const int64_t newest = (first + padding) / stride;
    return {first, newest - (taps - 1), taps, index + stride * (taps - 1), -stride};
  }
  int64_t phase_of(int64_t result) const { return mirrored ? (result + padding) % stride : 0; }
  int64_t phase_results(const AxisPhase& phase) const {
    return divide_up(std::max<int64_t>(results - phase.first, 0), step());
  }

  // The source pixels that any result reads: [first_source(), first_source() + span()), also beyond
  // the image.
  int64_t first_source() const {
    return mirrored ? padding / stride - (most_taps() - 1) : -padding;
  }
  int64_t span() const {
    const int64_t last =
        mirrored ? (results - 1 + padding) / stride : (results - 1) * stride - padding + kernel - 1;
    return last - first_source() + 1;
  }
};

struct Axes {
  Axis vertical, horizontal;

  // For the forward pass; mirrored, for the gradient of the input.
  Axes(const ConvolutionShape& s, bool mirrored)
      : vertical{s.out_height,    s.in_height,      s.kernel_height,
                 s.stride_height, s.padding_height, mirrored},
        horizontal{s.out_width,    s.in_width,      s.kernel_width,
                   s.stride_width, s.padding_width, mirrored} {
    if (!mirrored) return;
    std::swap(vertical.results, vertical.sources);
    std::swap(horizontal.results, horizontal.sources);
  }
};

}  // namespace mantissa::kernels::depthwise
