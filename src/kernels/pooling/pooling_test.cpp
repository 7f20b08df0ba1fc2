// The reference and every instruction set against plain formulations.
#include "kernels/pooling/pooling.h"

#include <gtest/gtest.h>

#include "kernels/elementwise/test_values.h"

namespace mantissa::kernels {
namespace {

class Pooling : public testing::TestWithParam<const PoolingKernels*> {
 protected:
  void SetUp() override {
    if (GetParam()->isa > best_isa()) {
      GTEST_SKIP() << "this CPU lacks " << isa_name(GetParam()->isa);
    }
  }
};

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

void check_max_pool(const PoolingKernels& kernels, const MaxPoolShape& s, int bits) {
  constexpr int64_t kImages = 3;
  const int64_t out_size = s.out_height() * s.out_width() * s.channels;
  const int64_t in_size = s.in_height * s.in_width * s.channels;
  const auto in = test_values<int8_t>(kImages * in_size, 1, bits);
  const auto grad_out = test_values<int16_t>(kImages * out_size, 2, 15);
  std::vector<int8_t> out(kImages * out_size, 77), wanted(kImages * out_size, 77);
  std::vector<int16_t> grad_in(kImages * in_size, 77), wanted_grad(kImages * in_size, 77);
  // Image 0 belongs to somebody else.
  std::fill(wanted_grad.begin() + in_size, wanted_grad.end(), int16_t{0});
  for (int64_t i = out_size; i < kImages * out_size; ++i) {
    const int64_t pixel = i / s.channels;
    const int64_t x = pixel % s.out_width(), y = pixel / s.out_width() % s.out_height();
    const int64_t at = first_maximum(s, in, i / out_size, y, x, i % s.channels);
    wanted[i] = in[at];
    wanted_grad[at] = grad_out[i];
  }
  kernels.max_pool(s, in.data(), out.data(), 1, kImages);
  kernels.max_pool_gradient(s, in.data(), grad_out.data(), grad_in.data(), 1, kImages);
  ASSERT_EQ(out, wanted);
  ASSERT_EQ(grad_in, wanted_grad);
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

TEST_P(Pooling, ImageSumsAndBroadcast) {
  constexpr int64_t kImages = 3;
  for (const int64_t pixels : {1, 15, 49, 1000}) {
    for (const int64_t channels : kAwkwardChannels) {
      const int64_t count = kImages * pixels * channels;
      const auto in = test_values<int8_t>(count, 3, 7);
      const auto grad = test_values<int16_t>(kImages * channels, 4, 15);
      std::vector<int32_t> sums(kImages * channels, 7), wanted_sums(kImages * channels, 7);
      std::fill(wanted_sums.begin() + channels, wanted_sums.end(), 0);
      std::vector<int16_t> out(count, 7), wanted(count, 7);
      for (int64_t i = pixels * channels; i < count; ++i) {
        const int64_t image_channel = i / (pixels * channels) * channels + i % channels;
        wanted_sums[image_channel] += in[i];
        wanted[i] = grad[image_channel];
      }
      GetParam()->image_sums(in.data(), pixels, channels, sums.data(), 1, kImages);
      GetParam()->broadcast(grad.data(), pixels, channels, out.data(), 1, kImages);
      ASSERT_EQ(sums, wanted_sums);
      ASSERT_EQ(out, wanted);
    }
  }
}

std::string row_name(const testing::TestParamInfo<const PoolingKernels*>& info) {
  return std::string(isa_name(info.param->isa));
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
