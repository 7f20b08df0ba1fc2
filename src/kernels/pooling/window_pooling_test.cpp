// Pooling by overlapping, padded windows: the reference and every instruction set against the
// definitions in 128 bits.
#include <gtest/gtest.h>

#include "kernels/common/test_rows.h"
#include "kernels/elementwise/test_values.h"
#include "kernels/pooling/pooling.h"
#include "numerics/rounding.h"

namespace mantissa::kernels {
namespace {

class WindowPooling : public RowTest<PoolingKernels> {};

constexpr int64_t kPooledImages = 3;  // the first is not part of the call

// height, width, channels, window, stride, padding, and whether the last window may reach out.
PoolShape pool(int64_t height, int64_t width, int64_t channels, int64_t window, int64_t stride,
               int64_t padding, bool ceil = false) {
  const auto windows = [&](int64_t size) {
    const int64_t room = size + 2 * padding - window, floor = room / stride + 1;
    return floor + (ceil && room % stride != 0 && floor * stride < size + padding ? 1 : 0);
  };
  const PoolAxis axis = {window, stride, padding};
  return {height, width, channels, windows(height), windows(width), axis, axis};
}

// Another window, stride and padding along the width.
PoolShape with_width(PoolShape s, int64_t window, int64_t stride, int64_t padding) {
  s.horizontal = {window, stride, padding};
  s.out_width = (s.in_width + 2 * padding - window) / stride + 1;
  return s;
}

std::vector<PoolShape> shapes(int64_t channels) {
  return {pool(7, 6, channels, 3, 2, 1),        // ResNet's
          pool(8, 7, channels, 3, 2, 0),        // Inception's
          pool(8, 6, channels, 3, 2, 0, true),  // SqueezeNet's
          pool(5, 4, channels, 3, 1, 1),
          pool(3, 3, channels, 3, 1, 0),
          pool(4, 4, channels, 2, 2, 1),
          pool(5, 5, channels, 2, 3, 0),  // cells in no window
          pool(1, 1, channels, 2, 1, 1),
          pool(12, 11, channels, 11, 1, 5),
          pool(6, 6, channels, 4, 3, 2, true),
          with_width(pool(7, 9, channels, 3, 2, 1), 1, 1, 0),
          with_width(pool(5, 9, channels, 2, 2, 0), 5, 3, 2)};
}

constexpr int64_t kChannels[] = {1, 3, 16, 63, 64, 65, 130};

// Calls visit(tap, offset in the image) for the cells of a window, in row-major order.
template <typename Visit>
void for_each_cell(const PoolShape& s, int64_t wy, int64_t wx, int64_t channel, Visit&& visit) {
  for (int64_t tap = 0; tap < s.window_cells(); ++tap) {
    const int64_t y = s.vertical.first(wy) + tap / s.horizontal.window;
    const int64_t x = s.horizontal.first(wx) + tap % s.horizontal.window;
    if (y < 0 || y >= s.in_height || x < 0 || x >= s.in_width) continue;
    visit(tap, (y * s.in_width + x) * s.channels + channel);
  }
}

// Calls visit(i, window, in offset of image n) for the outputs of all images but the first.
template <typename Visit>
void for_each_output(const PoolShape& s, Visit&& visit) {
  for (int64_t i = s.out_image(); i < kPooledImages * s.out_image(); ++i) {
    visit(i, i % s.out_image() / s.channels, i / s.out_image() * s.in_image());
  }
}

// narrow(wide >> shift) in 128 bits, and the statistics that a kernel reports about it.
template <typename To>
To narrowed(Wide wide, int shift, int bits, WideStatistics& found) {
  const Wide rounded = exact_rne(wide, shift);
  const Wide narrow = exact_saturate(rounded, mantissa_limit(bits));
  found += {exact_magnitude(wide), narrow != rounded};
  return static_cast<To>(narrow);
}

void expect_equal(const WideStatistics& found, const WideStatistics& wanted) {
  ASSERT_EQ(found.maximum, wanted.maximum);
  ASSERT_EQ(found.saturated, wanted.saturated);
}

// Runs a gradient kernel for every width in and out. Compares it with `exact_sums`, which computes
// the sums from grad_out and its width.
template <typename Kernel, typename Sums>
void check_gradient(const PoolShape& s, std::initializer_list<int> shifts, const Kernel& kernel,
                    const Sums& exact_sums) {
  for (const int bits : kTestedWideGradientBits) {
    for (const int out_bits : {bits, std::max(bits, 16), 32}) {
      with_wide_gradient_type(bits, [&]<typename From>(From) {
        with_wide_gradient_type(out_bits, [&]<typename To>(To) {
          const auto grad_out = test_values<From>(kPooledImages * s.out_image(), 2, bits - 1);
          const std::vector<Wide> sums = exact_sums(grad_out.data(), bits);
          for (const int shift : shifts) {
            std::vector<To> grad_in(sums.size(), 77), wanted(sums.size(), 77);
            WideStatistics found;
            for (int64_t i = s.in_image(); i < kPooledImages * s.in_image(); ++i) {
              wanted[i] = narrowed<To>(sums[i], shift, out_bits, found);
            }
            expect_equal(kernel(ConstMantissaSpan{grad_out.data(), bits}, shift,
                                MantissaSpan{grad_in.data(), out_bits}),
                         found);
            ASSERT_EQ(grad_in, wanted) << bits << " to " << out_bits << " bits, shift " << shift;
          }
        });
      });
    }
  }
}

// Values of `bits` bits besides the sign, which T keeps.
template <typename T>
void check_maximum(const PoolingKernels& kernels, const PoolShape& s, int bits) {
  constexpr int kWidth = 8 * sizeof(T);
  const auto in = test_values<T>(kPooledImages * s.in_image(), 1, bits);
  std::vector<T> out(kPooledImages * s.out_image(), 77), wanted = out;
  std::vector<int8_t> taps(out.size(), 77), wanted_taps = taps;
  std::vector<int64_t> source(out.size(), -1);  // where each output comes from
  for_each_output(s, [&](int64_t i, int64_t window, int64_t image) {
    for_each_cell(s, window / s.out_width, window % s.out_width, i % s.channels,
                  [&](int64_t tap, int64_t offset) {
                    if (source[i] >= 0 && in[image + offset] <= wanted[i]) return;
                    wanted[i] = in[image + offset];
                    wanted_taps[i] = static_cast<int8_t>(tap);
                    source[i] = image + offset;
                  });
    ASSERT_GE(source[i], 0);
  });
  const ConstMantissaSpan values{in.data(), kWidth};
  kernels.max_pool_windows(s, values, {out.data(), kWidth}, taps.data(), 1, kPooledImages);
  ASSERT_EQ(out, wanted);
  ASSERT_EQ(taps, wanted_taps);
  std::fill(out.begin() + s.out_image(), out.end(), T{77});
  std::fill(taps.begin() + s.out_image(), taps.end(), int8_t{77});
  kernels.max_pool_windows(s, values, {out.data(), kWidth}, nullptr, 1, kPooledImages);
  ASSERT_EQ(out, wanted);
  kernels.max_pool_windows(s, values, {}, taps.data(), 1, kPooledImages);
  ASSERT_EQ(taps, wanted_taps);
  check_gradient(
      s, {0, 1, 3, 22, 31, 62},
      [&](ConstMantissaSpan grad_out, int shift, MantissaSpan grad_in) {
        return kernels.max_pool_windows_gradient(s, taps.data(), grad_out, shift, grad_in, 1,
                                                 kPooledImages, nullptr);
      },
      [&](const auto* grad_out, int) {
        std::vector<Wide> sums(kPooledImages * s.in_image());
        for_each_output(s, [&](int64_t i, int64_t, int64_t) { sums[source[i]] += grad_out[i]; });
        return sums;
      });
}

TEST_P(WindowPooling, Maximum) {
  for (const int64_t channels : kChannels) {
    for (const PoolShape& shape : shapes(channels)) {
      for (const int bits : {1, 7}) {  // 1: ties everywhere
        check_maximum<int8_t>(*GetParam(), shape, bits);
      }
      check_maximum<int16_t>(*GetParam(), shape, 15);
    }
  }
}

// All windows point to one cell, at the ends of the gradients' range.
TEST_P(WindowPooling, SumsOfExtremesAreExact) {
  const PoolShape s = pool(21, 21, 1, 11, 1, 5);
  std::vector<int8_t> in(s.in_image(), -127), taps(s.out_image());
  in[10 * 21 + 10] = 127;
  GetParam()->max_pool_windows(s, {in.data(), 8}, {}, taps.data(), 0, 1);
  for (const int16_t extreme : {int16_t{-32767}, int16_t{32767}}) {
    const std::vector<int16_t> grad_out(s.out_image(), extreme);
    std::vector<int16_t> grad_in(s.in_image());
    const WideStatistics found = GetParam()->max_pool_windows_gradient(
        s, taps.data(), {grad_out.data(), 16}, 7, {grad_in.data(), 16}, 0, 1, nullptr);
    EXPECT_EQ(found.maximum, 121u * 32767u);
    EXPECT_EQ(grad_in[10 * 21 + 10], exact_rne(Wide{121} * extreme, 7));
    const std::vector<int64_t> multipliers(s.out_image(), (int64_t{1} << 31) - 1);
    const WideStatistics averages = GetParam()->average_pool_gradient(
        s, multipliers.data(), {grad_out.data(), 16}, 40, {grad_in.data(), 16}, 0, 1, nullptr);
    EXPECT_EQ(averages.maximum, 121u * 32767u * ((uint64_t{1} << 31) - 1));
    EXPECT_EQ(grad_in[10 * 21 + 10], exact_rne(Wide{121} * extreme * ((int64_t{1} << 31) - 1), 40));
  }
}

void check_average(const PoolingKernels& kernels, const PoolShape& s) {
  const auto in = test_values<int8_t>(kPooledImages * s.in_image(), 4, 7);
  const int64_t windows = s.out_height * s.out_width;
  auto multipliers = test_values<int64_t>(windows, 5, 31);
  for (int64_t& multiplier : multipliers) multiplier = saturate(multiplier, mantissa_limit(32));
  std::vector<Wide> sums(kPooledImages * s.out_image());
  for_each_output(s, [&](int64_t i, int64_t window, int64_t image) {
    for_each_cell(s, window / s.out_width, window % s.out_width, i % s.channels,
                  [&](int64_t, int64_t offset) { sums[i] += in[image + offset]; });
    sums[i] *= multipliers[window];
  });
  for (const int shift : {-62, -9, -1, 0, 1, 30, 37, 45, 62, 90}) {
    std::vector<int8_t> out(sums.size(), 77), wanted(sums.size(), 77);
    WideStatistics found;
    for (int64_t i = s.out_image(); i < kPooledImages * s.out_image(); ++i) {
      wanted[i] = narrowed<int8_t>(sums[i], shift, 8, found);
    }
    AveragePool args{s, in.data(), multipliers.data(), shift, nullptr};
    expect_equal(kernels.average_pool(args, 1, kPooledImages), found);
    args.out = out.data();
    expect_equal(kernels.average_pool(args, 1, kPooledImages), found);
    ASSERT_EQ(out, wanted) << shift;
  }
  // Wide gradients have fewer bits, so that sums stay below 2^61.
  std::vector<int64_t> short_multipliers = multipliers;
  for (int64_t& multiplier : short_multipliers) multiplier >>= 8;
  const auto multipliers_of = [&](int bits) {
    return bits <= 16 ? multipliers.data() : short_multipliers.data();
  };
  check_gradient(
      s, {0, 1, 31, 40, 54, 62},
      [&](ConstMantissaSpan grad_out, int shift, MantissaSpan grad_in) {
        return kernels.average_pool_gradient(s, multipliers_of(grad_out.bits), grad_out, shift,
                                             grad_in, 1, kPooledImages, nullptr);
      },
      [&](const auto* grad_out, int bits) {
        std::vector<Wide> gradients(kPooledImages * s.in_image());
        for_each_output(s, [&](int64_t i, int64_t window, int64_t image) {
          for_each_cell(s, window / s.out_width, window % s.out_width, i % s.channels,
                        [&](int64_t, int64_t offset) {
                          gradients[image + offset] +=
                              Wide{grad_out[i]} * multipliers_of(bits)[window];
                        });
        });
        return gradients;
      });
}

TEST_P(WindowPooling, Average) {
  for (const int64_t channels : kChannels) {
    for (const PoolShape& shape : shapes(channels)) check_average(*GetParam(), shape);
  }
}

#if defined(__x86_64__)
INSTANTIATE_TEST_SUITE_P(Rows, WindowPooling,
                         testing::Values(&kPoolingReference, &kPoolingAvx2, &kPoolingAvx512Vnni),
                         row_name);
#else
INSTANTIATE_TEST_SUITE_P(Rows, WindowPooling, testing::Values(&kPoolingReference), row_name);
#endif

}  // namespace
}  // namespace mantissa::kernels
