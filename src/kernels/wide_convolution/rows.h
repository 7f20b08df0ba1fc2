// Ways to convolve mantissas of more than 8 bits: rows of a table like the one of
// kernels/convolution/convolution.h.
#pragma once

#include "kernels/common/parallel_ranges.h"
#include "kernels/wide_convolution/wide_convolution.h"

namespace mantissa::kernels {

// Functions as in wide_convolution.h. `source` is the input, or in grad_input the gradient.
struct WideConvolutionRow {
  const char* name;
  // Why the row does not take operands of such a shape and such widths, or null.
  const char* (*declines)(const ConvolutionShape&, int source_bits, int weight_bits) noexcept;
  // Choices for the products of planes.
  std::vector<ConvolutionChoice> (*forward_planes)(const KernelTable&, const ConvolutionShape&,
                                                   int source_bits);
  std::vector<ConvolutionChoice> (*grad_input_planes)(const KernelTable&, const ConvolutionShape&,
                                                      int source_bits);
  void (*forward)(const KernelTable&, const WideForward&, ConvolutionParts planes,
                  const KernelContext&) noexcept;
  size_t (*forward_scratch_bytes)(const ConvolutionShape&, int source_bits, int weight_bits,
                                  int threads, ConvolutionParts planes) noexcept;
  WideStatistics (*grad_input)(const KernelTable&, const WideGradInput&, ConvolutionParts planes,
                               const KernelContext&) noexcept;
  size_t (*grad_input_scratch_bytes)(const ConvolutionShape&, int source_bits, int weight_bits,
                                     int threads, ConvolutionParts planes) noexcept;
};

// By planes of bytes: takes everything.
extern const WideConvolutionRow kWideByPlanes;
// Each product as it is, in int64: takes depthwise convolutions. A channel has so few products that
// splitting operands into planes takes longer than they.
extern const WideConvolutionRow kWideByProducts;

// grad_input as the forward pass of a convolution with stride 1 over the gradient, its pixels
// `stride` apart and a border of zeros around them: turned by 180 degrees, the weights meet each
// pixel of the input with the output pixels that read it. For `images` images.
inline ConvolutionShape backward_shape(const ConvolutionShape& s, int64_t images) {
  return {.batch = images,
          .in_height = s.in_height + (s.kernel_height - 1) * s.dilation,
          .in_width = s.in_width + (s.kernel_width - 1) * s.dilation,
          .in_channels = s.out_channels,
          .out_height = s.in_height,
          .out_width = s.in_width,
          .out_channels = s.in_channels,
          .kernel_height = s.kernel_height,
          .kernel_width = s.kernel_width,
          .groups = s.groups,
          .dilation = s.dilation};
}

// Images whose gradients are worked on at once.
inline int64_t input_images_per_chunk(const ConvolutionShape& s) {
  return wide_images_per_chunk(backward_shape(s, s.batch));
}

// The gradient of some images from exact sums, rounded and clipped.
inline WideStatistics narrow_images(const KernelTable& table, ThreadPool& pool,
                                    const WideGradInput& args, const int64_t* sums, int64_t first,
                                    int64_t images) {
  const int64_t image = args.shape.input_count() / args.shape.batch;
  const NarrowWide narrow{sums, args.shift, args.grad_input.from(first * image)};
  const PassCounts counts{nullptr, args.counts};
  return parallel_statistics(
      pool, images * image, kElementsPerThread, [&](int64_t begin, int64_t end, int64_t part) {
        return narrow_counted(*table.wide, narrow, begin, end, counts.wide_of(part));
      });
}

}  // namespace mantissa::kernels
