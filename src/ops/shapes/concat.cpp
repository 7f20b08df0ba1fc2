// Concatenation of values along their channels, or of sequences along their positions. Inputs are
// brought to their largest exponent (METHODS section 0.4), so nothing is clipped; their gradients
// are slices of the output's.
#include <algorithm>

#include "kernels/common/parallel_ranges.h"
#include "ops/fp32.h"
#include "ops/narrowing.h"
#include "ops/ops.h"
#include "ops/shapes/joined_axis.h"
#include "ops/wide_values.h"

namespace mantissa::ops {
namespace {

// Values of one shape but for the joined axis, at least one.
template <int kDims>
Result<Shape> infer(const Attributes&, std::span<const Shape> inputs) {
  constexpr bool kChannels = kDims == 1;
  if (inputs.empty() || inputs[0].rank < kDims) {
    return invalid_input(kChannels ? "wants at least one input, with channels"
                                   : "wants at least one [..., positions, C] input");
  }
  Shape out = inputs[0];
  const int axis = out.rank - kDims;
  for (size_t i = 1; i < inputs.size(); ++i) {
    Shape other = inputs[i];
    if (other.rank == out.rank) other.dims[axis] = inputs[0][axis];
    if (other != inputs[0]) {
      return invalid_input(std::string("wants inputs that differ in their ") +
                           (kChannels ? "channels" : "positions") + " only, not " +
                           to_string(inputs[0]) + " and " + to_string(inputs[i]));
    }
    out.dims[axis] += inputs[i][axis];
  }
  return out;
}

// to[row, c] = rne(from[row, c] >> shift): rows of `size` inside rows of `out_size`.
template <typename From, typename To>
void place(const From* from, int64_t size, int shift, int64_t out_size, int64_t rows, To* to) {
  for (int64_t row = 0; row < rows; ++row, from += size, to += out_size) {
    if (shift == 0) {
      std::copy_n(from, size, to);
      continue;
    }
    const int right =
        std::min(shift, 1 + 8 * int{sizeof(From)});  // from there on all is rounded away
    const int below_half = (1 << (right - 1)) - 1;
    for (int64_t c = 0; c < size; ++c) {
      to[c] = static_cast<To>((from[c] + below_half + ((from[c] >> right) & 1)) >> right);
    }
  }
}

// Calls function(input, first element, begin, end) for each input, for the rows [begin, end) of
// each part. A row has all elements from the joined axis on.
template <int kDims, typename Function>
void for_each_part(const OpContext& c, std::span<const Tensor> parts, const Shape& whole,
                   Function&& function) {
  const int64_t size = row_size<kDims>(whole);
  kernels::parallel_ranges(*c.kernel.pool, whole.count() / size,
                           std::max<int64_t>(1, kernels::kElementsPerThread / size),
                           [&](int64_t begin, int64_t end, int64_t) {
                             int64_t first = 0;
                             for (const Tensor& part : parts) {
                               function(part, first, begin, end);
                               first += row_size<kDims>(part.shape);
                             }
                           });
}

template <int kDims>
void forward(const OpContext& c) {
  int exponent = *c.inputs[0].exponent;
  for (const Tensor& input : c.inputs) exponent = std::max<int>(exponent, *input.exponent);
  const int64_t out_size = row_size<kDims>(c.output().shape);
  for_each_part<kDims>(c, c.inputs, c.output().shape,
                       [&](const Tensor& input, int64_t first, int64_t begin, int64_t end) {
                         const int64_t size = row_size<kDims>(input.shape);
                         kernels::with_value_type(input.bits, [&](auto from) {
                           kernels::with_value_type(c.output().bits, [&](auto to) {
                             place(input.as<decltype(from)>() + begin * size, size,
                                   exponent - *input.exponent, out_size, end - begin,
                                   c.output().as<decltype(to)>() + begin * out_size + first);
                           });
                         });
                       });
  *c.output().exponent = static_cast<int16_t>(exponent);
}

template <int kDims>
void backward(const OpContext& c) {
  const int64_t element = element_bytes(c.grad_output().type);
  const int64_t row_bytes = row_size<kDims>(c.grad_output().shape) * element;
  for_each_part<kDims>(c, c.grad_inputs, c.grad_output().shape,
                       [&](const Tensor& part, int64_t first, int64_t begin, int64_t end) {
                         if (part.empty()) return;
                         const int64_t bytes = row_size<kDims>(part.shape) * element;
                         const auto* from = c.grad_output().as<std::byte>() + first * element;
                         for (int64_t row = begin; row < end; ++row) {
                           std::copy_n(from + row * row_bytes, bytes,
                                       part.as<std::byte>() + row * bytes);
                         }
                       });
  for (const Tensor& part : c.grad_inputs) {
    if (!part.empty()) *part.exponent = *c.grad_output().exponent;
  }
}

}  // namespace

const Op kConcat = {
    .name = "concat",
    .traits = {.narrowing = Narrowing::kPassed, .sign = Sign::kKept, .row_by_row = true},
    .infer_shape = infer<kOfChannels>,
    .integer = {.forward = {.run = forward<kOfChannels>},
                .grad_input = {.run = backward<kOfChannels>}},
    .emit_gradient = emit_passed_gradient,
    .fp32 = &fp32::kConcat};

const Op kConcatPositions = {
    .name = "concat_positions",
    .traits = {.narrowing = Narrowing::kPassed, .sign = Sign::kKept},
    .infer_shape = infer<kOfPositions>,
    .integer = {.forward = {.run = forward<kOfPositions>},
                .grad_input = {.run = backward<kOfPositions>}},
    .emit_gradient = emit_passed_gradient,
    .fp32 = &fp32::kConcatPositions};

}  // namespace mantissa::ops
