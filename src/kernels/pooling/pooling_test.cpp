// The reference and every instruction set against plain formulations.
#include "kernels/pooling/pooling.h"

#include <gtest/gtest.h>

#include "kernels/common/test_rows.h"
#include "kernels/elementwise/test_values.h"

namespace mantissa::kernels {
namespace {

class Pooling : public RowTest<PoolingKernels> {};

// Offset of the first maximum of the window at (n, y, x), channel c.
int64_t first_maximum(const MaxPoolShape& s, const std::vector<int8_t>& in, int64_t n, int64_t y,
                      int64_t x, int64_t c) {
  int64_t best = -1;
  for (int64_t dy = 0; dy < s.window; ++dy) {
    for (int64_t dx = 0; dx < s.window; ++dx) {
      const int64_t row = n * s.in_height + y * s.window + dy;
      const int64_t at = (row * s.in_width + x * s.window + dx) * s.channels + c;
      if (best < 0 || in[at] > in[best]) best = at;
    }
  }
  return best;
}

constexpr int64_t kImages = 3;

// Values of `bits` bits besides the sign.
void check_max_pool(const PoolingKernels& kernels, const MaxPoolShape& s, int bits) {
  const int64_t out_size = s.out_height() * s.out_width() * s.channels;
  const int64_t in_size = s.in_height * s.in_width * s.channels;
  const auto in = test_values<int8_t>(kImages * in_size, 1, bits);
  std::vector<int8_t> out(kImages * out_size, 77), wanted(kImages * out_size, 77);
  std::vector<int64_t> source(kImages * in_size, -1);  // the output that an input is the maximum of
  // Image 0 is not part of the call.
  for (int64_t i = out_size; i < kImages * out_size; ++i) {
    const int64_t pixel = i / s.channels;
    const int64_t x = pixel % s.out_width(), y = pixel / s.out_width() % s.out_height();
    const int64_t at = first_maximum(s, in, i / out_size, y, x, i % s.channels);
    wanted[i] = in[at];
    source[at] = i;
  }
  kernels.max_pool(s, in.data(), out.data(), 1, kImages);
  ASSERT_EQ(out, wanted);
  for (const int gradient_bits : kTestedWideGradientBits) {
    with_wide_gradient_type(gradient_bits, [&]<typename T>(T) {
      const auto grad_out = test_values<T>(kImages * out_size, 2, gradient_bits - 1);
      std::vector<T> grad_in(kImages * in_size, 77), wanted_grad(kImages * in_size, 77);
      for (int64_t i = in_size; i < kImages * in_size; ++i) {
        wanted_grad[i] = source[i] < 0 ? T{0} : grad_out[source[i]];
      }
      kernels.max_pool_gradient(s, in.data(), {grad_out.data(), gradient_bits},
                                {grad_in.data(), gradient_bits}, 1, kImages);
      ASSERT_EQ(grad_in, wanted_grad) << gradient_bits;
    });
  }
}

TEST_P(Pooling, Maximum) {
  for (const int64_t channels : kAwkwardChannels) {
    for (const int64_t window : {1, 2, 3}) {
      for (const int bits : {1, 7}) {  // one bit: ties everywhere
        check_max_pool(*GetParam(), {4, 4, channels, window}, bits);
        check_max_pool(*GetParam(), {5, 7, channels, window}, bits);
        check_max_pool(*GetParam(), {window, window, channels, window}, bits);
      }
    }
  }
}

// Rows of several pieces; pieces of several rows, also of two images; the largest window.
TEST_P(Pooling, MaximumOfLongAndShortRows) {
  for (const int64_t channels : {1, 2, 3, 6, 15, 16, 33}) {
    for (const int bits : {1, 7}) {
      check_max_pool(*GetParam(), {5, 701, channels, 2}, bits);
      check_max_pool(*GetParam(), {4, 401, channels, 3}, bits);
      check_max_pool(*GetParam(), {67, 5, channels, 2}, bits);
      check_max_pool(*GetParam(), {28, 28, channels, 2}, bits);
      check_max_pool(*GetParam(), {28, 27, channels, 5}, bits);
      check_max_pool(*GetParam(), {23, 150, channels, 11}, bits);
    }
  }
}

TEST_P(Pooling, ImageSums) {
  for (const int64_t pixels : {1, 15, 49, 1000}) {
    for (const int64_t channels : kAwkwardChannels) {
      const int64_t count = kImages * pixels * channels;
      const auto in = test_values<int8_t>(count, 3, 7);
      std::vector<int32_t> sums(kImages * channels, 7), wanted_sums(kImages * channels, 7);
      std::fill(wanted_sums.begin() + channels, wanted_sums.end(), 0);
      for (int64_t i = pixels * channels; i < count; ++i) {
        wanted_sums[i / (pixels * channels) * channels + i % channels] += in[i];
      }
      GetParam()->image_sums(in.data(), pixels, channels, sums.data(), 1, kImages);
      ASSERT_EQ(sums, wanted_sums);
    }
  }
}

template <typename T>
void check_broadcast(const PoolingKernels& kernels, int64_t pixels, int64_t channels, int bits) {
  const int64_t count = kImages * pixels * channels;
  const auto grad = test_values<T>(kImages * channels, 4, bits - 1);
  std::vector<T> out(count, 7), wanted(count, 7);
  for (int64_t i = pixels * channels; i < count; ++i) {
    wanted[i] = grad[i / (pixels * channels) * channels + i % channels];
  }
  kernels.broadcast({grad.data(), bits}, pixels, channels, {out.data(), bits}, 1, kImages);
  ASSERT_EQ(out, wanted) << bits;
}

TEST_P(Pooling, Broadcast) {
  for (const int64_t pixels : {1, 15, 49, 1000}) {
    for (const int64_t channels : kAwkwardChannels) {
      for (const int bits : kTestedWideGradientBits) {
        with_wide_gradient_type(bits, [&](auto type) {
          check_broadcast<decltype(type)>(*GetParam(), pixels, channels, bits);
        });
      }
    }
  }
}

#if defined(__x86_64__)
INSTANTIATE_TEST_SUITE_P(Rows, Pooling,
                         testing::Values(&kPoolingReference, &kPoolingAvx2, &kPoolingAvx512Vnni),
                         row_name);
#else
INSTANTIATE_TEST_SUITE_P(Rows, Pooling, testing::Values(&kPoolingReference), row_name);
#endif

}  // namespace
}  // namespace mantissa::kernels
