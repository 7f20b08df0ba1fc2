// Every row of the wide kernels is its definition, in 128 bits.
#include "kernels/wide/wide.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "kernels/common/test_rows.h"
#include "kernels/elementwise/test_fixture.h"
#include "kernels/elementwise/test_values.h"
#include "numerics/normal_distribution.h"
#include "numerics/point_functions.h"
#include "numerics/rounding.h"

namespace mantissa::kernels {
namespace {

std::vector<const WideKernels*> rows() {
  return {
    &kWideReference,
#if defined(__x86_64__)
        &kWideAvx2, &kWideAvx512Vnni,
#endif
  };
}

class WideNumbers : public RowTest<WideKernels> {};

constexpr int64_t kSize = 133, kBegin = 3, kEnd = 131;

// Left shifts saturate beyond 61 bits. Results of any width are the same as without that.
TEST_P(WideNumbers, Narrow) {
  auto wide = test_values<int64_t>(kSize, 1, 62);
  wide[kBegin] = int64_t{1} << 62;
  wide[kBegin + 1] = -(int64_t{1} << 62);
  for (const int bits : {2, 8, 12, 16, 32}) {
    for (int shift = -70; shift <= 90; ++shift) {
      with_wide_gradient_type(bits, [&]<typename T>(T) {
        std::vector<T> out(kSize, 77), wanted(kSize, 77);
        WideStatistics maximum, found;
        for (int64_t i = kBegin; i < kEnd; ++i) {
          note(wide[i], maximum);
          wanted[i] = narrow<T>(wide[i], bits, shift, found);
        }
        NarrowWide args{wide.data(), shift, {nullptr, bits}};
        expect_equal(GetParam()->narrow(args, kBegin, kEnd), maximum);
        found.maximum = maximum.maximum;
        args.out.data = out.data();
        expect_equal(GetParam()->narrow(args, kBegin, kEnd), found);
        ASSERT_EQ(out, wanted) << bits << " " << shift;
      });
    }
  }
}

// Many numbers, some of which are small, some saturate, and some need more than 32 bits.
TEST_P(WideNumbers, NarrowOfManyMagnitudes) {
  constexpr int64_t kSome = 1300;
  std::vector<int64_t> wide;
  for (const int value_bits : {15, 40, 30, 7, 31}) {
    const auto some = test_values<int64_t>(kSome, 20 + value_bits, value_bits);
    wide.insert(wide.end(), some.begin(), some.end());
  }
  wide[kSome / 2] = int64_t{1} << 30;  // the largest for words of 32 bits
  const auto count = std::ssize(wide);
  for (const int bits : {7, 8, 16, 32}) {
    for (int shift = 0; shift <= 42; ++shift) {
      with_wide_gradient_type(bits, [&]<typename T>(T) {
        std::vector<T> out(count), wanted(count);
        WideStatistics found;
        for (int64_t i = 0; i < count; ++i) {
          note(wide[i], found);
          wanted[i] = narrow<T>(wide[i], bits, shift, found);
        }
        expect_equal(GetParam()->narrow({wide.data(), shift, {out.data(), bits}}, 0, count), found);
        ASSERT_EQ(out, wanted) << bits << " " << shift;
      });
    }
  }
}

template <typename Part>
void check_add_shifted(const WideKernels& kernels, int part_bits) {
  const auto part = test_values<Part>(kSize, 2, part_bits);
  for (int shift = 0; shift <= 28; ++shift) {
    auto sums = test_values<int64_t>(kSize, 3, 60), wanted = sums;
    for (int64_t i = kBegin; i < kEnd; ++i) wanted[i] += part[i] * (int64_t{1} << shift);
    std::vector<Part> copy = part;
    kernels.add_shifted({copy.data(), 8 * int{sizeof(Part)}}, shift, sums.data(), kBegin, kEnd);
    ASSERT_EQ(sums, wanted) << shift;
  }
}

TEST_P(WideNumbers, AddShifted) {
  check_add_shifted<int32_t>(*GetParam(), 31);
  check_add_shifted<int64_t>(*GetParam(), 32);
}

template <typename T>
void check_rescale(const WideKernels& kernels, int bits) {
  const auto in = test_values<T>(kSize, 14, bits - 1);
  for (const bool adds : {false, true}) {
    for (int shift = -70; shift <= 70; ++shift) {
      auto wide = test_values<int64_t>(kSize, 15, 60), wanted = wide;
      for (int64_t i = kBegin; i < kEnd; ++i) {
        wanted[i] = rescale_rne(in[i], shift) + (adds ? wanted[i] : 0);
      }
      kernels.rescale({{in.data(), bits}, shift, adds, wide.data()}, kBegin, kEnd);
      ASSERT_EQ(wide, wanted) << shift << " " << adds;
    }
  }
}

TEST_P(WideNumbers, Rescale) {
  check_rescale<int8_t>(*GetParam(), 8);
  check_rescale<int16_t>(*GetParam(), 16);
  check_rescale<int32_t>(*GetParam(), 32);
}

template <typename A, typename B>
void check_products(const WideKernels& kernels, int a_bits, int b_bits) {
  const auto a = test_values<A>(kSize, 21, a_bits - 1);
  const auto b = test_values<B>(kSize, 22, b_bits - 1);
  for (int shift = -70; shift <= 70; ++shift) {
    std::vector<int64_t> wide(kSize, 77), wanted = wide;
    for (int64_t i = kBegin; i < kEnd; ++i) {
      wanted[i] = rescale_rne(int64_t{a[i]} * b[i], shift);
    }
    kernels.products({{a.data(), a_bits}, {b.data(), b_bits}, shift, wide.data()}, kBegin, kEnd);
    ASSERT_EQ(wide, wanted) << shift;
  }
}

TEST_P(WideNumbers, Products) {
  check_products<int8_t, int8_t>(*GetParam(), 8, 8);
  check_products<int8_t, int16_t>(*GetParam(), 8, 16);
  check_products<int16_t, int8_t>(*GetParam(), 16, 8);
  check_products<int16_t, int16_t>(*GetParam(), 16, 16);
}

template <typename T>
void check_gelu(const WideKernels& kernels, int bits) {
  const auto in = test_values<T>(kSize, 17, bits - 1);
  for (int exponent = -100; exponent <= 40; ++exponent) {
    std::vector<int64_t> wide(kSize, 77), wanted = wide;
    for (int64_t i = kBegin; i < kEnd; ++i) {
      wanted[i] = in[i] * normal_q30(in[i], exponent).probability;
    }
    kernels.gelu({{in.data(), bits}, exponent, wide.data()}, kBegin, kEnd);
    ASSERT_EQ(wide, wanted) << exponent;
  }
}

TEST_P(WideNumbers, Gelu) {
  check_gelu<int8_t>(*GetParam(), 8);
  check_gelu<int16_t>(*GetParam(), 16);
}

template <typename T>
void check_silu(const WideKernels& kernels, int bits) {
  const auto in = test_values<T>(kSize, 18, bits - 1);
  for (int exponent = -100; exponent <= 40; ++exponent) {
    std::vector<int64_t> wide(kSize, 77), wanted = wide;
    for (int64_t i = kBegin; i < kEnd; ++i) wanted[i] = kSiluFunction.value(in[i], exponent, {});
    kernels.silu({{in.data(), bits}, exponent, wide.data()}, kBegin, kEnd);
    ASSERT_EQ(wide, wanted) << exponent;
  }
}

TEST_P(WideNumbers, Silu) {
  check_silu<int8_t>(*GetParam(), 8);
  check_silu<int16_t>(*GetParam(), 16);
}

template <typename T, typename Grad>
void check_silu_gradient(const WideKernels& kernels, int bits, int grad_bits) {
  const auto in = test_values<T>(kSize, 19, bits - 1);
  const auto grads = test_values<Grad>(kSize, 20, grad_bits - 1);
  for (int exponent = -100; exponent <= 40; ++exponent) {
    std::vector<int64_t> wide(kSize, 77), wanted = wide;
    for (int64_t i = kBegin; i < kEnd; ++i) {
      wanted[i] = grads[i] * kSiluFunction.derivative_q30(in[i], exponent, {});
    }
    const SiluGradient args{{in.data(), bits}, {grads.data(), grad_bits}, exponent, wide.data()};
    kernels.silu_gradient(args, kBegin, kEnd);
    ASSERT_EQ(wide, wanted) << exponent;
  }
}

TEST_P(WideNumbers, SiluGradient) {
  check_silu_gradient<int8_t, int16_t>(*GetParam(), 8, 16);
  check_silu_gradient<int16_t, int8_t>(*GetParam(), 16, 8);
  check_silu_gradient<int16_t, int16_t>(*GetParam(), 16, 16);
}

// All mantissas at exponents from where the sigmoid is nearly constant to where it is a step.
TEST_P(WideNumbers, SiluOfAllMantissas) {
  std::vector<int16_t> in;
  for (int q = -INT16_MAX; q <= INT16_MAX; ++q) in.push_back(static_cast<int16_t>(q));
  const auto count = static_cast<int64_t>(in.size());
  std::vector<int64_t> wide(in.size()), wanted(in.size());
  for (const int exponent : {-22, -15, -12, -9, -4}) {
    for (size_t i = 0; i < in.size(); ++i) wanted[i] = kSiluFunction.value(in[i], exponent, {});
    GetParam()->silu({{in.data(), 16}, exponent, wide.data()}, 0, count);
    ASSERT_EQ(wide, wanted) << exponent;
  }
}

TEST_P(WideNumbers, ShiftSums) {
  auto sums = test_values<int32_t>(kSize, 16, 31);
  sums[kBegin] = INT32_MIN;
  std::vector<int32_t> shifts;
  for (int64_t i = 0; i < kSize; ++i) shifts.push_back(static_cast<int32_t>(i % 30));
  std::vector<int64_t> wide(kSize, 77), wanted = wide;
  for (int64_t i = kBegin; i < kEnd; ++i) wanted[i] = sums[i] * (int64_t{1} << shifts[i]);
  GetParam()->shift_sums({sums.data(), shifts.data(), wide.data()}, kBegin, kEnd);
  EXPECT_EQ(wide, wanted);
}

// Every mantissa is the sum of its bytes.
TEST_P(WideNumbers, Planes) {
  std::vector<int16_t> in;
  for (int x = INT16_MIN; x <= INT16_MAX; ++x) in.push_back(static_cast<int16_t>(x));
  const auto count = static_cast<int64_t>(in.size());
  std::vector<int8_t> lower(in.size(), 77), upper(in.size(), 77);
  GetParam()->plane({in.data(), 0, lower.data()}, 1, count - 1);
  GetParam()->plane({in.data(), 1, upper.data()}, 1, count - 1);
  EXPECT_EQ(lower.front(), 77);
  EXPECT_EQ(upper.back(), 77);
  for (int64_t i = 1; i < count - 1; ++i) ASSERT_EQ(256 * upper[i] + lower[i] + 128, in[i]);
}

template <typename T>
void check_group_sums(const WideKernels& kernels, int bits) {
  constexpr int64_t kPixels = 21, kFirst = 2, kEndPixel = 20;
  for (const int64_t groups : {1, 3}) {
    for (const int64_t channels : {1, 2, 16, 19, 32, 48}) {
      const auto in = test_values<T>(kPixels * groups * channels, 5, bits - 1);
      std::vector<int32_t> sums(kPixels * groups, 77), wanted = sums;
      for (int64_t i = kFirst * groups; i < kEndPixel * groups; ++i) {
        wanted[i] = std::accumulate(&in[i * channels], &in[i * channels] + channels, 0);
      }
      kernels.group_sums({{in.data(), bits}, groups, channels, sums.data()}, kFirst, kEndPixel);
      ASSERT_EQ(sums, wanted) << groups << " " << channels;
    }
  }
}

TEST_P(WideNumbers, GroupSums) {
  check_group_sums<int8_t>(*GetParam(), 8);
  check_group_sums<int16_t>(*GetParam(), 16);
}

TEST_P(WideNumbers, Add) {
  const auto part = test_values<int32_t>(kSize, 6, 30);
  auto sums = test_values<int32_t>(kSize, 7, 30), wanted = sums;
  for (int64_t i = kBegin; i < kEnd; ++i) wanted[i] += part[i];
  GetParam()->add(part.data(), sums.data(), kBegin, kEnd);
  EXPECT_EQ(sums, wanted);
}

TEST_P(WideNumbers, FirstSums) {
  constexpr int64_t kPixels = 9, kFirst = 2, kEndPixel = 8;
  for (const int64_t groups : {1, 3, 17}) {
    for (const int64_t channels : {1, 5, 16}) {
      const auto constants = test_values<int64_t>(groups * channels, 8, 50);
      const auto of_groups = test_values<int32_t>(kPixels * groups, 9, 31);
      for (const bool given : {false, true}) {
        std::vector<int64_t> sums(kPixels * groups * channels, 77), wanted = sums;
        for (int64_t pixel = kFirst; pixel < kEndPixel; ++pixel) {
          for (int64_t o = 0; o < groups * channels; ++o) {
            const int64_t more = given ? of_groups[pixel * groups + o / channels] : 0;
            wanted[pixel * groups * channels + o] = constants[o] + 128 * more;
          }
        }
        const FirstSums args{
            constants.data(), given ? of_groups.data() : nullptr, 128, groups, channels,
            sums.data()};
        GetParam()->first_sums(args, kFirst, kEndPixel);
        ASSERT_EQ(sums, wanted) << groups << " " << channels;
      }
    }
  }
}

// Pixels of the input two apart, of the sums one and a gap; the largest products.
template <typename T>
void check_channel_products(const WideKernels& kernels, int bits) {
  constexpr int64_t kPixels = 3;
  for (const int64_t channels : {1, 7, 8, 31, 32, 45}) {
    const int64_t in_step = 2 * channels, sum_step = channels + 1;
    for (const size_t count : {0, 1, 9}) {
      const auto in = test_values<T>(kPixels * in_step + 9, 10, bits - 1);
      auto weights = test_values<int64_t>(channels * 9, 11, 15);
      weights[0] = 32767;
      const auto first = test_values<int64_t>(channels, 12, 50);
      std::vector<ChannelProducts::Tap> taps;
      for (size_t t = 0; t < count; ++t) taps.push_back({{&in[t], bits}, &weights[t * channels]});
      std::vector<int64_t> sums(kPixels * sum_step, 77), wanted = sums;
      for (int64_t i = 0; i < kPixels * channels; ++i) {
        const int64_t pixel = i / channels, c = i % channels;
        int64_t sum = first[c];
        for (size_t t = 0; t < count; ++t) {
          sum += in[t + pixel * in_step + c] * weights[t * channels + c];
        }
        wanted[pixel * sum_step + c] = sum;
      }
      kernels.channel_products({taps.data(), std::ssize(taps), first.data(), channels, kPixels,
                                in_step, sum_step, sums.data()});
      ASSERT_EQ(sums, wanted) << channels << " channels, " << count << " taps";
    }
  }
}

TEST_P(WideNumbers, ChannelProducts) {
  check_channel_products<int8_t>(*GetParam(), 8);
  check_channel_products<int16_t>(*GetParam(), 16);
}

INSTANTIATE_TEST_SUITE_P(Rows, WideNumbers, testing::ValuesIn(rows()), row_name);

}  // namespace
}  // namespace mantissa::kernels
