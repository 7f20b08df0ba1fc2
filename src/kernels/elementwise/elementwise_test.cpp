// The reference and every instruction set against exact formulations.
#include "kernels/elementwise/elementwise.h"

#include <gtest/gtest.h>

#include "kernels/elementwise/test_fixture.h"

namespace mantissa::kernels {
namespace {

class Elementwise : public ElementwiseTest {};

TEST_P(Elementwise, Requantise) {
  for (const int64_t size : kAwkwardSizes) {
    for (const int shift : {-40, -9, -1, 0, 1, 2, 8, 17, 24, 25, 30, 31, 32, 33, 63, 100}) {
      const auto wide = test_values<int32_t>(size + 1, static_cast<uint64_t>(shift + 99), 31);
      const int bits = shift % 2 == 0 ? 8 : 3;
      // Not from the start, so that nothing relies on alignment or writes outside its range.
      const int64_t begin = size > 1 ? 1 : 0;
      std::vector<int8_t> out(size + 1, 55), wanted(size + 1, 55);
      WideStatistics maximum, narrowed;
      for (int64_t i = begin; i < size; ++i) {
        note(wide[i], maximum);
        wanted[i] = narrow<int8_t>(wide[i], bits, shift, narrowed);
      }
      expect_equal(GetParam()->requantise({wide.data(), shift, nullptr}, begin, size), maximum);
      expect_equal(GetParam()->requantise({wide.data(), shift, out.data(), bits}, begin, size),
                   narrowed);
      ASSERT_EQ(out, wanted) << "shift " << shift << " size " << size;
    }
  }
}

// Every number of 17 bits, so every remainder and tie, at every shift that leaves some.
TEST_P(Elementwise, RequantiseEverySmallNumber) {
  std::vector<int32_t> wide;
  for (int32_t n = -65536; n <= 65536; ++n) wide.push_back(n);
  const auto size = static_cast<int64_t>(wide.size());
  for (int shift = 0; shift <= 18; ++shift) {
    std::vector<int8_t> out(size), wanted(size);
    WideStatistics narrowed;
    for (int64_t i = 0; i < size; ++i) wanted[i] = narrow<int8_t>(wide[i], 8, shift, narrowed);
    expect_equal(GetParam()->requantise({wide.data(), shift, out.data()}, 0, size), narrowed);
    ASSERT_EQ(out, wanted) << shift;
  }
}

TEST_P(Elementwise, NormaliseInput) {
  for (const int64_t rows : kAwkwardSizes) {
    for (const int64_t channels : kAwkwardChannels) {
      const auto pixels = test_values<uint8_t>(rows * channels, 5, 8);
      for (const int mean_bits : {7, 31}) {
        const auto mean = test_values<int32_t>(channels, 6, mean_bits);
        for (const int shift : {-3, 0, 1, 5, 40}) {
          const int bits = shift == 1 ? 5 : 8;
          std::vector<int8_t> out(rows * channels), wanted(rows * channels);
          WideStatistics maximum, narrowed;
          for (int64_t i = 0; i < rows * channels; ++i) {
            const Wide wide = Wide{pixels[i]} - mean[i % channels];
            note(wide, maximum);
            wanted[i] = narrow<int8_t>(wide, bits, shift, narrowed);
          }
          NormaliseInput args = {pixels.data(), mean.data(), channels, shift, nullptr, bits};
          expect_equal(GetParam()->normalise_input(args, 0, rows), maximum);
          args.out = out.data();
          narrowed.maximum = maximum.maximum;
          expect_equal(GetParam()->normalise_input(args, 0, rows), narrowed);
          ASSERT_EQ(out, wanted);
        }
      }
    }
  }
}

TEST_P(Elementwise, Add) {
  const std::pair<int, int> alignments[] = {{0, 0},   {-1, 0},  {0, -16},
                                            {-16, 3}, {7, -16}, {60, -16}};
  for (const int64_t size : kAwkwardSizes) {
    const auto a = test_values<int8_t>(size, 1, 7);
    const auto b = test_values<int8_t>(size, 2, 7);
    for (const auto& [shift_a, shift_b] : alignments) {
      for (const int shift : {-40, -3, 0, 1, 9, 16, 17, 18, 40, 70}) {
        for (const bool relu : {false, true}) {
          const int bits = shift % 2 == 0 ? 8 : 2;
          std::vector<int8_t> out(size), wanted(size);
          WideStatistics maximum, narrowed;
          for (int64_t i = 0; i < size; ++i) {
            Wide wide = exact_rne(a[i], shift_a) + exact_rne(b[i], shift_b);
            if (relu) wide = std::max<Wide>(wide, 0);
            note(wide, maximum);
            wanted[i] = narrow<int8_t>(wide, bits, shift, narrowed);
          }
          Add args = {a.data(), b.data(), shift_a, shift_b, relu, shift, nullptr, bits};
          expect_equal(GetParam()->add(args, 0, size), maximum);
          args.out = out.data();
          narrowed.maximum = maximum.maximum;
          expect_equal(GetParam()->add(args, 0, size), narrowed);
          ASSERT_EQ(out, wanted) << shift_a << " " << shift_b << " " << shift;
        }
      }
    }
  }
}

template <typename T, typename Out>
void check_add_wide(const ElementwiseKernels& kernels, int bits, int out_bits, int64_t size,
                    int shift_a, int shift_b, bool relu) {
  const auto a = test_values<T>(size, 3, bits - 1);
  const auto b = test_values<T>(size, 4, bits - 1);
  for (const int shift : {0, 1, 2, 8, 14, 29, 31, 32, 40, 41, 48, 56, 62, 63, 90}) {
    std::vector<Out> out(size), wanted(size);
    WideStatistics maximum, narrowed;
    for (int64_t i = 0; i < size; ++i) {
      const Wide sum = exact_rne(a[i], shift_a) + exact_rne(b[i], shift_b);
      const Wide wide = relu ? std::max<Wide>(0, sum) : sum;
      note(wide, maximum);
      wanted[i] = narrow<Out>(wide, out_bits, shift, narrowed);
    }
    AddWide args = {{a.data(), bits}, {b.data(), bits}, shift_a, shift_b, relu, shift, {}};
    expect_equal(kernels.add_wide(args, 0, size), maximum);
    args.out = {out.data(), out_bits};
    narrowed.maximum = maximum.maximum;
    expect_equal(kernels.add_wide(args, 0, size), narrowed);
    ASSERT_EQ(out, wanted) << bits << " bits " << shift_a << " " << shift_b << " " << shift;
  }
}

// More numbers than a block of vectors takes: some blocks clip and some do not.
TEST_P(Elementwise, SumsClipInSomeBlocks) {
  constexpr int64_t kSize = 9001;
  const auto few_large = [](int64_t i) { return i / 3000 == 1 && i % 701 == 0; };
  std::vector<int8_t> a(kSize), b(kSize), out(kSize), wanted(kSize);
  std::vector<int16_t> wide_a(kSize), wide_b(kSize), wide_out(kSize), wide_wanted(kSize);
  for (int64_t i = 0; i < kSize; ++i) {
    const int sign = i % 2 == 0 ? 1 : -1;
    a[i] = static_cast<int8_t>(few_large(i) ? sign * 127 : i % 60);
    b[i] = static_cast<int8_t>(few_large(i) ? sign * 127 : -(i % 50));
    wide_a[i] = static_cast<int16_t>(a[i] * 258);
    wide_b[i] = static_cast<int16_t>(b[i] * 258);
  }
  for (const int left : {0, 3, 7, 8, 12}) {
    const int shift = std::max(0, left - 1);
    WideStatistics expected, wide_expected;
    for (int64_t i = 0; i < kSize; ++i) {
      const Wide sum = exact_rne(a[i], 0) + exact_rne(b[i], -left);
      note(sum, expected);
      wanted[i] = narrow<int8_t>(sum, 8, shift, expected);
      const Wide wide_sum = exact_rne(wide_a[i], -left) + exact_rne(wide_b[i], 0);
      note(wide_sum, wide_expected);
      wide_wanted[i] = narrow<int16_t>(wide_sum, 16, shift, wide_expected);
    }
    ASSERT_GT(expected.saturated, 0);
    const Add args = {a.data(), b.data(), 0, -left, false, shift, out.data(), 8};
    expect_equal(GetParam()->add(args, 0, kSize), expected);
    EXPECT_EQ(out, wanted) << left;
    const AddWide wide_args = {{wide_a.data(), 16},  {wide_b.data(), 16}, -left, 0, false, shift,
                               {wide_out.data(), 16}};
    expect_equal(GetParam()->add_wide(wide_args, 0, kSize), wide_expected);
    EXPECT_EQ(wide_out, wide_wanted) << left;
  }
}

TEST_P(Elementwise, AddWide) {
  // Both sides of the largest shifts that 32 bits take for either type.
  const std::pair<int, int> alignments[] = {{0, 0},     {-1, 0},  {0, -13},  {-13, -13}, {0, -14},
                                            {-14, -14}, {-15, 0}, {-21, 0},  {-21, -21}, {0, -22},
                                            {0, -40},   {-40, 3}, {17, -40}, {-40, 90}};
  for_each_gradient_type([&](auto type, int bits) {
    for (const int64_t size : kAwkwardSizes) {
      for (const auto& [shift_a, shift_b] : alignments) {
        using T = decltype(type);
        for (const bool relu : {false, true}) {
          check_add_wide<T, T>(*GetParam(), bits, bits, size, shift_a, shift_b, relu);
          check_add_wide<T, int16_t>(*GetParam(), bits, 16, size, shift_a, shift_b, relu);
        }
        check_add_wide<T, int32_t>(*GetParam(), bits, 32, size, shift_a, shift_b, false);
      }
    }
  });
}

TEST_P(Elementwise, Relu) {
  for (const int64_t size : kAwkwardSizes) {
    const auto in = test_values<int8_t>(size, 7, 7);
    std::vector<int8_t> out(size), wanted(size);
    for (int64_t i = 0; i < size; ++i) wanted[i] = std::max<int8_t>(in[i], 0);
    GetParam()->relu(in.data(), out.data(), 0, size);
    ASSERT_EQ(out, wanted);
    for_each_wide_gradient_type([&]<typename T>(T, int bits) {
      const auto grad = test_values<T>(size, 8, bits - 1);
      std::vector<T> grad_in(size), wanted_grad(size);
      for (int64_t i = 0; i < size; ++i) wanted_grad[i] = in[i] > 0 ? grad[i] : T{0};
      GetParam()->relu_gradient(in.data(), {grad.data(), bits}, {grad_in.data(), bits}, 0, size);
      ASSERT_EQ(grad_in, wanted_grad) << bits;
    });
  }
}

TEST_P(Elementwise, SumRows) {
  const auto check = [&]<typename T>(T, int bits) {
    for (const int64_t rows : kAwkwardSizes) {
      for (const int64_t channels : kAwkwardChannels) {
        auto in = test_values<T>(rows * channels, 9, bits - 1);
        for (T& n : in) n = std::max<T>(n, -std::numeric_limits<T>::max());  // symmetric
        std::vector<int64_t> sums(channels, 3), wanted(channels, 3);
        for (int64_t i = 0; i < rows * channels; ++i) wanted[i % channels] += in[i];
        GetParam()->sum_rows({in.data(), bits}, channels, 0, rows, sums.data());
        ASSERT_EQ(sums, wanted) << bits;
        std::fill(wanted.begin(), wanted.end(), 3);
        std::fill(sums.begin(), sums.end(), 3);
        for (int64_t i = 0; i < rows * channels; ++i) wanted[i % channels] += std::abs(in[i]);
        GetParam()->sum_magnitudes({in.data(), bits}, channels, 0, rows, sums.data());
        ASSERT_EQ(sums, wanted) << bits;
      }
    }
  };
  for_each_wide_gradient_type(check);
}

// So many rows of one sign that a partial accumulator which is too narrow would overflow.
TEST_P(Elementwise, SumRowsOfExtremes) {
  constexpr int64_t kRows = 70001;
  for_each_gradient_type([&]<typename T>(T, int bits) {
    constexpr T kLow = std::numeric_limits<T>::min();
    const std::vector<T> in(kRows * 16, kLow);
    std::vector<int64_t> sums(16, 0);
    GetParam()->sum_rows({in.data(), bits}, 16, 0, kRows, sums.data());
    ASSERT_EQ(sums, std::vector<int64_t>(16, kRows * kLow));
    const std::vector<T> mantissas(kRows * 16, kLow + 1);
    std::fill(sums.begin(), sums.end(), 0);
    GetParam()->sum_magnitudes({mantissas.data(), bits}, 16, 0, kRows, sums.data());
    ASSERT_EQ(sums, std::vector<int64_t>(16, kRows * -(kLow + 1)));
  });
}

TEST_P(Elementwise, ChannelMaxima) {
  for (const int64_t rows : kAwkwardSizes) {
    for (const int64_t channels : kAwkwardChannels) {
      const auto wide = test_values<int32_t>(rows * channels, 10, 31);
      std::vector<uint32_t> maxima(channels, 7), wanted(channels, 7);
      for (int64_t i = 0; i < rows * channels; ++i) {
        uint32_t& maximum = wanted[i % channels];
        maximum = std::max(maximum, static_cast<uint32_t>(exact_magnitude(wide[i])));
      }
      GetParam()->channel_maxima(wide.data(), channels, 0, rows, maxima.data());
      ASSERT_EQ(maxima, wanted);
    }
  }
}

TEST_P(Elementwise, RequantiseChannels) {
  for (const int64_t rows : kAwkwardSizes) {
    for (const int64_t channels : kAwkwardChannels) {
      const auto wide = test_values<int32_t>(rows * channels, 11, 31);
      std::vector<int32_t> shifts(channels);
      for (int64_t c = 0; c < channels; ++c) shifts[c] = static_cast<int32_t>(31 - c * 5 % 32);
      const int bits = channels % 2 == 0 ? 8 : 6;
      std::vector<int8_t> out(rows * channels), wanted(rows * channels);
      WideStatistics narrowed;
      for (int64_t i = 0; i < rows * channels; ++i) {
        wanted[i] = narrow<int8_t>(wide[i], bits, shifts[i % channels], narrowed);
      }
      ASSERT_EQ(GetParam()->requantise_channels(
                    {wide.data(), shifts.data(), channels, out.data(), bits}, 0, rows),
                narrowed.saturated);
      ASSERT_EQ(out, wanted);
    }
  }
}

TEST_P(Elementwise, ShiftChannels) {
  for (const int64_t rows : kAwkwardSizes) {
    for (const int64_t channels : kAwkwardChannels) {
      std::vector<int32_t> shifts(channels);
      for (int64_t c = 0; c < channels; ++c) shifts[c] = static_cast<int32_t>(c * 7 % 31);
      for_each_gradient_type([&]<typename T>(T, int bits) {
        const auto in = test_values<T>(rows * channels, 12, bits - 1);
        std::vector<T> out(rows * channels), wanted(rows * channels);
        for (int64_t i = 0; i < rows * channels; ++i) {
          wanted[i] = static_cast<T>(exact_rne(in[i], shifts[i % channels]));
        }
        GetParam()->shift_channels({{in.data(), bits}, shifts.data(), channels, {out.data(), bits}},
                                   0, rows);
        ASSERT_EQ(out, wanted) << bits;
      });
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, Elementwise, testing::ValuesIn(elementwise_rows()), row_name);

}  // namespace
}  // namespace mantissa::kernels
