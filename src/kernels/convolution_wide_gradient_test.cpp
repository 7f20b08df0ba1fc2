// grad_weights of 32-bit gradients by every instruction set's kernels against the exact sums.
#include "kernels/convolution_wide_gradient.h"

#include <gtest/gtest.h>

#include <memory>

#include "base/random.h"
#include "kernels/convolution/test_subject.h"
#include "kernels/convolution_choice.h"
#include "numerics/rounding.h"

namespace mantissa::kernels {
namespace {

ConvolutionShape with_dilation(ConvolutionShape s, int64_t dilation) {
  s.dilation = dilation;
  s.out_height = s.in_height + 2 * s.padding - (s.kernel_height - 1) * dilation;
  s.out_width = s.in_width + 2 * s.padding - (s.kernel_width - 1) * dilation;
  return s;
}

const ConvolutionShape kShapes[] = {
    test::shape_of(3, 9, 7, 5, 6, 3, 1, 1),
    test::shape_of(2, 9, 9, 16, 24, 3, 2, 1),
    test::shape_of(8, 1, 1, 40, 10, 1, 1, 0),      // linear
    test::shape_of(2, 8, 8, 24, 24, 3, 1, 1, 24),  // depthwise
    test::shape_of(2, 8, 8, 12, 18, 3, 1, 1, 3),   // groups
    with_dilation(test::shape_of(2, 9, 9, 5, 7, 3, 1, 2), 2),
};

int32_t extreme(uint64_t bits) {
  constexpr int32_t kValues[] = {INT32_MAX,  -INT32_MAX, 0,          1,
                                 -1,         1 << 15,    -(1 << 15), 1 << 10,
                                 -(1 << 10), 1 << 21,    -(1 << 21), (1 << 21) - 1};
  return kValues[bits % std::size(kValues)];
}

struct Case {
  std::vector<int8_t> input;
  std::vector<int32_t> gradient;
};

Case make_case(const ConvolutionShape& s, bool extremes) {
  Case result;
  for (int64_t i = 0; i < s.input_count(); ++i) {
    const uint64_t bits = random_bits(1, RandomStream::kShuffle, 0, static_cast<uint64_t>(i));
    result.input.push_back(static_cast<int8_t>(static_cast<int>(bits % 255) - 127));
  }
  for (int64_t i = 0; i < s.output_count(); ++i) {
    const uint64_t bits = random_bits(2, RandomStream::kShuffle, 0, static_cast<uint64_t>(i));
    const auto any = static_cast<int32_t>(bits >> 32);
    result.gradient.push_back(extremes ? extreme(bits) : any == INT32_MIN ? 0 : any);
  }
  return result;
}

// From the definition.
std::vector<__int128> exact_sums(const ConvolutionShape& s, const Case& c) {
  std::vector<__int128> sums(static_cast<size_t>(s.weights_count()), 0);
  const int64_t in_group = s.group_in_channels(), out_group = s.group_out_channels();
  int64_t at = 0;
  for (int64_t n = 0; n < s.batch; ++n) {
    for (int64_t y = 0; y < s.out_height; ++y) {
      for (int64_t x = 0; x < s.out_width; ++x) {
        for (int64_t o = 0; o < s.out_channels; ++o, ++at) {
          for (int64_t tap = 0; tap < s.kernel_height * s.kernel_width; ++tap) {
            const int64_t in_y = y * s.stride + tap / s.kernel_width * s.dilation - s.padding;
            const int64_t in_x = x * s.stride + tap % s.kernel_width * s.dilation - s.padding;
            if (in_y < 0 || in_y >= s.in_height || in_x < 0 || in_x >= s.in_width) continue;
            const int64_t pixel = ((n * s.in_height + in_y) * s.in_width + in_x) * s.in_channels;
            for (int64_t i = 0; i < in_group; ++i) {
              sums[(o * s.kernel_height * s.kernel_width + tap) * in_group + i] +=
                  __int128{c.gradient[at]} * c.input[pixel + o / out_group * in_group + i];
            }
          }
        }
      }
    }
  }
  return sums;
}

TEST(WideGradient, SumsAreExactAndRoundedOnce) {
  for (const Isa isa : {Isa::kScalar, Isa::kAvx2, Isa::kAvxVnni, Isa::kAvx512Vnni}) {
    if (isa > best_isa()) continue;
    const KernelTable table = select_kernels(isa);
    for (const ConvolutionShape& shape : kShapes) {
      for (const bool extremes : {false, true}) {
        const Case c = make_case(shape, extremes);
        const std::vector<__int128> sums = exact_sums(shape, c);
        for (const int threads : {1, 3}) {
          ThreadPool pool(threads);
          std::vector<std::byte> scratch(
              convolution_grad_weights_scratch_bytes(table, shape, 32, threads) + 64);
          void* aligned = scratch.data();
          size_t space = scratch.size();
          std::align(64, space - 64, aligned, space);
          for (const int shift : {-3, 0, 1, 17, 40}) {
            std::vector<int64_t> found(sums.size(), 5);
            convolution_grad_weights(
                table, {shape, c.input.data(), {c.gradient.data(), 32}, shift, found.data()},
                {&pool, {static_cast<std::byte*>(aligned), space}});
            for (size_t i = 0; i < sums.size(); ++i) {
              ASSERT_EQ(found[i], accumulate(5, rescale_rne(static_cast<int64_t>(sums[i]), shift)))
                  << isa_name(isa) << " shift " << shift << " weight " << i;
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace mantissa::kernels
