// Concatenation of values along their channels. Inputs are brought to their largest exponent
// (METHODS section 0.4), so nothing is clipped; their gradients are slices of the output's.
#include <algorithm>

#include "kernels/common/parallel_ranges.h"
#include "ops/fp32.h"
#include "ops/narrowing.h"
#include "ops/ops.h"
#include "ops/wide_values.h"

namespace mantissa::ops {
namespace {

// Values of one shape up to their channels, at least one.
Result<Shape> infer(const Attributes&, std::span<const Shape> inputs) {
  if (inputs.empty() || inputs[0].rank == 0) {
    return invalid_input("wants at least one input, with channels");
  }
  Shape out = inputs[0];
  int64_t& channels = out.dims[out.rank - 1];
  for (size_t i = 1; i < inputs.size(); ++i) {
    Shape other = inputs[i];
    if (other.rank > 0) other.dims[other.rank - 1] = inputs[0].last();
    if (other != inputs[0]) {
      return invalid_input("wants inputs that differ in their channels only, not " +
                           to_string(inputs[0]) + " and " + to_string(inputs[i]));
    }
    channels += inputs[i].last();
  }
  return out;
}

// to[row, c] = rne(from[row, c] >> shift): rows of `channels` inside rows of `out_channels`.
template <typename From, typename To>
void place(const From* from, int64_t channels, int shift, int64_t out_channels, int64_t rows,
           To* to) {
  for (int64_t row = 0; row < rows; ++row, from += channels, to += out_channels) {
    if (shift == 0) {
      std::copy_n(from, channels, to);
      continue;
    }
    const int right =
        std::min(shift, 1 + 8 * int{sizeof(From)});  // from there on all is rounded away
    const int below_half = (1 << (right - 1)) - 1;
    for (int64_t c = 0; c < channels; ++c) {
      to[c] = static_cast<To>((from[c] + below_half + ((from[c] >> right) & 1)) >> right);
    }
  }
}

// Calls function(input, first channel) for each input, for the rows [begin, end) of each part.
template <typename Function>
void for_each_slice(const OpContext& c, std::span<const Tensor> slices, const Shape& whole,
                    Function&& function) {
  const int64_t channels = whole.last(), rows = whole.count() / channels;
  kernels::parallel_ranges(*c.kernel.pool, rows,
                           std::max<int64_t>(1, kernels::kElementsPerThread / channels),
                           [&](int64_t begin, int64_t end, int64_t) {
                             int64_t first = 0;
                             for (const Tensor& slice : slices) {
                               function(slice, first, begin, end);
                               first += slice.shape.last();
                             }
                           });
}

void forward(const OpContext& c) {
  int exponent = *c.inputs[0].exponent;
  for (const Tensor& input : c.inputs) exponent = std::max<int>(exponent, *input.exponent);
  const int64_t out_channels = c.output().shape.last();
  for_each_slice(c, c.inputs, c.output().shape,
                 [&](const Tensor& input, int64_t first, int64_t begin, int64_t end) {
                   const int64_t channels = input.shape.last();
                   kernels::with_value_type(input.bits, [&](auto from) {
                     kernels::with_value_type(c.output().bits, [&](auto to) {
                       place(input.as<decltype(from)>() + begin * channels, channels,
                             exponent - *input.exponent, out_channels, end - begin,
                             c.output().as<decltype(to)>() + begin * out_channels + first);
                     });
                   });
                 });
  *c.output().exponent = static_cast<int16_t>(exponent);
}

void backward(const OpContext& c) {
  const int64_t element = element_bytes(c.grad_output().type);
  const int64_t row_bytes = c.grad_output().shape.last() * element;
  for_each_slice(c, c.grad_inputs, c.grad_output().shape,
                 [&](const Tensor& slice, int64_t first, int64_t begin, int64_t end) {
                   if (slice.empty()) return;
                   const int64_t bytes = slice.shape.last() * element;
                   const auto* from = c.grad_output().as<std::byte>() + first * element;
                   for (int64_t row = begin; row < end; ++row) {
                     std::copy_n(from + row * row_bytes, bytes,
                                 slice.as<std::byte>() + row * bytes);
                   }
                 });
  for (const Tensor& slice : c.grad_inputs) {
    if (!slice.empty()) *slice.exponent = *c.grad_output().exponent;
  }
}

}  // namespace

const Op kConcat = {
    .name = "concat",
    .traits = {.narrowing = Narrowing::kPassed, .sign = Sign::kKept, .row_by_row = true},
    .infer_shape = infer,
    .integer = {.forward = {.run = forward}, .grad_input = {.run = backward}},
    .emit_gradient = emit_passed_gradient,
    .fp32 = &fp32::kConcat};

}  // namespace mantissa::ops
