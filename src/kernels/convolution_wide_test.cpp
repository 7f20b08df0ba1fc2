// Convolutions of up to 16 bits, by planes, against plain sums in 128 bits.
#include "kernels/convolution_wide.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "kernels/convolution/test_subject.h"
#include "kernels/elementwise/test_values.h"
#include "numerics/rounding.h"

namespace mantissa::kernels {
namespace {

// Mantissas of `bits` bits, extremes among them, as the type that keeps them.
struct Mantissas {
  Mantissas(int64_t count, int width, uint64_t seed) : bits(width) {
    const int64_t limit = mantissa_limit(bits);
    for (const auto value : test_values<int16_t>(count, seed, bits - 1)) {
      wide.push_back(static_cast<int16_t>(saturate(value, limit)));
      narrow.push_back(static_cast<int8_t>(wide.back()));
    }
  }
  Gradient view() {
    return {bits <= 8 ? static_cast<void*>(narrow.data()) : static_cast<void*>(wide.data()), bits};
  }

  int bits;
  std::vector<int16_t> wide;
  std::vector<int8_t> narrow;
};

struct Operands {
  Operands(const ConvolutionShape& s, int in, int by, int grad, uint64_t seed)
      : shape(s),
        input(s.input_count(), in, seed),
        weights(s.weights_count(), by, seed + 1),
        grads(s.output_count(), grad, seed + 2),
        bias(test_values<int64_t>(s.out_channels, seed + 3, 40)) {}

