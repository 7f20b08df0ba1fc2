// Products of two values: of equal shapes, or of an image with one factor per channel (the
// gate of squeeze-and-excitation). Products are exact; gradients are exact products, or exact sums
// of them, narrowed once.
#include <algorithm>
#include <string>

#include "kernels/common/parallel_ranges.h"
#include "kernels/kernel_table.h"
#include "ops/attributes.h"
#include "ops/fp32.h"
#include "ops/gradient_sums.h"
#include "ops/kernel_name.h"
#include "ops/image_shape.h"
#include "ops/narrowing.h"
#include "ops/ops.h"
#include "ops/rows.h"
#include "ops/value_table.h"
#include "ops/wide_values.h"

namespace mantissa::ops {
namespace {

constexpr AttributeSpec kMultiplySchema[] = {
    whole<&WidthAttributes::least_bits>("least_bits", 0, 0, 16)};

// Whether b is a gate of a: [C] to [T, C], [H, W, C] or [D, H, W, C], or [1, ..., C] to the latter.
bool is_gate(const Shape& a, const Shape& b) { return a.count() != b.count(); }

Result<Shape> infer(const Attributes&, std::span<const Shape> inputs) {
  if (inputs.size() == 2) {
    const Shape &a = inputs[0], &b = inputs[1];
    const bool is_per_channel = b.count() == a.last() && b.last() == a.last();
    const bool gates = is_of_images(a) && is_per_channel &&
                       (b.rank == 1 || (b.rank == a.rank && !is_sequence(a)));
    if (a == b || gates) return a;
  }
  return invalid_input(
      "wants two inputs of one shape, or [H, W, C], [T, C] or [D, H, W, C] and a gate [C]");
}

// How elements of the two inputs are paired: in `images` parts of `size` elements of a; with a
// gate, in rows of `period` elements of a.
struct Rows {
  int64_t images = 1, size = 1, period = 0;
};

Rows rows_of(const Shape& a, const Shape& b) {
  const int64_t images = a[0];
  const bool gate = is_gate(a, b);
  return {images, a.count() / images, gate ? b.count() / images : 0};
}

// Calls pass(begin, end) on parts of a: of elements, or of whole images if there is a gate. It
// writes as many of `written`, whose wide values are wide_of(i).
template <typename Pass, typename WideOf>
kernels::WideStatistics over_parts(const OpContext& c, const Rows& rows, const Tensor& written,
                                   const kernels::PassCounts& counts, const Pass& pass,
                                   const WideOf& wide_of) {
  const auto counted = [&](int64_t begin, int64_t end, int64_t part) {
    const kernels::WideStatistics found = pass(begin, end);
    count_written(counts.wide_of(part), written, begin, end, wide_of);
    return found;
  };
  if (rows.period == 0) {
    return kernels::parallel_statistics(*c.kernel.pool, rows.images * rows.size,
                                        kernels::kElementsPerThread, counted);
  }
  return kernels::parallel_statistics(
      *c.kernel.pool, rows.images, 1, [&](int64_t first, int64_t last, int64_t part) {
        kernels::WideStatistics found;
        for (int64_t n = first; n < last; ++n)
          found += counted(n * rows.size, (n + 1) * rows.size, part);
        return found;
      });
}

// The place of the elements of b that pair with the elements of a from `begin` on.
int64_t at_gate(const Rows& rows, int64_t begin) {
  return rows.period == 0 ? begin : begin / rows.size * rows.period;
}

// The element of b that meets element i of a.
int64_t other_of(const Rows& rows, int64_t i) {
  return rows.period == 0 ? i : i / rows.size * rows.period + i % rows.size % rows.period;
}

// Rows with exponents of their own.
void forward_rows(const OpContext& c) {
  const Tensor &a = c.inputs[0], &b = c.inputs[1];
  const int64_t channels = a.shape.last();
  const auto exponent_at = [&](int64_t row) { return a.row_exponent(row) + b.row_exponent(row); };
  write_rows(c, exponent_at, [&](int64_t row, int, int64_t* wide) {
    const int64_t first = row * channels;
    c.kernel.table->wide->products({gradient_from(a, first), gradient_from(b, first), 0, wide}, 0,
                                   channels);
  });
}

void forward(const OpContext& c) {
  if (has_rows(c.output())) return forward_rows(c);
  const Tensor &a = c.inputs[0], &b = c.inputs[1];
  const Rows rows = rows_of(a.shape, b.shape);
  const int wide_exponent = *a.exponent + *b.exponent;
  const Mantissas of_a(a), of_b(b);
  const auto wide = [&](int64_t i) { return of_a[i] * of_b[other_of(rows, i)]; };
  const bool bytes = is_bytes(a) && is_bytes(b) && is_bytes(c.output());
  if (!bytes) return write_wide(c, wide_exponent, wide);
  calibrate(c, wide_exponent, wide);
  narrow_value(c, wide_exponent, [&](int8_t* out, int shift, const kernels::PassCounts& counts) {
    const auto pass = [&](int64_t begin, int64_t end) {
      const kernels::Multiply args{.a = a.as<int8_t>() + begin,
                                   .b = b.as<int8_t>() + at_gate(rows, begin),
                                   .period = rows.period,
                                   .shift = shift,
                                   .out = out == nullptr ? nullptr : out + begin,
                                   .bits = c.output().bits};
      return c.kernel.table->elementwise->multiply(args, 0, end - begin);
    };
    return over_parts(c, rows, c.output(), counts, pass, wide);
  });
}

// The same if rows have exponents of their own: all come to one exponent, so far below the largest
// that rows within 2^24 of it lose nothing. Products of 16 bits then stay below 2^55.
void scale_gradient_rows(const OpContext& c, const Tensor& grad_input, const Tensor& other) {
  constexpr int kBelowLargest = 24;
  const int64_t channels = other.shape.last();
  int largest = kExponentMin;
  for (int64_t row = 0; row < other.count() / channels; ++row) {
    largest = std::max(largest, other.row_exponent(row));
  }
  const int exponent = largest - kBelowLargest;
  const Mantissas grads(c.grad_output()), others(other);
  const bool has_kernel = c.grad_output().bits <= 16;
  const auto fill = [&](int64_t row, int64_t* wide) {
    const int shift = exponent - other.row_exponent(row);
    const int64_t first = row * channels;
    if (has_kernel) {
      return c.kernel.table->wide->products(
          {gradient_from(c.grad_output(), first), gradient_from(other, first), shift, wide}, 0,
          channels);
    }
    for (int64_t i = 0; i < channels; ++i) {
      wide[i] = rescale_rne(grads[first + i] * others[first + i], shift);
    }
  };
  narrow_gradient(c, grad_input, *c.grad_output().exponent + exponent,
                  [&](int shift, const kernels::PassCounts& counts) {
                    return narrow_rows(c, grad_input, true, shift, fill, counts);
                  });
}

// The gradient of one input if each element pairs with one of the other.
void scale_gradient(const OpContext& c, const Tensor& grad_input, const Tensor& other,
                    const Rows& rows) {
  if (has_rows(other)) return scale_gradient_rows(c, grad_input, other);
  const ValueTable factors = make_value_table([](int64_t q) { return q; });
  const Mantissas grads(c.grad_output()), others(other);
  const auto wide = [&](int64_t i) { return grads[i] * others[other_of(rows, i)]; };
  const auto narrow = [&](int shift, const kernels::PassCounts& counts) {
    if (!is_bytes(other)) return narrow_elements(c, grad_input, true, shift, wide, counts);
    const auto pass = [&](int64_t begin, int64_t end) {
      const kernels::ScaleGradient args{.grad_out = gradient_from(c.grad_output(), begin),
                                        .by = other.as<int8_t>() + at_gate(rows, begin),
                                        .factors = factors.data(),
                                        .period = rows.period,
                                        .shift = shift,
                                        .grad_in = gradient_from(grad_input, begin)};
      return c.kernel.table->elementwise->scale_gradient(args, 0, end - begin);
    };
    return over_parts(c, rows, grad_input, counts, pass, wide);
  };
  narrow_gradient(c, grad_input, *c.grad_output().exponent + *other.exponent, narrow);
}

// The gradient of a gate: sums over the pixels of each image, then narrowed.
void gate_gradient(const OpContext& c, const Tensor& grad_gate, const Tensor& image,
                   const Rows& rows) {
  auto* sums = reinterpret_cast<int64_t*>(c.memory.workspace);
  const Mantissas grads(c.grad_output()), values(image);
  kernels::parallel_ranges(
      *c.kernel.pool, rows.images, 1, [&](int64_t first, int64_t last, int64_t) {
        std::fill(sums + first * rows.period, sums + last * rows.period, 0);
        if (!is_bytes(image)) {
          for (int64_t i = first * rows.size; i < last * rows.size; ++i) {
            sums[other_of(rows, i)] += grads[i] * values[i];
          }
          return;
        }
        for (int64_t n = first; n < last; ++n) {
          c.kernel.table->elementwise->sum_products(
              gradient_from(c.grad_output(), n * rows.size), image.as<int8_t>() + n * rows.size,
              rows.period, 0, rows.size / rows.period, sums + n * rows.period);
        }
      });
  narrow_gradient(c, grad_gate, *c.grad_output().exponent + *image.exponent,
                  [&](int shift, const kernels::PassCounts& counts) {
                    return narrow_wide(c, sums, grad_gate, true, shift, counts);
                  });
}

void backward(const OpContext& c) {
  const Tensor &a = c.inputs[0], &b = c.inputs[1];
  const Rows rows = rows_of(a.shape, b.shape);
  if (!c.grad_inputs[0].empty()) scale_gradient(c, c.grad_inputs[0], b, rows);
  if (c.grad_inputs[1].empty()) return;
  if (rows.period != 0) {
    gate_gradient(c, c.grad_inputs[1], a, rows);
  } else {
    scale_gradient(c, c.grad_inputs[1], a, rows);
  }
}

OpMemory memory(const OpShapes& s, const PlanningContext&) {
  if (!is_gate(s.inputs[0], s.inputs[1])) return {};
  return {.grad_input = {.workspace_bytes = s.inputs[1].count() * int64_t{sizeof(int64_t)}}};
}

// The gradient of a gate is a sum over an image.
Status check(const OpShapes& s) {
  const Shape& image = s.inputs[0];
  const bool by_rows = !s.input_grids.empty() && s.input_grids[0].blocks == Blocks::kRow;
  if (by_rows && (is_gate(image, s.inputs[1]) || image.last() > kMostRowChannels)) {
    return invalid_input("with blocks=token wants two inputs of one shape, of at most " +
                         std::to_string(kMostRowChannels) + " channels");
  }
  // Rounded, so a bit below the limit of int64.
  return is_gate(image, s.inputs[1]) ? check_gradient_sums(s, 2 * image[1] * image[2]) : Status{};
}

}  // namespace

const Op kMultiply = {.name = "multiply",
                      .traits = {.sign = Sign::kKept,
                                 .takes = TakenExponents::kOfRows,
                                 .row_by_row = true},
                      .attributes = schema<WidthAttributes>(kMultiplySchema),
                      .bits = least_bits<WidthAttributes>,
                      .infer_shape = infer,
                      .integer = {.memory = memory,
                                  .check = check,
                                  .forward = {.run = forward},
                                  .grad_input = {.run = backward},
                                  .kernel = kernel_name<&kernels::KernelTable::elementwise>},
                      .emit_gradient = emit_gradient_by_inputs,
                      .fp32 = &fp32::kMultiply};

}  // namespace mantissa::ops
