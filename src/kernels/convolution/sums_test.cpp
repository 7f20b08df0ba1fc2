// The sums of grad_input as they are, for transposed convolutions: all instruction sets against the
// reference, which is compared with the definition.
#include <gtest/gtest.h>

#include "kernels/convolution/choice.h"
#include "kernels/convolution/test_subject.h"
#include "kernels/kernel_table.h"

namespace mantissa::kernels::test {
namespace {

struct Operands {
  ConvolutionShape shape;
  std::vector<int8_t> gradient, weights;

  Operands(const ConvolutionShape& s, uint32_t seed) : shape(s) {
    std::mt19937 random(seed);
    const Values values = seed % 2 == 0 ? Values::kRandom : Values::kExtreme;
    gradient = make_values<int8_t>(s.output_count(), 127, values, random);
    weights = make_values<int8_t>(s.weights_count(), 127, values, random);
  }
  std::vector<int32_t> sums(Isa isa, int threads, uint64_t* maximum) const {
    const KernelTable table = select_kernels(isa);
    const ConvolutionRows rows = table.convolution;
    const ConvolutionWork work{ConvolutionPass::kGradInput, shape, 8, true};
    const ConvolutionChoice choice = choose_convolution(rows, work);
    Scratch scratch(choice.scratch_bytes(threads));
    ThreadPool pool(threads);
    std::vector<int32_t> sums(static_cast<size_t>(shape.input_count()), 0x5a5a5a5a);
    const WideStatistics found = choice.grad_input({.shape = shape,
                                                    .grad_output = {gradient.data(), 8},
                                                    .weights = weights.data(),
                                                    .grad_input = {nullptr, 8},
                                                    .sums = sums.data()},
                                                   {&pool, scratch.span()});
    *maximum = found.maximum;
    return sums;
  }
};

std::vector<int32_t> by_definition(const Operands& o) {
  const ConvolutionShape& s = o.shape;
  std::vector<int32_t> sums(static_cast<size_t>(s.input_count()));
  for (int64_t at = 0; at < s.output_count(); ++at) {
    const int64_t out = at % s.out_channels, x = at / s.out_channels % s.out_width;
    const int64_t y = at / s.out_channels / s.out_width % s.out_height;
    const int64_t n = at / s.out_channels / s.out_width / s.out_height;
    for (int64_t ky = 0; ky < s.kernel_height; ++ky) {
      for (int64_t kx = 0; kx < s.kernel_width; ++kx) {
        const int64_t iy = y * s.stride_height + ky - s.padding_height;
        const int64_t ix = x * s.stride_width + kx - s.padding_width;
        if (iy < 0 || iy >= s.in_height || ix < 0 || ix >= s.in_width) continue;
        const int64_t channels = s.group_in_channels();
        const int64_t first = out / s.group_out_channels() * channels;
        for (int64_t c = 0; c < channels; ++c) {
          sums[((n * s.in_height + iy) * s.in_width + ix) * s.in_channels + first + c] +=
              o.gradient[at] *
              o.weights[((out * s.kernel_height + ky) * s.kernel_width + kx) * channels + c];
        }
      }
    }
  }
  return sums;
}

TEST(ConvolutionSums, OfGradInputAreExactEverywhere) {
  std::vector<ConvolutionShape> shapes = {
      shape_of(2, 8, 8, 5, 7, 2, 2, 0),   shape_of(3, 9, 13, 33, 20, 3, 2, 1),
      shape_of(1, 16, 16, 64, 96, 4, 2, 1), shape_of(2, 7, 5, 3, 4, 2, 3, 0),
      shape_of(1, 1, 1, 1, 1, 1, 1, 0),   shape_of(2, 6, 6, 17, 40, 3, 1, 1)};
  ConvolutionShape row = shape_of(3, 1, 40, 12, 24, 1, 2, 0);  // a sequence
  row.kernel_width = 4, row.padding_width = 1, row.out_width = 20;
  shapes.push_back(row);
  for (const auto& [groups, in, out] :
       {std::tuple{2, 16, 24}, {3, 9, 3}, {5, 5, 20}, {24, 24, 24}}) {
    ConvolutionShape grouped = shape_of(2, 8, 8, in, out, 3, 2, 1);
    grouped.groups = groups;
    shapes.push_back(grouped);
  }
  for (const ConvolutionShape& shape : shapes) {
    for (uint32_t seed = 0; seed < 4; ++seed) {
      const Operands operands(shape, seed);
      const std::vector<int32_t> expected = by_definition(operands);
      int64_t most = 0;
      for (const int32_t sum : expected) most = std::max<int64_t>(most, std::abs(int64_t{sum}));
      for (const Isa isa : kAllIsas) {
        if (!is_supported(isa)) continue;
        for (const int threads : {1, 3}) {
          uint64_t maximum = 0;
          EXPECT_EQ(operands.sums(isa, threads, &maximum), expected) << isa_name(isa);
          if (isa != Isa::kScalar) continue;
          EXPECT_EQ(maximum, static_cast<uint64_t>(most));
        }
      }
    }
  }
}

}  // namespace
}  // namespace mantissa::kernels::test