  ConvolutionShape shape;
  Mantissas input, weights, grads;
  std::vector<int64_t> bias;
};

// Calls visit(output, input, weight) with the elements that each product is of.
template <typename Visit>
void for_each_product(const ConvolutionShape& s, const Visit& visit) {
  for (int64_t at = 0; at < s.output_count(); ++at) {
    const int64_t o = at % s.out_channels, x = at / s.out_channels % s.out_width;
    const int64_t y = at / s.out_channels / s.out_width % s.out_height;
    const int64_t n = at / s.out_channels / s.out_width / s.out_height;
    for (int64_t w = 0; w < s.kernel_height * s.kernel_width * s.group_in_channels(); ++w) {
      const int64_t c = w % s.group_in_channels(), tap = w / s.group_in_channels();
      const int64_t in_y = y * s.stride + tap / s.kernel_width * s.dilation - s.padding;
      const int64_t in_x = x * s.stride + tap % s.kernel_width * s.dilation - s.padding;
      if (in_y < 0 || in_y >= s.in_height || in_x < 0 || in_x >= s.in_width) continue;
      const int64_t channel = o / s.group_out_channels() * s.group_in_channels() + c;
      visit(at, ((n * s.in_height + in_y) * s.in_width + in_x) * s.in_channels + channel,
            o * s.kernel_height * s.kernel_width * s.group_in_channels() + w);
    }
  }
}

KernelTable table_of(Isa isa) { return select_kernels(isa); }

// Runs `function(table, context)` with every instruction set and one and three threads.
template <typename ScratchBytes, typename Function>
void with_every_kernel(const ScratchBytes& scratch_bytes, const Function& function) {
  for (const Isa isa : kAllIsas) {
    if (!is_supported(isa)) continue;
    const KernelTable table = table_of(isa);
    for (const int threads : {1, 3}) {
      ThreadPool pool(threads);
      std::vector<std::byte> memory(scratch_bytes(table, threads) + 64, std::byte{0xA5});
      const auto address = reinterpret_cast<uintptr_t>(memory.data());
      function(table, KernelContext{&pool, std::span(memory).subspan((64 - address % 64) % 64)});
    }
  }
}

void check_forward(Operands& o) {
  std::vector<Wide> wanted;
  for (int64_t i = 0; i < o.shape.output_count(); ++i) {
    wanted.push_back(o.bias[i % o.shape.out_channels]);
  }
  for_each_product(o.shape, [&](int64_t out, int64_t in, int64_t w) {
    wanted[out] += Wide{o.input.wide[in]} * o.weights.wide[w];
  });
  with_every_kernel(
      [&](const KernelTable& table, int threads) {
        return wide_forward_scratch_bytes(table, o.shape, o.input.bits, o.weights.bits, threads);
      },
      [&](const KernelTable& table, const KernelContext& context) {
        std::vector<int64_t> sums(wanted.size(), 77);
        wide_forward(table, {o.shape, o.input.view(), o.weights.view(), o.bias.data(), sums.data()},
                     context);
        for (size_t i = 0; i < sums.size(); ++i) ASSERT_EQ(Wide{sums[i]}, wanted[i]) << i;
      });
}

void check_grad_weights(Operands& o, int shift) {
  std::vector<Wide> wanted(static_cast<size_t>(o.shape.weights_count()));
  for_each_product(o.shape, [&](int64_t out, int64_t in, int64_t w) {
    wanted[w] += Wide{o.input.wide[in]} * o.grads.wide[out];
  });
  with_every_kernel(
      [&](const KernelTable& table, int threads) {
        return wide_grad_weights_scratch_bytes(table, o.shape, o.input.bits, o.grads.bits, threads);
      },
      [&](const KernelTable& table, const KernelContext& context) {
        std::vector<int64_t> sums(wanted.size(), 5);
        wide_grad_weights(table, {o.shape, o.input.view(), o.grads.view(), shift, sums.data()},
                          context);
        for (size_t i = 0; i < sums.size(); ++i) {
          ASSERT_EQ(Wide{sums[i]}, 5 + exact_rne(wanted[i], shift)) << i;
        }
      });
}

void check_grad_input(Operands& o, int shift, int bits) {
  std::vector<Wide> wanted(static_cast<size_t>(o.shape.input_count()));
  for_each_product(o.shape, [&](int64_t out, int64_t in, int64_t w) {
    wanted[in] += Wide{o.weights.wide[w]} * o.grads.wide[out];
  });
  with_every_kernel([&](const KernelTable&,
                        int threads) { return wide_grad_input_scratch_bytes(o.shape, threads); },
                    [&](const KernelTable&, const KernelContext& context) {
                      Mantissas found(o.shape.input_count(), bits, 1);
                      const WideStatistics statistics = wide_grad_input(
                          {o.shape, o.grads.view(), o.weights.view(), shift, found.view()},
                          context);
                      uint64_t maximum = 0;
                      int64_t saturated = 0;
                      for (size_t i = 0; i < wanted.size(); ++i) {
                        const Wide rounded = exact_rne(wanted[i], shift);
                        const Wide narrow = exact_saturate(rounded, mantissa_limit(bits));
                        const Wide got = bits <= 8 ? Wide{found.narrow[i]} : Wide{found.wide[i]};
                        ASSERT_EQ(got, narrow) << i;
                        maximum = std::max(maximum, exact_magnitude(wanted[i]));
                        saturated += narrow != rounded;
                      }
                      EXPECT_EQ(statistics.maximum, maximum);
                      EXPECT_EQ(statistics.saturated, saturated);
                    });
}

TEST(WideConvolution, EveryWidthIsExact) {
  const ConvolutionShape shape = test::shape_of(2, 7, 6, 5, 4, 3, 2, 1);
  for (int bits = 2; bits <= 16; ++bits) {
    SCOPED_TRACE(bits);
    Operands operands(shape, bits, 18 - bits, bits % 2 == 0 ? 16 : 8, 10 * bits);
    check_forward(operands);
    check_grad_weights(operands, bits - 6);
    check_grad_input(operands, bits, bits % 3 == 0 ? 8 : 16);
  }
}

TEST(WideConvolution, RandomShapesAreExact) {
  EXPECT_TRUE(rc::check("convolutions of up to 16 bits are exact sums", [] {
    ConvolutionShape s = test::random_window();
    s.groups = test::extent(1, 3);
    s.in_channels = s.groups * test::extent(1, 4);
    s.out_channels = s.groups * test::extent(1, 4);
    RC_PRE(s.multiply_adds() < 200'000);
    const auto bits = [] { return static_cast<int>(test::extent(2, 16)); };
    Operands operands(s, bits(), bits(), bits(), *rc::gen::arbitrary<uint32_t>());
    check_forward(operands);
    check_grad_weights(operands, static_cast<int>(test::extent(-10, 20)));
    check_grad_input(operands, static_cast<int>(test::extent(0, 30)), bits());
    RC_ASSERT(!::testing::Test::HasFailure());
  }));
}

// The longest sum that is allowed, of the largest products.
TEST(WideConvolution, DeepSumsOfExtremesAreExact) {
  const ConvolutionShape shape = test::shape_of(1, 1, 1, kMaximumForwardDepth, 1, 1, 1, 0);
  Operands operands(shape, 16, 16, 16, 3);
  std::fill(operands.input.wide.begin(), operands.input.wide.end(), int16_t{32767});
  std::fill(operands.weights.wide.begin(), operands.weights.wide.end(), int16_t{-32767});
  operands.bias[0] = -(int64_t{1} << 46);
  check_forward(operands);
}

}  // namespace
}  // namespace mantissa::kernels
