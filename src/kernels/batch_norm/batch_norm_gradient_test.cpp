// Gradients: the reference and every instruction set against exact formulations.
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "kernels/batch_norm/batch_norm.h"
#include "kernels/batch_norm/batch_norm_test_rows.h"
#include "kernels/elementwise/test_values.h"
#include "numerics/rounding.h"

namespace mantissa::kernels {
namespace {

class BatchNormGradients : public BatchNormRow {};

// Gradients of `bits` bits, kept as T; inputs and outputs of all the bits that their types keep.
template <typename T, typename In = int8_t, typename Output = int8_t>
struct GradientCase {
  int64_t rows, channels;
  int bits;
  std::vector<T> grad_out;
  std::vector<In> in;
  std::vector<Output> output;
  std::vector<int32_t> grad_multiplier, in_multiplier;
  std::vector<int64_t> offset;

  GradientCase(int64_t rows_, int64_t channels_, int bits_, int multiplier_bits, int offset_bits)
      : rows(rows_),
        channels(channels_),
        bits(bits_),
        grad_out(test_values<T>(rows * channels, 5, bits - 1)),
        in(test_values<In>(rows * channels, 6, kBitsOf<In> - 1)),
        output(test_values<Output>(rows * channels, 7, kBitsOf<Output> - 1)),
        grad_multiplier(test_values<int32_t>(channels, 8, multiplier_bits)),
        in_multiplier(test_values<int32_t>(channels, 9, multiplier_bits)),
        offset(test_values<int64_t>(channels, 10, offset_bits)) {}

  // For wide gradients: as large as products allow, with multipliers of 28 bits.
  static constexpr int in_shift() { return sizeof(T) <= 2 ? 0 : 32 - kBitsOf<In>; }

