// grad_input by planes: a forward pass of the gradient with turned weights.
#include <algorithm>

#include "kernels/wide_convolution/planes.h"
#include "kernels/wide_convolution/rows.h"

namespace mantissa::kernels::planes {
namespace {

// The gradient of one image [OH, OW, O] in the shape that `to` has as an input.
template <typename T>
void spread_gradient(const ConvolutionShape& s, const ConvolutionShape& to, const T* gradient,
                     T* spread) {
  std::fill_n(spread, to.input_count() / to.batch, T{0});
  const int64_t top = (s.kernel_height - 1) * s.dilation - s.padding_height;
  const int64_t left = (s.kernel_width - 1) * s.dilation - s.padding_width;
  for (int64_t y = 0; y < s.out_height; ++y) {
    const int64_t to_y = top + y * s.stride_height;
    if (to_y < 0 || to_y >= to.in_height) continue;
    for (int64_t x = 0; x < s.out_width; ++x) {
      const int64_t to_x = left + x * s.stride_width;
      if (to_x < 0 || to_x >= to.in_width) continue;
      std::copy_n(gradient + (y * s.out_width + x) * s.out_channels, s.out_channels,
                  spread + (to_y * to.in_width + to_x) * s.out_channels);
    }
  }
}

// Weights [O, KH, KW, C / G] turned by 180 degrees, their channels swapped: [C, KH, KW, O / G].
template <typename T>
void turn_weights(const ConvolutionShape& s, const T* weights, T* turned) {
  const int64_t taps = s.kernel_height * s.kernel_width;
  const int64_t in = s.group_in_channels(), out = s.group_out_channels();
  for (int64_t o = 0; o < s.out_channels; ++o) {
    for (int64_t tap = 0; tap < taps; ++tap) {
      const T* from = weights + (o * taps + tap) * in;
      T* to = turned + (o / out * in * taps + taps - 1 - tap) * out + o % out;
      for (int64_t c = 0; c < in; ++c) to[c * taps * out] = from[c];
    }
  }
}

// Parts of grad_input's scratch; the scratch of the forward pass follows.
struct BackwardScratch {
  size_t gradient, weights, sums;

  BackwardScratch(const ConvolutionShape& to, int gradient_bits, int weight_bits)
      : gradient(aligned_bytes(to.input_count() * gradient_bytes(gradient_bits))),
        weights(aligned_bytes(to.weights_count() * gradient_bytes(weight_bits))),
        sums(aligned_bytes(to.output_count() * 8)) {}
  size_t bytes() const { return gradient + weights + sums; }
};

}  // namespace

// For this many images at a time, and for the rest.
std::vector<ConvolutionChoice> grad_input_planes(const KernelTable& table,
                                                 const ConvolutionShape& shape, int gradient_bits) {
  const int64_t images = input_images_per_chunk(shape), rest = shape.batch % images;
  auto planes = forward_planes(table, backward_shape(shape, images), gradient_bits);
  if (rest > 0) {
    auto last = forward_planes(table, backward_shape(shape, rest), gradient_bits);
    planes.push_back(std::move(last.front()));
  }
  return planes;
}

WideStatistics grad_input(const KernelTable& table, const WideGradInput& args,
                          ConvolutionParts planes, const KernelContext& context) noexcept {
  const ConvolutionShape& s = args.shape;
  ThreadPool& pool = *context.pool;
  const int64_t images = input_images_per_chunk(s);
  const BackwardScratch parts(backward_shape(s, images), args.grad_output.bits, args.weights.bits);
  std::byte* spread = context.scratch.data();
  std::byte* turned = spread + parts.gradient;
  auto* sums = reinterpret_cast<int64_t*>(turned + parts.weights);
  const KernelContext inner{&pool, context.scratch.subspan(parts.bytes())};
  with_value_type(args.weights.bits, [&](auto weight) {
    using Weight = decltype(weight);
    turn_weights(s, args.weights.as<Weight>(), reinterpret_cast<Weight*>(turned));
  });
  const int64_t out_count = s.output_count() / s.batch;
  WideStatistics total;
  for (int64_t first = 0; first < s.batch; first += images) {
    const ConvolutionShape to = backward_shape(s, std::min(images, s.batch - first));
    with_gradient_type(args.grad_output.bits, [&](auto grad) {
      using Grad = decltype(grad);
      const auto* from = args.grad_output.as<Grad>() + first * out_count;
      parallel_ranges(pool, to.batch, 1, [&](int64_t begin, int64_t end, int64_t) {
        for (int64_t n = begin; n < end; ++n) {
          spread_gradient(s, to, from + n * out_count,
                          reinterpret_cast<Grad*>(spread) + n * (to.input_count() / to.batch));
        }
      });
    });
    forward(table,
            {.shape = to,
             .input = {spread, args.grad_output.bits},
             .weights = {turned, args.weights.bits},
             .sums = sums},
            to.batch == images ? planes.first(1) : planes.last(1), inner);
    total += narrow_images(table, pool, args, sums, first, to.batch);
  }
  return total;
}

size_t grad_input_scratch_bytes(const ConvolutionShape& shape, int gradient_bits, int weight_bits,
                                int threads, ConvolutionParts planes) noexcept {
  const int64_t images = input_images_per_chunk(shape);
  const auto of_images = [&](int64_t batch) {
    return forward_scratch_bytes(backward_shape(shape, batch), gradient_bits, weight_bits, threads,
                                 batch == images ? planes.first(1) : planes.last(1));
  };
  return BackwardScratch(backward_shape(shape, images), gradient_bits, weight_bits).bytes() +
         most_of_pieces(shape.batch, images, of_images);
}

}  // namespace mantissa::kernels::planes
