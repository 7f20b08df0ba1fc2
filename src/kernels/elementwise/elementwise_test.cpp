// The reference and every instruction set against exact formulations.
#include "kernels/elementwise/elementwise.h"

#include <gtest/gtest.h>

#include "kernels/elementwise/test_values.h"

namespace mantissa::kernels {
namespace {

// Narrows as METHODS section 0 says and counts what was clipped.
template <typename T>
T narrow(Wide wide, int shift, WideStatistics& statistics) {
  const Wide rounded = exact_rne(wide, shift);
  const Wide clipped = exact_saturate(rounded, std::numeric_limits<T>::max());
  statistics.saturated += clipped != rounded;
  return static_cast<T>(clipped);
}

void note(Wide wide, WideStatistics& statistics) {
  statistics.maximum = std::max(statistics.maximum, exact_magnitude(wide));
}

void expect_equal(const WideStatistics& got, const WideStatistics& wanted) {
  EXPECT_EQ(got.maximum, wanted.maximum);
  EXPECT_EQ(got.saturated, wanted.saturated);
}

class Elementwise : public testing::TestWithParam<const ElementwiseKernels*> {
 protected:
  void SetUp() override {
    if (GetParam()->isa > best_isa()) {
      GTEST_SKIP() << "this CPU lacks " << isa_name(GetParam()->isa);
    }
  }
};

TEST_P(Elementwise, Requantise) {
  for (const int64_t size : kAwkwardSizes) {
    for (const int shift : {-40, -9, -1, 0, 1, 2, 8, 17, 24, 25, 30, 31, 32, 33, 63, 100}) {
      const auto wide = test_values<int32_t>(size + 1, static_cast<uint64_t>(shift + 99), 31);
      // Not from the start, so that nothing relies on alignment or writes outside its range.
      const int64_t begin = size > 1 ? 1 : 0;
      std::vector<int8_t> out(size + 1, 55), wanted(size + 1, 55);
      WideStatistics maximum, narrowed;
      for (int64_t i = begin; i < size; ++i) {
        note(wide[i], maximum);
        wanted[i] = narrow<int8_t>(wide[i], shift, narrowed);
      }
      expect_equal(GetParam()->requantise({wide.data(), shift, nullptr}, begin, size), maximum);
      expect_equal(GetParam()->requantise({wide.data(), shift, out.data()}, begin, size), narrowed);
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
    for (int64_t i = 0; i < size; ++i) wanted[i] = narrow<int8_t>(wide[i], shift, narrowed);
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
          std::vector<int8_t> out(rows * channels), wanted(rows * channels);
          WideStatistics maximum, narrowed;
          for (int64_t i = 0; i < rows * channels; ++i) {
            const Wide wide = Wide{pixels[i]} - mean[i % channels];
            note(wide, maximum);
            wanted[i] = narrow<int8_t>(wide, shift, narrowed);
          }
          NormaliseInput args = {pixels.data(), mean.data(), channels, shift, nullptr};
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
          std::vector<int8_t> out(size), wanted(size);
          WideStatistics maximum, narrowed;
          for (int64_t i = 0; i < size; ++i) {
            Wide wide = exact_rne(a[i], shift_a) + exact_rne(b[i], shift_b);
            if (relu) wide = std::max<Wide>(wide, 0);
            note(wide, maximum);
            wanted[i] = narrow<int8_t>(wide, shift, narrowed);
          }
          Add args = {a.data(), b.data(), shift_a, shift_b, relu, shift, nullptr};
          expect_equal(GetParam()->add(args, 0, size), maximum);
          args.out = out.data();
          expect_equal(GetParam()->add(args, 0, size), narrowed);
          ASSERT_EQ(out, wanted) << shift_a << " " << shift_b << " " << shift;
        }
      }
    }
  }
}

TEST_P(Elementwise, AddGradients) {
  const std::pair<int, int> alignments[] = {{0, 0},   {-1, 0},   {0, -14},  {-15, 0},  {0, -40},
                                            {-40, 3}, {17, -40}, {-40, 90}, {-14, -14}};
  for (const int64_t size : kAwkwardSizes) {
    const auto a = test_values<int16_t>(size, 3, 15);
    const auto b = test_values<int16_t>(size, 4, 15);
    for (const auto& [shift_a, shift_b] : alignments) {
      for (const int shift : {0, 1, 2, 14, 29, 31, 32, 40, 41, 56, 62, 63, 90}) {
        std::vector<int16_t> out(size), wanted(size);
        WideStatistics maximum, narrowed;
        for (int64_t i = 0; i < size; ++i) {
          const Wide wide = exact_rne(a[i], shift_a) + exact_rne(b[i], shift_b);
          note(wide, maximum);
          wanted[i] = narrow<int16_t>(wide, shift, narrowed);
        }
        AddGradients args = {a.data(), b.data(), shift_a, shift_b, shift, nullptr};
        expect_equal(GetParam()->add_gradients(args, 0, size), maximum);
        args.out = out.data();
        narrowed.maximum = maximum.maximum;
        expect_equal(GetParam()->add_gradients(args, 0, size), narrowed);
        ASSERT_EQ(out, wanted) << shift_a << " " << shift_b << " " << shift;
      }
    }
  }
}

