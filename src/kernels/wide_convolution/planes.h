// Operands of more than 8 bits as planes of bytes.
#pragma once

#include "kernels/common/exact_sums.h"
#include "kernels/wide_convolution/wide_convolution.h"

namespace mantissa::kernels::planes {

// More than 8 bits are x = 256 * high + low + 128, both int8. The 128 that the lower byte lacks are
// put back with sums of the other operand and of this one.
constexpr int planes_of(int bits) { return bits <= 8 ? 1 : 2; }
constexpr int kOffset = 128;

// Bytes of scratch that one plane takes.
inline size_t plane_bytes(int bits, int64_t count) {
  return planes_of(bits) == 1 ? 0 : aligned_bytes(count);
}

inline size_t planes_bytes(int bits, int64_t count) {
  return static_cast<size_t>(planes_of(bits)) * plane_bytes(bits, count);
}

// The shape of the products of planes. A plane's zero is not 0, so the border of zeros around the
// images is a part of it.
inline ConvolutionShape plane_shape(ConvolutionShape s, int input_bits) {
  if (planes_of(input_bits) == 1) return s;
  s.in_height += 2 * s.padding_height;
  s.in_width += 2 * s.padding_width;
  s.padding_height = s.padding_width = 0;
  return s;
}

// One plane of the input as plane_shape() has it, written to `scratch` unless there is only one.
const int8_t* input_plane(const KernelTable& table, ThreadPool& pool, const ConvolutionShape& s,
                          ConstMantissaSpan input, int plane, int8_t* scratch);

// sums += part * 2^shift.
void add_shifted(const KernelTable& table, ThreadPool& pool, const GradientSums& part, int shift,
                 int64_t count, int64_t* sums);

// The same as wide_forward and wide_grad_input, by planes.
std::vector<ConvolutionChoice> forward_planes(const KernelTable& table,
                                              const ConvolutionShape& shape, int input_bits);
void forward(const KernelTable& table, const WideForward& args, ConvolutionParts planes,
             const KernelContext& context) noexcept;
size_t forward_scratch_bytes(const ConvolutionShape& shape, int input_bits, int weight_bits,
                             int threads, ConvolutionParts planes) noexcept;
std::vector<ConvolutionChoice> grad_input_planes(const KernelTable& table,
                                                 const ConvolutionShape& shape, int gradient_bits);
WideStatistics grad_input(const KernelTable& table, const WideGradInput& args,
                          ConvolutionParts planes, const KernelContext& context) noexcept;
size_t grad_input_scratch_bytes(const ConvolutionShape& shape, int gradient_bits, int weight_bits,
                                int threads, ConvolutionParts planes) noexcept;

}  // namespace mantissa::kernels::planes
