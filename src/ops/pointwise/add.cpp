// Add (residual sums) and the sum of gradients of a value with several readers.
#include <algorithm>

#include "kernels/common/parallel_ranges.h"
#include "kernels/kernel_table.h"
#include "numerics/exponent.h"
#include "ops/attributes.h"
#include "ops/fp32.h"
#include "ops/kernel_name.h"
#include "ops/narrowing.h"
#include "ops/ops.h"
#include "ops/rows.h"
#include "ops/wide_values.h"

namespace mantissa::ops {
namespace {

struct AddAttributes {
  int least_bits = 0;  // of the result's mantissas
};
constexpr AttributeSpec kAddSchema[] = {whole<&AddAttributes::least_bits>("least_bits", 0, 0, 16)};

Result<Shape> infer_add(const Attributes&, std::span<const Shape> inputs) {
  if (inputs.size() != 2 || inputs[0] != inputs[1]) {
    return invalid_input("wants two inputs of one shape");
  }
  return inputs[0];
}

kernels::AddWide wide_sum(const Tensor& a, const Tensor& b, int wide_exponent, const Tensor& out,
                          int shift) {
  return {.a = gradient_of(a),
          .b = gradient_of(b),
          .shift_a = wide_exponent - *a.exponent,
          .shift_b = wide_exponent - *b.exponent,
          .shift = shift,
          .out = gradient_of(out)};
}

// Values of 16 bits; wide_of(i) is their sum.
template <typename WideOf>
void add_words(const OpContext& c, int wide_exponent, const WideOf& wide_of) {
  calibrate(c, wide_exponent, wide_of);
  narrow_by_passes(
      c, wide_exponent,
      [&](bool writes, int shift, const kernels::PassCounts& counts) {
        if (shift < 0)
          return narrow_elements(c, c.output(), writes, shift, wide_of);  // it is fixed
        kernels::AddWide args =
            wide_sum(c.inputs[0], c.inputs[1], wide_exponent, c.output(), shift);
        args.relu = c.mode.relu;
        if (!writes) args.out.data = nullptr;
        return write_pieces(
            c, c.output(), c.output().count(), kernels::kElementsPerThread, counts,
            [&](int64_t begin, int64_t end) {
              return c.kernel.table->elementwise->add_wide(args, begin, end);
            },
            wide_of);
      },
      64);
}

void add_rows(const OpContext& c) {
  const Tensor &a = c.inputs[0], &b = c.inputs[1];
  const int64_t channels = c.output().shape.last();
  const auto exponent_at = [&](int64_t row) {
    return aligned_exponent(a.row_exponent(row), b.row_exponent(row), kAlignBits16);
  };
  write_rows(c, exponent_at, [&](int64_t row, int exponent, int64_t* wide) {
    rescale_row(c, a, row, exponent, false, wide);
    rescale_row(c, b, row, exponent, true, wide);
    if (!c.mode.relu) return;
    for (int64_t i = 0; i < channels; ++i) wide[i] = std::max<int64_t>(0, wide[i]);
  });
}

// The kernel's sum of bytes, rounded half up; no addend is shifted right.
kernels::WideStatistics add_half_up(const kernels::Add& add, int64_t begin, int64_t end) {
  const int8_t* __restrict a = add.a;
  const int8_t* __restrict b = add.b;
  int8_t* __restrict out = add.out;
  const int32_t unit_a = 1 << -add.shift_a, unit_b = 1 << -add.shift_b;
  const int right = std::clamp(add.shift, 0, 30), half = right > 0 ? 1 << (right - 1) : 0;
  const int32_t up = 1 << std::clamp(-add.shift, 0, 7);  // from there on all but 0 is clipped
  const int32_t floor = add.relu ? 0 : INT32_MIN;
  const auto limit = static_cast<int32_t>(mantissa_limit(add.bits));
  int32_t low = 0, high = 0;
  int64_t saturated = 0;
  for (int64_t i = begin; i < end; ++i) {
    const int32_t sum = std::max(floor, a[i] * unit_a + b[i] * unit_b);
    low = std::min(low, sum);
    high = std::max(high, sum);
    if (out == nullptr) continue;
    const int32_t rounded = (sum * up + half) >> right;
    const int32_t narrow = std::clamp(rounded, -limit, limit);
    saturated += narrow != rounded;
    out[i] = static_cast<int8_t>(narrow);
  }
  return {std::max(magnitude(low), magnitude(high)), saturated};
}

void add_forward(const OpContext& c) {
  if (has_rows(c.output())) return add_rows(c);
  const Tensor &a = c.inputs[0], &b = c.inputs[1];
  const bool bytes = is_bytes(a) && is_bytes(b) && is_bytes(c.output());
  const int wide_exponent =
      aligned_exponent(*a.exponent, *b.exponent, bytes ? kAlignBits8 : kAlignBits16);
  const int shift_a = wide_exponent - *a.exponent, shift_b = wide_exponent - *b.exponent;
  const Mantissas of_a(a), of_b(b);
  const auto wide = [&](int64_t i) {
    const int64_t sum = rescale_rne(of_a[i], shift_a) + rescale_rne(of_b[i], shift_b);
    return c.mode.relu ? std::max<int64_t>(0, sum) : sum;
  };
  const bool has_half_up = bytes && shift_a <= 0 && shift_b <= 0;
  if (c.mode.half_up && !has_half_up) return write_half_up(c, wide_exponent, wide);
  if (a.type == DataType::kInt16 && b.type == DataType::kInt16) {
    return add_words(c, wide_exponent, wide);
  }
  if (!bytes) return write_wide(c, wide_exponent, wide);
  calibrate(c, wide_exponent, wide);
  kernels::Add add{.a = a.as<int8_t>(),
                   .b = b.as<int8_t>(),
                   .shift_a = shift_a,
                   .shift_b = shift_b,
                   .relu = c.mode.relu,
                   .bits = c.output().bits};
  narrow_value(c, wide_exponent, [&](int8_t* out, int shift, const kernels::PassCounts& counts) {
    add.out = out;
    add.shift = shift;
    return write_pieces(
        c, c.output(), c.output().count(), kernels::kElementsPerThread, counts,
        [&](int64_t begin, int64_t end) {
          if (c.mode.half_up) return add_half_up(add, begin, end);
          return c.kernel.table->elementwise->add(add, begin, end);
        },
        wide);
  });
}

// Both inputs receive this gradient (they share one buffer).
void add_backward(const OpContext& c) {
  const Tensor& grad_input = c.grad_inputs[0].empty() ? c.grad_inputs[1] : c.grad_inputs[0];
  kernels::parallel_ranges(*c.kernel.pool, grad_input.count(), kernels::kElementsPerThread,
                           [&](int64_t begin, int64_t end, int64_t) {
                             if (c.mode.relu)
                               return mask_gradient(c, c.output(), grad_input, begin, end);
                             const int64_t bytes = element_bytes(grad_input.type);
                             std::copy_n(c.grad_output().as<std::byte>() + begin * bytes,
                                         (end - begin) * bytes,
                                         grad_input.as<std::byte>() + begin * bytes);
                           });
  *grad_input.exponent = *c.grad_output().exponent;
}

// The wide sum of elements, brought to this exponent.
auto sum_at(const Tensor& a, const Tensor& b, int wide_exponent) {
  return [of_a = Mantissas(a), of_b = Mantissas(b), shift_a = wide_exponent - *a.exponent,
          shift_b = wide_exponent - *b.exponent](int64_t i) {
    return rescale_rne(of_a[i], shift_a) + rescale_rne(of_b[i], shift_b);
  };
}

// Gradients of 32 bits, or of two widths.
void sum_wide_gradients(const OpContext& c) {
  const Tensor &a = c.inputs[0], &b = c.inputs[1], &sum = c.grad_inputs[0];
  const int wide_exponent = aligned_exponent(*a.exponent, *b.exponent, kAlignBits32);
  write_wide_gradient(c, sum, wide_exponent, sum_at(a, b, wide_exponent));
}

// grad_inputs[0] = inputs[0] + inputs[1], all gradients of one value.
void sum_gradients(const OpContext& c) {
  const Tensor &a = c.inputs[0], &b = c.inputs[1], &sum = c.grad_inputs[0];
  if (a.type != b.type || a.bits > 16) return sum_wide_gradients(c);
  const int wide_exponent = aligned_exponent(*a.exponent, *b.exponent, kAlignBits16);
  narrow_gradient(c, sum, wide_exponent, [&](int shift, const kernels::PassCounts& counts) {
    const kernels::AddWide args = wide_sum(a, b, wide_exponent, sum, shift);
    return write_pieces(
        c, sum, sum.count(), kernels::kElementsPerThread, counts,
        [&](int64_t begin, int64_t end) {
          return c.kernel.table->elementwise->add_wide(args, begin, end);
        },
        sum_at(a, b, wide_exponent));
  });
}

void emit_add_gradient(GradientEmitter& e) {
  e.emit(e.rows().grad_input,
         {e.outputs_if_relu(), e.grad_outputs(), e.shared_grad_input(GradientWidth::kPassed)});
}

}  // namespace

const Op kAdd = {.name = "add",
                 .traits = {.sign = Sign::kKept,
                            .takes = TakenExponents::kOfRows,
                            .row_by_row = true,
                            .applies_relu = true},
                 .attributes = schema<AddAttributes>(kAddSchema),
                 .bits = least_bits<AddAttributes>,
                 .infer_shape = infer_add,
                 .integer = {.forward = {.run = add_forward},
                             .grad_input = {.run = add_backward},
                             .kernel = kernel_name<&kernels::KernelTable::elementwise>},
                 .emit_gradient = emit_add_gradient,
                 .fp32 = &fp32::kAdd};

const Op kSumGradients = {.name = "sum_gradients",
                          .infer_shape = infer_add,
                          .integer = {.grad_input = {.run = sum_gradients},
                                      .kernel = kernel_name<&kernels::KernelTable::elementwise>},
                          .fp32 = &fp32::kSumGradients};

}  // namespace mantissa::ops