  BatchNormGradient args(bool masked, int shift, MantissaSpan grad_in) const {
    return {{grad_out.data(), bits},
            {in.data(), kBitsOf<In>},
            {masked ? output.data() : nullptr, kBitsOf<Output>},
            channels,
            grad_multiplier.data(),
            in_multiplier.data(),
            in_shift(),
            offset.data(),
            shift,
            grad_in};
  }
};

template <typename... Types>
void check_gradient_sums(const BatchNormKernels& kernels, const GradientCase<Types...>& data,
                         bool masked) {
  const int64_t channels = data.channels;
  std::vector<int64_t> sum(channels, 1), product(channels, 2);
  auto wanted_sum = sum, wanted_product = product;
  for (int64_t i = 0; i < data.rows * channels; ++i) {
    const int64_t grad = !masked || data.output[i] > 0 ? data.grad_out[i] : 0;
    wanted_sum[i % channels] += grad;
    wanted_product[i % channels] += grad * int64_t{data.in[i]};
  }
  kernels.gradient_sums(data.args(masked, 0, {}), 0, data.rows, sum.data(), product.data());
  ASSERT_EQ(sum, wanted_sum);
  ASSERT_EQ(product, wanted_product);
}

// Calls check with a GradientCase of every shape and width.
template <typename In = int8_t, typename Output = int8_t, typename Check>
void for_each_gradient_case(int multiplier_bits, int offset_bits, Check&& check) {
  for (const int64_t rows : kAwkwardSizes) {
    for (const int64_t channels : kAwkwardChannels) {
      for (const int bits : kTestedWideGradientBits) {
        with_wide_gradient_type(bits, [&](auto type) {
          check(GradientCase<decltype(type), In, Output>(
              rows, channels, bits, bits <= 16 ? multiplier_bits : std::min(multiplier_bits, 28),
              offset_bits));
        });
      }
    }
  }
}

TEST_P(BatchNormGradients, Sums) {
  const auto check = [&](const auto& data) {
    for (const bool masked : {false, true}) check_gradient_sums(*GetParam(), data, masked);
  };
  for_each_gradient_case(31, 40, check);
  for_each_gradient_case<int8_t, int16_t>(31, 40, check);
  for_each_gradient_case<int16_t, int8_t>(31, 40, check);
  for_each_gradient_case<int16_t, int16_t>(31, 40, check);
}

// Out keeps the `bits` of the result.
template <typename Out, typename... Types>
void check_gradient(const BatchNormKernels& kernels, const GradientCase<Types...>& data, int bits,
                    bool masked, int shift) {
  const int64_t count = data.rows * data.channels;
  std::vector<Out> out(count), wanted(count);
  WideStatistics maximum, narrowed;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t c = i % data.channels;
    const Wide grad = !masked || data.output[i] > 0 ? data.grad_out[i] : 0;
    const Wide of_input = Wide{data.in[i]} * data.in_multiplier[c] * (1 << data.in_shift());
    const Wide wide = grad * data.grad_multiplier[c] + of_input + data.offset[c];
    maximum.maximum = std::max(maximum.maximum, exact_magnitude(wide));
    const Wide rounded = exact_rne(wide, shift);
    wanted[i] = static_cast<Out>(exact_saturate(rounded, mantissa_limit(bits)));
    narrowed.saturated += wanted[i] != rounded;
  }
  expect_equal(kernels.gradient(data.args(masked, shift, {}), 0, data.rows), maximum);
  narrowed.maximum = maximum.maximum;
  expect_equal(kernels.gradient(data.args(masked, shift, {out.data(), bits}), 0, data.rows),
               narrowed);
  ASSERT_EQ(out, wanted) << data.rows << " x " << data.channels << " >> " << shift << " to " << bits
                         << " bits";
}

// Results as wide as the gradient, and wider.
template <typename T, typename In, typename Output>
void check_all_widths(const BatchNormKernels& kernels, const GradientCase<T, In, Output>& data,
                      bool masked, int shift) {
  check_gradient<T>(kernels, data, data.bits, masked, shift);
  check_gradient<int32_t>(kernels, data, 32, masked, shift);
  if constexpr (sizeof(T) <= 2) check_gradient<int16_t>(kernels, data, 16, masked, shift);
}

TEST_P(BatchNormGradients, AreExact) {
  const auto check = [&](const auto& data) {
    for (const int shift : {0, 1, 16, 17, 31, 32, 46, 47, 48, 54, 60, 61, 62, 63, 90}) {
      for (const bool masked : {false, true}) {
        check_all_widths(*GetParam(), data, masked, shift);
      }
    }
  };
  for_each_gradient_case(30, 40, check);
  for_each_gradient_case(31, 60, check);
}

TEST_P(BatchNormGradients, OfWideValuesAreExact) {
  const auto check = [&](const auto& data) {
    for (const int shift : {0, 1, 31, 48, 62, 90}) {
      for (const bool masked : {false, true}) {
        check_all_widths(*GetParam(), data, masked, shift);
      }
    }
  };
  for_each_gradient_case<int8_t, int16_t>(31, 60, check);
  for_each_gradient_case<int16_t, int8_t>(31, 60, check);
  for_each_gradient_case<int16_t, int16_t>(31, 60, check);
}

// The input is also the output. It is symmetric, as mantissas are, and its negatives are coarse.
template <typename T, typename In>
void check_coarse_gradient(const BatchNormKernels& kernels, GradientCase<T, In, In> data, int shift,
                           int negative_shift) {
  for (In& in : data.in) in = std::max<In>(in, -std::numeric_limits<In>::max());
  data.output = data.in;
  auto args = data.args(true, shift, {});
  args.output = args.in;
  args.negative_shift = negative_shift;
  args.in_shift = std::max(0, data.in_shift() - kMostNegativeShift);
  const int64_t count = data.rows * data.channels;
  std::vector<T> out(count), wanted(count);
  WideStatistics maximum, narrowed;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t c = i % data.channels;
    const Wide in = data.in[i] < 0 ? Wide{data.in[i]} << negative_shift : Wide{data.in[i]};
    const Wide grad = in > 0 ? data.grad_out[i] : 0;
    const Wide of_input = in * data.in_multiplier[c] * (1 << args.in_shift);
    const Wide wide = grad * data.grad_multiplier[c] + of_input + data.offset[c];
    maximum.maximum = std::max(maximum.maximum, exact_magnitude(wide));
    const Wide rounded = exact_rne(wide, shift);
    wanted[i] = static_cast<T>(exact_saturate(rounded, mantissa_limit(data.bits)));
    narrowed.saturated += wanted[i] != rounded;
  }
  expect_equal(kernels.gradient(args, 0, data.rows), maximum);
  args.grad_in = {out.data(), data.bits};
  narrowed.maximum = maximum.maximum;
  expect_equal(kernels.gradient(args, 0, data.rows), narrowed);
  ASSERT_EQ(out, wanted) << data.rows << " x " << data.channels << " >> " << shift << ", "
                         << negative_shift;
}

