// Results of the runtime for devices against the reference, which computes float32 products.
#include "device/runtime/narrow.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "base/random.h"
#include "reference/elements/rescale.h"

namespace mantissa {
namespace {

std::vector<int8_t> by_reference(const std::vector<int32_t>& sums,
                                 const std::vector<float>& numbers, int least, int most) {
  std::vector<int8_t> out(sums.size());
  const RefRescale args{.sums = sums.data(),
                        .multipliers = numbers.data(),
                        .channels = std::ssize(sums),
                        .out = out.data(),
                        .least = least,
                        .most = most};
  ref_rescale_rows(&args, 0, 1);
  return out;
}

// Sums whose products lie near ties of all results, and random ones, for multipliers of many sizes.
TEST(DeviceNarrow, RescalesAsTheReference) {
  std::vector<int32_t> sums;
  std::vector<float> numbers;
  for (uint32_t i = 0; i < 200'000; ++i) {
    const auto word = [i](uint32_t which) {
      return random_bits(5, RandomStream::kSynthetic, which, i);
    };
    const double size = 1 + static_cast<double>(word(0) & 0x7fffff) / (1 << 23);
    const auto number = static_cast<float>(std::ldexp(size, -static_cast<int>(i % 34)));
    const double tie = static_cast<double>(word(1) % 600) - 300 + 0.5;
    const double near = std::nearbyint(tie / number) + static_cast<double>(word(2) % 5) - 2;
    sums.push_back(i % 3 == 0
                       ? static_cast<int32_t>(word(1))
                       : static_cast<int32_t>(std::clamp(near, -2147483647.0, 2147483647.0)));
    numbers.push_back(i % 50 == 0 ? -number : i % 51 == 0 ? 0 : number);
  }
  std::vector<uint32_t> bits;
  for (const float number : numbers) bits.push_back(std::bit_cast<uint32_t>(number));
  for (const auto& [least, most] : {std::pair{-127, 127}, {0, 127}, {-128, 127}, {0, 15}}) {
    std::vector<int8_t> out(sums.size());
    DevRescale args{out.data(), static_cast<int32_t>(sums.size()), bits.data(), least, most};
    dev_take_rescaled(&args, sums.data(), 0);
    EXPECT_EQ(out, by_reference(sums, numbers, least, most)) << least << " to " << most;
  }
}

// Odd sums, and even ones that are halved, at powers of two; half a unit is in the sums.
TEST(DeviceNarrow, FloorsAsTheReference) {
  for (int k = 0; k <= 15; ++k) {
    std::vector<int32_t> sums, with_half, shifts;
    std::vector<float> numbers;
    for (int i = -40'000; i < 40'000; ++i) {
      const int32_t sum = k == 0 ? i : k == 1 ? 2 * i : 2 * i * ((i & 511) + 1) + 1;
      sums.push_back(sum);
      with_half.push_back(sum + (k == 0 ? 0 : 1 << (k - 1)));
      shifts.push_back(k);
      numbers.push_back(std::ldexp(1.0F, -k));
    }
    std::vector<int8_t> out(sums.size());
    DevNarrow args{out.data(), static_cast<int32_t>(sums.size()), 0, -128, 127, shifts.data()};
    dev_take_floored(&args, with_half.data(), 0);
    EXPECT_EQ(out, by_reference(sums, numbers, -128, 127)) << k;
  }
}

// Ties go to the even number.
TEST(DeviceNarrow, ShiftsToNearestEven) {
  for (int shift = 0; shift <= 33; ++shift) {
    std::vector<int32_t> sums;
    std::vector<int8_t> expected;
    for (int64_t half = -300; half <= 300; ++half) {
      for (int64_t more = -1; more <= 1; ++more) {
        const int64_t sum = half * (INT64_C(1) << shift) / 2 + more;
        if (std::abs(sum) >= INT64_C(1) << 31) continue;
        sums.push_back(static_cast<int32_t>(sum));
        const double exact = std::nearbyint(std::ldexp(static_cast<double>(sum), -shift));
        expected.push_back(static_cast<int8_t>(std::clamp(exact, -127.0, 127.0)));
      }
    }
    std::vector<int8_t> out(sums.size());
    DevNarrow args{out.data(), static_cast<int32_t>(sums.size()), shift, -127, 127, nullptr};
    dev_take_shifted(&args, sums.data(), 0);
    EXPECT_EQ(out, expected) << shift;
  }
}

}  // namespace
}  // namespace mantissa