TEST_P(Elementwise, Relu) {
  for (const int64_t size : kAwkwardSizes) {
    const auto in = test_values<int8_t>(size, 7, 7);
    const auto grad = test_values<int16_t>(size, 8, 15);
    std::vector<int8_t> out(size), wanted(size);
    std::vector<int16_t> grad_in(size), wanted_grad(size);
    for (int64_t i = 0; i < size; ++i) {
      wanted[i] = std::max<int8_t>(in[i], 0);
      wanted_grad[i] = in[i] > 0 ? grad[i] : int16_t{0};
    }
    GetParam()->relu(in.data(), out.data(), 0, size);
    GetParam()->relu_gradient(in.data(), grad.data(), grad_in.data(), 0, size);
    ASSERT_EQ(out, wanted);
    ASSERT_EQ(grad_in, wanted_grad);
  }
}

TEST_P(Elementwise, SumRowsAndMaxima) {
  for (const int64_t rows : kAwkwardSizes) {
    for (const int64_t channels : kAwkwardChannels) {
      const auto in = test_values<int16_t>(rows * channels, 9, 15);
      const auto wide = test_values<int32_t>(rows * channels, 10, 31);
      std::vector<int64_t> sums(channels, 3), wanted_sums(channels, 3);
      std::vector<uint32_t> maxima(channels, 7), wanted_maxima(channels, 7);
      for (int64_t i = 0; i < rows * channels; ++i) {
        wanted_sums[i % channels] += in[i];
        uint32_t& maximum = wanted_maxima[i % channels];
        maximum = std::max(maximum, static_cast<uint32_t>(exact_magnitude(wide[i])));
      }
      GetParam()->sum_rows(in.data(), channels, 0, rows, sums.data());
      GetParam()->channel_maxima(wide.data(), channels, 0, rows, maxima.data());
      ASSERT_EQ(sums, wanted_sums);
      ASSERT_EQ(maxima, wanted_maxima);
    }
  }
}

// Enough rows of one sign to leave any partial accumulator that is too narrow.
TEST_P(Elementwise, SumRowsOfExtremes) {
  constexpr int64_t kRows = 70001;
  const std::vector<int16_t> in(kRows * 16, INT16_MIN);
  std::vector<int64_t> sums(16, 0);
  GetParam()->sum_rows(in.data(), 16, 0, kRows, sums.data());
  ASSERT_EQ(sums, std::vector<int64_t>(16, kRows * INT16_MIN));
}

TEST_P(Elementwise, RequantiseChannels) {
  for (const int64_t rows : kAwkwardSizes) {
    for (const int64_t channels : kAwkwardChannels) {
      const auto wide = test_values<int32_t>(rows * channels, 11, 31);
      std::vector<int32_t> shifts(channels);
      for (int64_t c = 0; c < channels; ++c) shifts[c] = static_cast<int32_t>(31 - c * 5 % 32);
      std::vector<int8_t> out(rows * channels), wanted(rows * channels);
      WideStatistics narrowed;
      for (int64_t i = 0; i < rows * channels; ++i) {
        wanted[i] = narrow<int8_t>(wide[i], shifts[i % channels], narrowed);
      }
      ASSERT_EQ(GetParam()->requantise_channels(wide.data(), shifts.data(), channels, 0, rows,
                                                out.data()),
                narrowed.saturated);
      ASSERT_EQ(out, wanted);
    }
  }
}

std::string row_name(const testing::TestParamInfo<const ElementwiseKernels*>& info) {
  return std::string(isa_name(info.param->isa));
}

#if defined(__x86_64__)
INSTANTIATE_TEST_SUITE_P(Rows, Elementwise,
                         testing::Values(&kElementwiseReference, &kElementwiseAvx2,
                                         &kElementwiseAvx512Vnni),
                         row_name);
#else
INSTANTIATE_TEST_SUITE_P(Rows, Elementwise, testing::Values(&kElementwiseReference), row_name);
#endif

}  // namespace
}  // namespace mantissa::kernels
