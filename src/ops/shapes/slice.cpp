// Some channels of a value, one after the other, of all positions or of one. Mantissas and the
// exponent pass on; the gradient passes on to these channels, and the others get zeros.
#include <algorithm>
#include <cstring>

#include "kernels/common/parallel_ranges.h"
#include "ops/attributes.h"
#include "ops/fp32.h"
#include "ops/ops.h"
#include "ops/rows.h"
#include "ops/shapes/sliced_row.h"

namespace mantissa::ops {
namespace {

constexpr AttributeSpec kSchema[] = {
    whole<&SliceAttributes::first>("first", 0, 0, INT64_MAX),
    required_whole<&SliceAttributes::channels>("channels", 1, INT64_MAX),
    whole<&SliceAttributes::position>("position", -1, -1, INT64_MAX)};

Error no_position(int64_t position, const Shape& input) {
  return invalid_input("wants position " + std::to_string(position) +
                       " of a [..., positions, C] input, not of " + to_string(input));
}

Result<Shape> infer(const Attributes& given, std::span<const Shape> inputs) {
  const auto& attributes = given.as<SliceAttributes>();
  if (inputs.size() != 1 || inputs[0].rank == 0) return invalid_input("wants one input");
  const int64_t all = inputs[0].last(), first = attributes.first;
  const int64_t channels = attributes.channels;
  if (first >= all || channels > all - first) {
    return invalid_input("wants channels from " + std::to_string(first) + " on, " +
                         std::to_string(channels) + " of them, and its input has " +
                         std::to_string(all));
  }
  Shape out = inputs[0];
  const int64_t position = attributes.position;
  if (position >= 0) {
    if (out.rank < 2 || position >= out[out.rank - 2]) return no_position(position, out);
    out.dims[--out.rank] = 1;
  }
  out.dims[out.rank - 1] = channels;
  return out;
}

// Calls row(whole, slice) with the bytes of each row of both.
template <typename Row>
void for_each_row(const OpContext& c, const Tensor& whole, const Tensor& slice, const Row& row) {
  const int64_t element = element_bytes(whole.type);
  const int64_t size = sliced_row(c.attributes<SliceAttributes>(), whole.shape).size;
  const int64_t whole_bytes = size * element, slice_bytes = slice.shape.last() * element;
  kernels::parallel_ranges(*c.kernel.pool, whole.count() / size,
                           std::max<int64_t>(1, kernels::kBytesPerThread / whole_bytes),
                           [&](int64_t begin, int64_t end, int64_t) {
                             for (int64_t i = begin; i < end; ++i) {
                               row(whole.as<std::byte>() + i * whole_bytes,
                                   slice.as<std::byte>() + i * slice_bytes);
                             }
                           });
}

void forward(const OpContext& c) {
  const Tensor &in = c.inputs[0], &out = c.output();
  const int64_t element = element_bytes(in.type);
  const SlicedRow sliced = sliced_row(c.attributes<SliceAttributes>(), in.shape);
  const int64_t first = sliced.first * element;
  const auto bytes = static_cast<size_t>(out.shape.last() * element);
  for_each_row(c, in, out, [&](const std::byte* whole, std::byte* slice) {
    std::memcpy(slice, whole + first, bytes);
  });
  if (!has_rows(in)) return void(*out.exponent = *in.exponent);
  // Channels of each row of a sequence; or whole rows of the input, or of the value that it shows as
  // one row (plan/passes/check_network.cpp allows no others). The first dimension is the examples.
  const bool has_positions = in.shape.rank > 2;
  const bool keeps_rows = has_positions && c.attributes<SliceAttributes>().position < 0;
  const int64_t channels = out.shape.last(), rows = keeps_rows ? 1 : sliced.size / channels;
  const int64_t skipped = keeps_rows ? 0 : sliced.first / channels;
  for (int64_t row = 0; row < out.count() / channels; ++row) {
    out.row_exponents[row] = in.row_exponents[row * rows + skipped];
  }
  set_largest_row_exponent(c);
}

void backward(const OpContext& c) {
  const Tensor &grad_input = c.grad_inputs[0], &grad_output = c.grad_output();
  const int64_t element = element_bytes(grad_input.type);
  const SlicedRow sliced = sliced_row(c.attributes<SliceAttributes>(), grad_input.shape);
  const int64_t first = sliced.first * element;
  const int64_t bytes = grad_output.shape.last() * element;
  const int64_t rest = sliced.size * element - first - bytes;
  for_each_row(c, grad_input, grad_output, [&](std::byte* whole, const std::byte* slice) {
    std::memset(whole, 0, static_cast<size_t>(first));
    std::memcpy(whole + first, slice, static_cast<size_t>(bytes));
    std::memset(whole + first + bytes, 0, static_cast<size_t>(rest));
  });
  *grad_input.exponent = *grad_output.exponent;
}

}  // namespace

const Op kSlice = {
    .name = "slice",
    .traits = {.narrowing = Narrowing::kPassed, .sign = Sign::kKept, .row_by_row = true},
    .attributes = schema<SliceAttributes>(kSchema),
    .infer_shape = infer,
    .integer = {.forward = {.run = forward}, .grad_input = {.run = backward}},
    .emit_gradient = emit_passed_gradient,
    .fp32 = &fp32::kSlice};

}  // namespace mantissa::ops
