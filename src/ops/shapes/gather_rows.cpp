// Rows of a sequence by their places, and rows put at places of a longer one. Mantissas and the
// exponent pass on. The gradient of a row that is taken several times is the exact sum, rounded
// once; rows that are put have the gradient of their place.
#include <algorithm>
#include <string>

#include "ops/fp32.h"
#include "ops/ops.h"
#include "ops/sequences/row_table.h"
#include "ops/shapes/row_places.h"
#include "ops/wide_values.h"

namespace mantissa::ops {
namespace {

constexpr AttributeSpec kGatherSchema[] = {
    whole_list<&RowsAttributes::rows>("rows", 0, kMostRows - 1)};
constexpr AttributeSpec kScatterSchema[] = {
    whole_list<&RowsAttributes::rows>("rows", 0, kMostRows - 1),
    required_whole<&RowsAttributes::positions>("positions", 1, kMostRows)};
constexpr Element kIndexElements[] = {Element::kMantissa, Element::kIndex};

// How many rows are named, of so many positions.
Result<int64_t> count_of_rows(const RowsAttributes& attributes, std::span<const Shape> inputs,
                              int64_t positions) {
  if (inputs.empty() || inputs.size() > 2 || inputs[0].rank < 2) {
    return invalid_input("wants a [..., positions, C] input, and perhaps indices");
  }
  const WholeList& rows = attributes.rows;
  if (inputs.size() == 2) {
    if (!rows.empty()) return invalid_input("wants rows as a setting or as an input, not both");
    if (inputs[0].rank != 2 || inputs[1].rank != 1) {
      return invalid_input("wants [positions, C] and indices [rows] of an example");
    }
    return inputs[1][0];
  }
  if (rows.empty()) return invalid_input("wants rows, as a setting or as an input of indices");
  const int64_t largest = *std::max_element(rows.begin(), rows.end());
  if (largest < positions) return std::ssize(rows);
  return invalid_input("names row " + std::to_string(largest) + " of " +
                       std::to_string(positions) + " positions");
}

Result<Shape> infer_gather(const Attributes& given, std::span<const Shape> inputs) {
  const int64_t positions = inputs.empty() || inputs[0].rank < 2 ? 0 : positions_of(inputs[0]);
  MANTISSA_ASSIGN(const int64_t rows,
                  count_of_rows(given.as<RowsAttributes>(), inputs, positions));
  Shape out = inputs[0];
  out.dims[out.rank - 2] = rows;
  return out;
}

Result<Shape> infer_scatter(const Attributes& given, std::span<const Shape> inputs) {
  const auto& attributes = given.as<RowsAttributes>();
  MANTISSA_ASSIGN(const int64_t rows, count_of_rows(attributes, inputs, attributes.positions));
  if (rows != positions_of(inputs[0])) {
    return invalid_input("names places of " + std::to_string(rows) + " rows, and its input has " +
                         std::to_string(positions_of(inputs[0])));
  }
  WholeList sorted = attributes.rows;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end()) {
    return invalid_input("puts two rows at position " + std::to_string(*twice));
  }
  Shape out = inputs[0];
  out.dims[out.rank - 2] = attributes.positions;
  return out;
}

void gather_forward(const OpContext& c) {
  gather_all(c);
  *c.output().exponent = *c.inputs[0].exponent;
}

void gather_backward(const OpContext& c) {
  const Tensor& to = c.grad_inputs[0];
  const RowsOfPlaces by_place = rows_of_places(c);
  const Mantissas grads(c.grad_output());
  const int64_t channels = to.shape.last(), positions = positions_of(to.shape),
                rows = positions_of(c.grad_output().shape);
  write_wide_gradient(c, to, *c.grad_output().exponent, [&](int64_t i) {
    const int64_t first = i / channels / positions * rows;
    int64_t sum = 0;
    for (int32_t row = by_place.first[i / channels]; row >= 0; row = by_place.next[first + row]) {
      sum += grads[(first + row) * channels + i % channels];
    }
    return sum;
  });
}

void scatter_forward(const OpContext& c) {
  scatter_all(c);
  *c.output().exponent = *c.inputs[0].exponent;
}

void scatter_backward(const OpContext& c) {
  scatter_all_backward(c);
  *c.grad_inputs[0].exponent = *c.grad_output().exponent;
}

void emit_gather_gradient(GradientEmitter& e) {
  e.emit(e.rows().grad_input, {e.grad_outputs(), e.saved(), e.grad_inputs()});
}

void emit_scatter_gradient(GradientEmitter& e) {
  e.emit(e.rows().grad_input,
         {e.grad_outputs(), e.saved(), e.grad_inputs(GradientWidth::kPassed)});
}

}  // namespace

const Op kGatherRows = {
    .name = "gather_rows",
    .traits = {.narrowing = Narrowing::kPassed, .sign = Sign::kKept},
    .attributes = schema<RowsAttributes>(kGatherSchema),
    .infer_shape = infer_gather,
    .input_elements = kIndexElements,
    .integer = {.memory = gather_memory,
                .forward = {.run = gather_forward},
                .grad_input = {.run = gather_backward}},
    .emit_gradient = emit_gather_gradient,
    .fp32 = &fp32::kGatherRows};

const Op kScatterRows = {
    .name = "scatter_rows",
    .traits = {.narrowing = Narrowing::kPassed, .sign = Sign::kKept},
    .attributes = schema<RowsAttributes>(kScatterSchema),
    .infer_shape = infer_scatter,
    .input_elements = kIndexElements,
    .integer = {.memory = scatter_memory,
                .forward = {.run = scatter_forward},
                .grad_input = {.run = scatter_backward}},
    .emit_gradient = emit_scatter_gradient,
    .fp32 = &fp32::kScatterRows};

}  // namespace mantissa::ops