TEST_P(BatchNormGradients, OfCoarseNegativesAreExact) {
  for (const int negative_shift : {0, 1, 3, kMostNegativeShift}) {
    const auto check = [&](const auto& data) {
      for (const int shift : {0, 17, 31, 40, 47, 62}) {
        check_coarse_gradient(*GetParam(), data, shift, negative_shift);
      }
    };
    for (const int bits : {24, 30}) {
      for_each_gradient_case(bits, 40, check);
      for_each_gradient_case<int16_t, int16_t>(bits, 40, check);
    }
    for (const int64_t channels : kOtherChannels) {
      check_coarse_gradient(*GetParam(), GradientCase<int16_t>(70, channels, 16, 28, 40), 31,
                            negative_shift);
    }
  }
}

template <typename Check>
void for_both_gradient_types(int64_t rows, int64_t channels, Check&& check) {
  check(GradientCase<int16_t>(rows, channels, 16, 30, 40));
  check(GradientCase<int8_t>(rows, channels, 8, 30, 36));
}

TEST_P(BatchNormGradients, OfOtherChannelCounts) {
  for (const int64_t channels : kOtherChannels) {
    for_both_gradient_types(70, channels, [&]<typename T>(const GradientCase<T>& data) {
      for (const bool masked : {false, true}) {
        check_gradient_sums(*GetParam(), data, masked);
        check_gradient<T>(*GetParam(), data, data.bits, masked, 31);
      }
    });
  }
}

// Multipliers and offsets around the largest for which 32-bit lanes suffice.
TEST_P(BatchNormGradients, OfLargeOperands) {
  for (const int32_t multiplier : kLargeMultipliers) {
    for (const int offset_bits : {44, 45, 46, 47}) {
      for_both_gradient_types(70, 16, [&]<typename T>(GradientCase<T> data) {
        data.grad_multiplier[3] = data.in_multiplier[5] = multiplier;
        data.offset[3] = (int64_t{1} << offset_bits) - 1;
        data.offset[5] = -(int64_t{1} << offset_bits);
        for (const int shift : {31, 45}) {
          check_gradient<T>(*GetParam(), data, data.bits, false, shift);
        }
      });
    }
  }
}

// In every channel one row is half way between two results.
TEST_P(BatchNormGradients, OfTies) {
  constexpr int64_t kRows = 100, kChannels = 48, kTied = 50;
  for (const int shift : {17, 18, 31, 40}) {
    for_both_gradient_types(kRows, kChannels, [&]<typename T>(GradientCase<T> data) {
      for (int64_t c = 0; c < kChannels; ++c) {
        const int64_t at = kTied * kChannels + c;
        data.offset[c] = ((c % 7 - 3) * 2 + 1) * (int64_t{1} << (shift - 1)) -
                         int64_t{data.grad_out[at]} * data.grad_multiplier[c] -
                         int64_t{data.in[at]} * data.in_multiplier[c];
      }
      check_gradient<T>(*GetParam(), data, data.bits, false, shift);
    });
  }
}

