// Trained rows in front of a sequence: the class token of a vision transformer, or several. The
// gradient of these rows is exact sums over the sequences, rounded once.
#include <algorithm>
#include <string>

#include "kernels/common/parallel_ranges.h"
#include "kernels/kernel_table.h"
#include "ops/attributes.h"
#include "ops/fp32.h"
#include "ops/kernel_name.h"
#include "ops/narrowing.h"
#include "ops/ops.h"
#include "ops/rows.h"
#include "ops/sequences/row_table.h"
#include "ops/wide_values.h"

namespace mantissa::ops {
namespace {

constexpr AttributeSpec kPrependSchema[] = {
    whole<&PrependAttributes::rows>("rows", 1, 1, kMostPrepended),
    whole<&PrependAttributes::least_bits>("least_bits", 0, 0, 16)};

Result<Shape> infer_prepend(const Attributes& given, std::span<const Shape> inputs) {
  if (inputs.size() != 1 || inputs[0].rank < 2) {
    return invalid_input("wants one [..., positions, C] input");
  }
  Shape out = inputs[0];
  if (out.last() > kMostRowChannels) {
    return invalid_input("wants at most " + std::to_string(kMostRowChannels) + " channels");
  }
  out.dims[out.rank - 2] += given.as<PrependAttributes>().rows;
  return out;
}

std::vector<Parameter> prepend_parameters(const Attributes& given, std::span<const Shape> inputs) {
  return {table_of(given.as<PrependAttributes>().rows, inputs[0].last())};
}

// A row of the output: a row of the table, or of the input.
struct PrependedRow {
  bool is_trained;
  int64_t row;
  PrependedRow(int64_t i, int64_t trained, int64_t positions) {
    const int64_t sequence = i / (trained + positions), at = i % (trained + positions);
    is_trained = at < trained;
    row = is_trained ? at : sequence * positions + at - trained;
  }
};

void prepend_forward(const OpContext& c) {
  const Tensor &x = c.inputs[0], &table = c.parameters[0].mantissa, &out = c.output();
  const int64_t channels = x.shape.last(), positions = x.shape[x.shape.rank - 2];
  const int64_t trained = table.shape[0];
  const auto exponent_at = [&](int64_t i) {
    if (!has_rows(out)) return aligned_exponent(*x.exponent, least_exponent(table), kAlignBits16);
    const PrependedRow row(i, trained, positions);
    return row.is_trained ? int{table.block_exponent(row.row)} : x.row_exponent(row.row);
  };
  write_rows(c, exponent_at, [&](int64_t i, int exponent, int64_t* wide) {
    const PrependedRow row(i, trained, positions);
    if (!row.is_trained) return rescale_row(c, x, row.row, exponent, false, wide);
    c.kernel.table->wide->rescale({gradient_from(table, row.row * channels),
                                   exponent - table.block_exponent(row.row), false, wide},
                                  0, channels);
  });
}

void prepend_backward(const OpContext& c) {
  const Tensor &from = c.grad_output(), &to = c.grad_inputs[0];
  const int64_t element = element_bytes(to.type), channels = to.shape.last();
  const int64_t positions = to.shape[to.shape.rank - 2];
  const int64_t trained = from.shape[from.shape.rank - 2] - positions;
  const int64_t bytes = positions * channels * element;
  const int64_t skipped = trained * channels * element;
  for (int64_t i = 0; i < to.count() / (positions * channels); ++i) {
    std::copy_n(from.as<std::byte>() + i * (skipped + bytes) + skipped, bytes,
                to.as<std::byte>() + i * bytes);
  }
  *to.exponent = *from.exponent;
}

void prepend_backward_weights(const OpContext& c) {
  const Tensor &gradient = c.parameters[0].gradient, &from = c.grad_output();
  const int64_t sequence = from.shape[from.shape.rank - 2] * from.shape.last();
  const Mantissas grads(from);
  const int shift = *gradient.exponent - *from.exponent;
  for (int64_t i = 0; i < gradient.count(); ++i) {
    int64_t sum = 0;
    for (int64_t at = i; at < from.count(); at += sequence) sum += grads[at];
    int64_t& total = gradient.as<int64_t>()[i];
    total = accumulate(total, rescale_rne(sum, shift));
  }
}

void emit_prepend_gradient(GradientEmitter& e) {
  e.emit(e.rows().grad_weights, {e.grad_outputs(), e.sums()});
  e.emit(e.rows().grad_input, {e.grad_outputs(), e.grad_inputs(GradientWidth::kPassed)});
}

}  // namespace

const Op kPrependRows = {.name = "prepend_rows",
                         .traits = {.takes = TakenExponents::kOfRows},
                         .attributes = schema<PrependAttributes>(kPrependSchema),
                         .bits = least_bits<PrependAttributes>,
                         .infer_shape = infer_prepend,
                         .parameters = prepend_parameters,
                         .integer = {.forward = {.run = prepend_forward},
                                     .grad_input = {.run = prepend_backward},
                                     .grad_weights = {.run = prepend_backward_weights},
                                     .kernel = kernel_name<&kernels::KernelTable::wide>},
                         .emit_gradient = emit_prepend_gradient,
                         .fp32 = &fp32::kPrependRows};

}  // namespace mantissa::ops
