// Every row of the wide kernels is its definition, in 128 bits.
#include "kernels/wide/wide.h"

#include <gtest/gtest.h>

#include <vector>

#include "kernels/elementwise/test_fixture.h"
#include "kernels/elementwise/test_values.h"
#include "kernels/test_rows.h"
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

// Left shifts saturate beyond 61 bits, which no width of the result can tell from exact ones.
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

// Every mantissa is the sum of its digits.
TEST_P(WideNumbers, Digits) {
  for (const int planes : {2, 3}) {
    const int most = planes == 2 ? 8191 : 32767;
    std::vector<int16_t> in;
    for (int x = -most; x <= most; ++x) in.push_back(static_cast<int16_t>(x));
    const auto count = static_cast<int64_t>(in.size());
    std::vector<int> sums(in.size());
    for (int plane = 0; plane < planes; ++plane) {
      std::vector<int8_t> digits(in.size());
      GetParam()->digits({in.data(), plane, plane == planes - 1, digits.data()}, 0, count);
      for (int64_t i = 0; i < count; ++i) {
        ASSERT_TRUE(digits[i] >= -64 && digits[i] <= 64) << in[i];
        sums[i] += digits[i] * (1 << (plane * kValueDigitBits));
      }
    }
    for (int64_t i = 0; i < count; ++i) ASSERT_EQ(sums[i], in[i]);
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, WideNumbers, testing::ValuesIn(rows()), row_name);

}  // namespace
}  // namespace mantissa::kernels