// Few results saturate, and none of them is the largest: the largest comes first.
TEST_P(BatchNormGradients, OfFewThatSaturate) {
  constexpr int64_t kRows = 500, kChannels = 48;
  for (const int shift : {17, 24, 29}) {
    for_both_gradient_types(kRows, kChannels, [&]<typename T>(GradientCase<T> data) {
      const int64_t limit = mantissa_limit(data.bits), most = limit / 3;
      std::fill(data.grad_multiplier.begin(), data.grad_multiplier.end(), 2 << shift);
      std::fill(data.in_multiplier.begin(), data.in_multiplier.end(), 1);
      // A lower half of zero looks like a tie. Without any, the first look is enough for blocks.
      std::fill(data.offset.begin(), data.offset.end(), 12345);
      for (T& grad : data.grad_out) grad = static_cast<T>(grad % most);
      data.grad_out[5] = static_cast<T>(limit);
      for (const int64_t at : {7000, 7001, 12345, 16000, 23999}) {
        data.grad_out[at] = static_cast<T>(at % 2 == 0 ? limit - 3 : 2 - limit);
      }
      check_gradient<T>(*GetParam(), data, data.bits, false, shift);
      check_gradient<int16_t>(*GetParam(), data, 16, true, shift);
    });
  }
}

// A maximum that was already seen elsewhere need not be reported. Nothing else changes.
TEST_P(BatchNormGradients, WithAMaximumThatWasSeen) {
  constexpr int kShift = 30;
  for_both_gradient_types(200, 16, [&]<typename T>(const GradientCase<T>& data) {
    std::vector<T> wanted(data.grad_out.size()), out(wanted.size());
    auto args = data.args(true, kShift, {wanted.data(), data.bits});
    const WideStatistics plain = GetParam()->gradient(args, 0, data.rows);
    for (const uint64_t seen : {plain.maximum / 2, plain.maximum, 2 * plain.maximum}) {
      args.grad_in.data = out.data();
      args.seen = seen;
      const WideStatistics found = GetParam()->gradient(args, 0, data.rows);
      EXPECT_EQ(out, wanted);
      EXPECT_EQ(found.saturated, plain.saturated);
      EXPECT_EQ(std::max(seen, found.maximum), std::max(seen, plain.maximum));
    }
  });
}

// Only the lowest bits tell which result is the largest.
TEST_P(BatchNormGradients, OfAlmostEqualResults) {
  for_both_gradient_types(1000, 16, [&]<typename T>(GradientCase<T> data) {
    std::fill(data.grad_multiplier.begin(), data.grad_multiplier.end(), 1 << 29);
    std::fill(data.in_multiplier.begin(), data.in_multiplier.end(), 1);
    std::fill(data.offset.begin(), data.offset.end(), 12345);
    for (const T grad : {T{100}, T{-100}}) {
      std::fill(data.grad_out.begin(), data.grad_out.end(), grad);
      for (int64_t i = 0; i < 16000; ++i) {  // each block has a larger result than all before it
        data.in[i] = static_cast<int8_t>((grad > 0 ? 1 : -1) * (i / 128 - 62));
      }
      check_gradient<T>(*GetParam(), data, data.bits, false, 31);
    }
  });
}

TEST_P(BatchNormGradients, OfPartsLeaveTheRest) {
  for (const int64_t channels : {3, 24, 48, 144}) {
    for_both_gradient_types(211, channels, [&]<typename T>(const GradientCase<T>& data) {
      std::vector<T> all(data.grad_out.size()), out(all.size(), T{77});
      auto args = data.args(true, 31, {all.data(), data.bits});
      GetParam()->gradient(args, 0, data.rows);
      args.grad_in.data = out.data();
      GetParam()->gradient(args, 5, 100);
      GetParam()->gradient(args, 100, 208);
      for (int64_t i = 0; i < data.rows * channels; ++i) {
        const int64_t row = i / channels;
        ASSERT_EQ(out[i], row < 5 || row >= 208 ? T{77} : all[i]) << i;
      }
    });
  }
}

// More long rows than sums of 32 bits hold, and an odd rest.
TEST_P(BatchNormGradients, SumsThatStartAnew) {
  for (const int64_t channels : {16, 32}) {
    for_both_gradient_types(1019, channels, [&](const auto& data) {
      for (const bool masked : {false, true}) check_gradient_sums(*GetParam(), data, masked);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, BatchNormGradients, MANTISSA_BATCH_NORM_ROWS, row_name);

}  // namespace
}  // namespace mantissa::kernels
