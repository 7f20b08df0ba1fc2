// Pixels or numbers in, a block of the width of activations out. For pixels: wide = pixel - mean of
// the channel, in units of 1/64. Means may have a fraction, in units of 2^-fraction_bits; then wide
// is in these units, too. Networks from elsewhere bring such means.
#include <algorithm>
#include <iterator>

#include "kernels/common/parallel_ranges.h"
#include "kernels/kernel_table.h"
#include "ops/attributes.h"
#include "ops/fp32.h"
#include "ops/kernel_name.h"
#include "ops/narrowing.h"
#include "ops/ops.h"
#include "ops/pixels.h"
#include "ops/wide_values.h"

namespace mantissa::ops {
namespace {

constexpr int kMostFractionBits = 16;
constexpr int64_t kLargestPixel = 255;
// A mean for each channel; 0 if none is given.
constexpr AttributeSpec kSchema[] = {
    whole_list<&InputAttributes::means>("means", 0, kLargestPixel << kMostFractionBits),
    whole<&InputAttributes::fraction_bits>("fraction_bits", 0, 0, kMostFractionBits)};

Result<Shape> infer(const Attributes& given, std::span<const Shape> inputs) {
  const auto& attributes = given.as<InputAttributes>();
  if (inputs.size() != 1 || inputs[0].rank != 3) return invalid_input("wants one [H, W, C] input");
  if (inputs[0].last() > kMaximumInputChannels) {
    return invalid_input("wants at most " + std::to_string(kMaximumInputChannels) + " channels");
  }
  if (std::ssize(attributes.means) > inputs[0].last()) {
    return invalid_input("wants at most one mean for each of " + std::to_string(inputs[0].last()) +
                         " channels");
  }
  const int64_t largest = kLargestPixel << attributes.fraction_bits;
  for (const int64_t mean : attributes.means) {
    if (mean <= largest) continue;
    return invalid_input("attribute 'means' has " + std::to_string(mean) + "; wants 0 to " +
                         std::to_string(largest));
  }
  return inputs[0];
}

void forward(const OpContext& c) {
  const int64_t channels = c.output().shape.last(), rows = c.output().count() / channels;
  int32_t mean[kMaximumInputChannels] = {};
  const auto& attributes = c.attributes<InputAttributes>();
  std::ranges::copy(attributes.means, mean);
  kernels::NormaliseInput args{.pixels = c.inputs[0].as<uint8_t>(),
                               .mean = mean,
                               .channels = channels,
                               .bits = c.output().bits};
  const int fraction = attributes.fraction_bits;
  const auto wide = [&](int64_t i) {
    return (int64_t{args.pixels[i]} << fraction) - mean[i % channels];
  };
  if (c.mode.half_up) return write_half_up(c, kPixelExponent - fraction, wide);
  if (fraction > 0 || !is_bytes(c.output())) return write_wide(c, kPixelExponent - fraction, wide);
  calibrate(c, kPixelExponent, wide);
  narrow_value(c, kPixelExponent, [&](int8_t* out, int shift, const kernels::PassCounts& counts) {
    args.out = out;
    args.shift = shift;
    return write_pieces(
        c, c.output(), rows, kernels::kElementsPerThread, counts,
        [&](int64_t b, int64_t e) {
          return c.kernel.table->elementwise->normalise_input(args, b, e);
        },
        wide);
  });
}

constexpr Element kNumbers[] = {Element::kNumber};
constexpr Element kPixels[] = {Element::kPixel};

Result<Shape> infer_numbers(const Attributes&, std::span<const Shape> inputs) {
  if (inputs.size() != 1) return invalid_input("wants one input");
  return inputs[0];
}

void quantise_numbers(const OpContext& c) {
  const auto* numbers = c.inputs[0].as<int16_t>();
  write_wide(c, *c.inputs[0].exponent, [&](int64_t i) { return int64_t{numbers[i]}; });
}

}  // namespace

const Op kQuantiseInput = {.name = "quantise_input",
                           .infer_shape = infer_numbers,
                           .input_elements = kNumbers,
                           .integer = {.forward = {.run = quantise_numbers},
                                       .kernel = kernel_name<&kernels::KernelTable::wide>},
                           .fp32 = &fp32::kQuantiseInput};
const Op kNormaliseInput = {.name = "normalise_input",
                            .attributes = schema<InputAttributes>(kSchema),
                            .infer_shape = infer,
                            .input_elements = kPixels,
                            .integer = {.forward = {.run = forward},
                                        .kernel = kernel_name<&kernels::KernelTable::elementwise>},
                            .fp32 = &fp32::kNormaliseInput};

}  // namespace mantissa::ops
