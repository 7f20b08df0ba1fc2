#include "kernels/convolution_wide_gradient.h"

#include <algorithm>

#include "base/checked.h"
#include "kernels/convolution_choice.h"
#include "kernels/exact_sums.h"
#include "kernels/parallel_ranges.h"
#include "numerics/rounding.h"

namespace mantissa::kernels {
namespace {

constexpr int kDigits = 3, kDigitBits = 11;  // 2^31 < (2^11)^3 / 2
constexpr int64_t kGrain = 32768;

// Digit `index` of n = sum of digit * 2^(kDigitBits * index): what the digits above it, which are n
// rounded, leave. |digit| <= 2^(kDigitBits - 1) + 1.
int16_t digit_of(int64_t n, int index) {
  const int64_t here = shift_right_rhu(n, kDigitBits * index);
  const int64_t above = index == kDigits - 1 ? 0 : shift_right_rhu(n, kDigitBits * (index + 1));
  return static_cast<int16_t>(here - above * (int64_t{1} << kDigitBits));
}

// Scratch: the digits as a gradient, the exact sums, then what the kernel wants.
struct Scratch {
  size_t digits, sums;
  explicit Scratch(const ConvolutionShape& shape)
      : digits(aligned_bytes(shape.output_count() * int64_t{sizeof(int16_t)})),
        sums(aligned_bytes(shape.weights_count() * int64_t{sizeof(int64_t)})) {}
  size_t bytes() const { return digits + sums; }
};

}  // namespace

void wide_gradient_grad_weights(const KernelTable& table, const ConvolutionGradWeights& args,
                                const KernelContext& context) noexcept {
  const Scratch scratch(args.shape);
  auto* digits = reinterpret_cast<int16_t*>(context.scratch.data());
  auto* sums = reinterpret_cast<int64_t*>(context.scratch.data() + scratch.digits);
  const KernelContext rest{context.pool, context.scratch.subspan(scratch.bytes())};
  const auto* gradient = args.grad_output.as<int32_t>();
  const int64_t weights = args.shape.weights_count();
  for (int index = kDigits - 1; index >= 0; --index) {
    parallel_ranges(*context.pool, args.shape.output_count(), kGrain,
                    [&](int64_t begin, int64_t end, int64_t) {
                      for (int64_t i = begin; i < end; ++i) {
                        digits[i] = digit_of(gradient[i], index);
                      }
                    });
    convolution_grad_weights(
        table,
        {args.shape, args.input, {digits, 16}, -kDigitBits * index, {sums}, index != kDigits - 1},
        rest);
  }
  add_sums(*context.pool, sums, args.shift, weights, args.adds, args.totals);
}

size_t wide_gradient_grad_weights_scratch_bytes(const KernelTable& table,
                                                const ConvolutionShape& shape,
                                                int threads) noexcept {
  return Scratch(shape).bytes() + convolution_grad_weights_scratch_bytes(table, shape, 16, threads);
}

}  // namespace mantissa::kernels
