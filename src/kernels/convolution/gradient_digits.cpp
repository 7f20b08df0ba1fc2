#include "kernels/convolution/gradient_digits.h"

#include <algorithm>

#include "base/checked.h"
#include "kernels/common/exact_sums.h"
#include "kernels/common/parallel_ranges.h"
#include "kernels/convolution/choice.h"
#include "numerics/rounding.h"

namespace mantissa::kernels {
namespace {

constexpr int kDigits = 3, kDigitBits = 11;  // 2^31 < (2^11)^3 / 2
constexpr int64_t kDigitsPerThread = 32768;

// Digit `index` of n = sum of digit * 2^(kDigitBits * index). The digits above it are n rounded; it
// is the difference. |digit| <= 2^(kDigitBits - 1) + 1.
int16_t digit_of(int64_t n, int index) {
  const int64_t here = shift_right_rhu(n, kDigitBits * index);
  const int64_t above = index == kDigits - 1 ? 0 : shift_right_rhu(n, kDigitBits * (index + 1));
  return static_cast<int16_t>(here - above * (int64_t{1} << kDigitBits));
}

// Scratch: the digits as a gradient, the exact sums, then the scratch of the row below.
struct Scratch {
  size_t digits, sums;
  explicit Scratch(const ConvolutionShape& shape)
      : digits(aligned_bytes(shape.output_count() * int64_t{sizeof(int16_t)})),
        sums(aligned_bytes(shape.weights_count() * int64_t{sizeof(int64_t)})) {}
  size_t bytes() const { return digits + sums; }
};

const char* declines(const ConvolutionWork& work) noexcept {
  if (work.pass != ConvolutionPass::kGradWeights) return "takes only gradients of weights";
  return work.bits <= 16 ? "takes only gradients of more than 16 bits" : nullptr;
}

std::vector<ConvolutionWork> parts(const ConvolutionWork& work) {
  return {{work.pass, work.shape, 16}};
}

void grad_weights(const ConvolutionGradWeights& args, ConvolutionParts of_digits,
                  const KernelContext& context) noexcept {
  const Scratch scratch(args.shape);
  auto* digits = reinterpret_cast<int16_t*>(context.scratch.data());
  auto* sums = reinterpret_cast<int64_t*>(context.scratch.data() + scratch.digits);
  const KernelContext rest{context.pool, context.scratch.subspan(scratch.bytes())};
  const auto* gradient = args.grad_output.as<int32_t>();
  const int64_t weights = args.shape.weights_count();
  for (int index = kDigits - 1; index >= 0; --index) {
    parallel_ranges(*context.pool, args.shape.output_count(), kDigitsPerThread,
                    [&](int64_t begin, int64_t end, int64_t) {
                      for (int64_t i = begin; i < end; ++i) {
                        digits[i] = digit_of(gradient[i], index);
                      }
                    });
    of_digits[0].grad_weights(
        {args.shape, args.input, {digits, 16}, -kDigitBits * index, {sums}, index != kDigits - 1},
        rest);
  }
  add_sums(*context.pool, sums, args.shift, weights, args.adds, args.totals);
}

size_t grad_weights_scratch_bytes(const ConvolutionShape& shape, int, int threads,
                                  ConvolutionParts of_digits) noexcept {
  return Scratch(shape).bytes() + of_digits[0].scratch_bytes(threads);
}

}  // namespace

const ConvolutionKernels kConvolutionDigits = {
    .name = "convolution_digits",
    .needs = kNeedsNothing,
    .declines = declines,
    .parts = parts,
    .forward = nullptr,
    .forward_scratch_bytes = nullptr,
    .grad_input = nullptr,
    .grad_input_scratch_bytes = nullptr,
    .grad_weights = grad_weights,
    .grad_weights_scratch_bytes = grad_weights_scratch_bytes,
};

}  // namespace mantissa::kernels
