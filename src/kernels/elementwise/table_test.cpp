// Look-ups and products of the reference and every instruction set against exact formulations.
#include "kernels/elementwise/test_fixture.h"

namespace mantissa::kernels {
namespace {

class ElementwiseTables : public ElementwiseTest {};

// A table of 256 numbers: all are set, or those of some values of the high four bits.
std::vector<int8_t> some_table(int rows) {
  std::vector<int8_t> table(256);
  for (int i = 0; i < 16 * rows; ++i) table[(i + 80) % 256] = static_cast<int8_t>(i * 37 + 11);
  return table;
}

void check_look_up(const ElementwiseKernels& kernels, const std::vector<int8_t>& table) {
  for (const int64_t size : {0, 1, 3, 4, 5, 255, 256, 1000}) {
    std::vector<int8_t> in(size), out(size + 1, 55), wanted(size + 1, 55);
    std::vector<int64_t> counts(256, 7), wanted_counts(256, 7);
    for (int64_t i = 0; i < size; ++i) in[i] = static_cast<int8_t>(i * i);
    const int64_t begin = size > 1 ? 1 : 0;
    for (int64_t i = begin; i < size; ++i) {
      wanted[i] = table[static_cast<uint8_t>(in[i])];
      ++wanted_counts[static_cast<uint8_t>(in[i])];
    }
    kernels.count_values(in.data(), begin, size, counts.data());
    EXPECT_EQ(counts, wanted_counts) << size;
    kernels.look_up(in.data(), table.data(), out.data(), begin, size);
    EXPECT_EQ(out, wanted) << size;
    kernels.look_up(in.data(), table.data(), in.data(), begin, size);
    wanted.pop_back();
    if (begin == 1) wanted[0] = in[0];
    EXPECT_EQ(in, wanted) << "in place, " << size;
  }
}

TEST_P(ElementwiseTables, CountsAndLooksUpEveryByte) {
  for (const int rows : {0, 1, 8, 9, 16}) check_look_up(*GetParam(), some_table(rows));
}

TEST_P(ElementwiseTables, ClampsRangesAndExtremes) {
  for (const int64_t size : {0, 1, 3, 31, 63, 64, 65, 255, 1000}) {
    std::vector<int8_t> in(size);
    for (int64_t i = 0; i < size; ++i) in[i] = static_cast<int8_t>(i * 91 - 128);
    const int64_t begin = size > 1 ? 1 : 0;
    for (const auto& [low, high] : {std::pair<int8_t, int8_t>{0, 96}, {-128, 127}, {-5, -5}}) {
      std::vector<int8_t> clamped(size + 1, 55), inside(size + 1, 55);
      auto wanted_clamped = clamped, wanted_inside = inside;
      int8_t least = 3, most = 2, wanted_least = 3, wanted_most = 2;
      for (int64_t i = begin; i < size; ++i) {
        wanted_clamped[i] = std::clamp(in[i], low, high);
        wanted_inside[i] = low <= in[i] && in[i] <= high ? 1 : 0;
        wanted_least = std::min(wanted_least, in[i]);
        wanted_most = std::max(wanted_most, in[i]);
      }
      GetParam()->clamp(in.data(), low, high, clamped.data(), begin, size);
      EXPECT_EQ(clamped, wanted_clamped) << size;
      GetParam()->within(in.data(), low, high, inside.data(), begin, size);
      EXPECT_EQ(inside, wanted_inside) << size;
      GetParam()->extremes(in.data(), begin, size, &least, &most);
      EXPECT_EQ(least, wanted_least) << size;
      EXPECT_EQ(most, wanted_most) << size;
      std::vector<int8_t> in_place = in;
      GetParam()->clamp(in_place.data(), low, high, in_place.data(), begin, size);
      wanted_clamped.pop_back();
      if (begin == 1) wanted_clamped[0] = in[0];
      EXPECT_EQ(in_place, wanted_clamped) << "in place, " << size;
    }
  }
}

TEST_P(ElementwiseTables, Multiply) {
  for (const int64_t rows : {1, 2, 5}) {
    for (const int64_t length : kAwkwardSizes) {
      const int64_t size = rows * length;
      const auto a = test_values<int8_t>(size, 12, 7), b = test_values<int8_t>(size, 13, 7);
      for (const int64_t period : {int64_t{0}, length}) {
        for (const int shift : {-40, -7, -1, 0, 1, 6, 7, 8, 14, 15, 40}) {
          const int bits = shift == 6 ? 3 : 8;
          std::vector<int8_t> out(size), wanted(size);
          WideStatistics maximum, narrowed;
          for (int64_t i = 0; i < size; ++i) {
            const Wide wide = Wide{a[i]} * b[period == 0 ? i : i % period];
            note(wide, maximum);
            wanted[i] = narrow<int8_t>(wide, bits, shift, narrowed);
          }
          Multiply args = {a.data(), b.data(), period, shift, nullptr, bits};
          expect_equal(GetParam()->multiply(args, 0, size), maximum);
          args.out = out.data();
          narrowed.maximum = maximum.maximum;
          expect_equal(GetParam()->multiply(args, 0, size), narrowed);
          ASSERT_EQ(out, wanted) << length << " " << period << " " << shift;
        }
      }
    }
  }
}

template <typename T, typename Out>
void check_scale_gradient(const ElementwiseKernels& kernels, int bits, int out_bits, int64_t rows,
                          int64_t length, int64_t period) {
  const int64_t size = rows * length;
  const auto grad = test_values<T>(size, 14, bits - 1);
  const auto by = test_values<int8_t>(size, 15, 7);
  const auto factors = test_values<int64_t>(256, 16, 61 - bits);  // products stay below 2^62
  for (const int shift : {0, 1, 16, 30, 46, 61, 62, 90}) {
    std::vector<Out> out(size), wanted(size);
    WideStatistics narrowed;
    for (int64_t i = 0; i < size; ++i) {
      const auto byte = static_cast<uint8_t>(by[period == 0 ? i : i % period]);
      const Wide wide = Wide{grad[i]} * factors[byte];
      note(wide, narrowed);
      wanted[i] = narrow<Out>(wide, out_bits, shift, narrowed);
    }
    const ScaleGradient args = {{grad.data(), bits},   by.data(), factors.data(), period, shift,
                                {out.data(), out_bits}};
    expect_equal(kernels.scale_gradient(args, 0, size), narrowed);
    ASSERT_EQ(out, wanted) << bits << " bits, shift " << shift;
  }
}

TEST_P(ElementwiseTables, ScaleGradient) {
  for_each_wide_gradient_type([&]<typename T>(T, int bits) {
    for (const int64_t length : kAwkwardSizes) {
      for (const int64_t period : {int64_t{0}, length}) {
        check_scale_gradient<T, T>(*GetParam(), bits, bits, 3, length, period);
        if constexpr (sizeof(T) <= 2) {
          check_scale_gradient<T, int16_t>(*GetParam(), bits, 16, 3, length, period);
        }
        check_scale_gradient<T, int32_t>(*GetParam(), bits, 32, 3, length, period);
      }
    }
  });
}

// Few results are clipped, or many. Checks `size` elements from the second on.
template <typename T, typename Out>
void check_scale_within(const ElementwiseKernels& kernels, int bits, int out_bits, int64_t size) {
  const auto grad = test_values<T>(size, 21, bits - 1);
  const auto by = test_values<int8_t>(size, 22, 7);
  const int64_t begin = size > 1 ? 1 : 0;
  for (const auto& [low, high] : {std::pair<int8_t, int8_t>{0, 96}, {-128, 127}, {-5, -5}}) {
    for (const int64_t factor : {int64_t{0}, int64_t{715827882}, int64_t{1} << 29}) {
      for (const int shift : {0, 1, 20, 29, 30, 31, 45, 62, 90}) {
        std::vector<Out> out(size), wanted(size);
        WideStatistics narrowed;
        for (int64_t i = begin; i < size; ++i) {
          const Wide wide = by[i] >= low && by[i] <= high ? Wide{grad[i]} * factor : 0;
          note(wide, narrowed);
          wanted[i] = narrow<Out>(wide, out_bits, shift, narrowed);
        }
        const ScaleWithin args = {{grad.data(), bits},   by.data(), low, high, factor, shift,
                                  {out.data(), out_bits}};
        expect_equal(kernels.scale_within(args, begin, size), narrowed);
        ASSERT_EQ(out, wanted) << bits << " bits, shift " << shift;
      }
    }
  }
}

TEST_P(ElementwiseTables, ScaleWithin) {
  for_each_wide_gradient_type([&]<typename T>(T, int bits) {
    for (const int64_t size : {0, 1, 15, 16, 17, 63, 65, 1000, 5000}) {
      check_scale_within<T, T>(*GetParam(), bits, bits, size);
      if constexpr (sizeof(T) <= 2) check_scale_within<T, int16_t>(*GetParam(), bits, 16, size);
      check_scale_within<T, int32_t>(*GetParam(), bits, 32, size);
    }
  });
}

TEST_P(ElementwiseTables, SumByTable) {
  for_each_wide_gradient_type([&]<typename T>(T, int bits) {
    for (const int64_t size : {0, 1, 17, 2047, 2048, 2049, 7000}) {
      for (const int rows : {1, 8, 16}) {
        const std::vector<int8_t> table = some_table(rows);
        const auto grad = test_values<T>(size, 23, bits - 1);
        const auto in = test_values<int8_t>(size, 24, 7);
        const int64_t begin = size > 1 ? 1 : 0;
        Wide wanted = 0;
        for (int64_t i = begin; i < size; ++i) {
          wanted += Wide{grad[i]} * table[static_cast<uint8_t>(in[i])];
        }
        EXPECT_EQ(
            GetParam()->sum_by_table({grad.data(), bits}, in.data(), table.data(), begin, size),
            static_cast<int64_t>(wanted))
            << size << ", " << bits << " bits";
      }
    }
  });
}

// The largest numbers of all, of one sign.
TEST_P(ElementwiseTables, SumsByTableHoldExtremes) {
  const std::vector<int8_t> table(256, INT8_MIN), in(4096, 5);
  const std::vector<int16_t> grad(4096, INT16_MIN);
  EXPECT_EQ(GetParam()->sum_by_table({grad.data(), 16}, in.data(), table.data(), 0, 4096),
            int64_t{4096} << 22);
}

TEST_P(ElementwiseTables, SumProducts) {
  for (const int64_t rows : kAwkwardSizes) {
    for (const int64_t channels : kAwkwardChannels) {
      for_each_wide_gradient_type([&]<typename T>(T, int bits) {
        const auto grad = test_values<T>(rows * channels, 17, bits - 1);
        const auto in = test_values<int8_t>(rows * channels, 18, 7);
        std::vector<int64_t> sums(channels, 3), wanted(channels, 3);
        for (int64_t i = 0; i < rows * channels; ++i)
          wanted[i % channels] += int64_t{grad[i]} * in[i];
        GetParam()->sum_products({grad.data(), bits}, in.data(), channels, 0, rows, sums.data());
        ASSERT_EQ(sums, wanted) << bits;
      });
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, ElementwiseTables, testing::ValuesIn(elementwise_rows()), row_name);

}  // namespace
}  // namespace mantissa::kernels
