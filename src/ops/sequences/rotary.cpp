// Rotary positions: queries and keys are turned by angles that grow with their position, so that
// scores depend on the distance. In integers: cosines and sines in Q30, exact sums of two products,
// rounded once. Gradients turn back.
#include "ops/sequences/rotary.h"

#include <string>

#include "kernels/kernel_table.h"
#include "ops/fp32.h"
#include "ops/kernel_name.h"
#include "ops/narrowing.h"
#include "ops/ops.h"
#include "ops/rows.h"

namespace mantissa::ops {
namespace {

constexpr AttributeSpec kRotarySchema[] = {
    whole<&RotaryAttributes::heads>("heads", 1, 1, 4096),
    whole<&RotaryAttributes::channels>("channels", 0, 0, kMostRowChannels),
    real<&RotaryAttributes::base>("base", 10000, kLeastBase, kMostBase),
    flag<&RotaryAttributes::interleaved>("interleaved", false),
    whole_list<&RotaryAttributes::factors>("factors", kFactorUnit, kMostFactor),
    whole<&RotaryAttributes::least_bits>("least_bits", 0, 0, 16)};

Result<Shape> infer_rotary(const Attributes& given, std::span<const Shape> inputs) {
  const auto& attributes = given.as<RotaryAttributes>();
  const bool has_starts = inputs.size() == kStartsOfRotary + 1;
  if ((inputs.size() != 1 && !has_starts) || inputs[0].rank < 2) {
    return invalid_input(
        "wants one [..., positions, C] input, and perhaps the starts of its segments");
  }
  const Shape& x = inputs[0];
  if (has_starts && (x.rank != 2 || inputs[kStartsOfRotary] != Shape{x[0]})) {
    return invalid_input("wants the start of the segment of each position of one sequence");
  }
  if (x.last() % attributes.heads != 0 || x.last() > kMostRowChannels) {
    return invalid_input("wants heads that divide the channels, at most " +
                         std::to_string(kMostRowChannels) + ", not " +
                         std::to_string(attributes.heads) + " heads and " +
                         std::to_string(x.last()) + " channels");
  }
  const int64_t of_head = x.last() / attributes.heads;
  const int64_t turned = attributes.channels == 0 ? of_head : attributes.channels;
  if (turned > of_head || turned % 2 != 0) {
    return invalid_input("turns pairs of a head's " + std::to_string(of_head) +
                         " channels, so not " + std::to_string(turned) + " of them");
  }
  if (x[x.rank - 2] > kMostPositions) {
    return invalid_input("wants at most " + std::to_string(kMostPositions) + " positions");
  }
  const auto factors = std::ssize(attributes.factors);
  if (factors > 1 && factors != turned / 2) {
    return invalid_input("turns " + std::to_string(turned / 2) + " pairs, and has " +
                         std::to_string(factors) + " factors; one for all, or one for each");
  }
  return x;
}

// Positions begin anew with each segment.
constexpr Element kRotaryElements[] = {Element::kMantissa, Element::kIndex};

// wide = a row of the value, turned, at 30 bits below its exponent.
void turn_row(const OpContext& c, const TurnedRow& row, const CircleTable& table,
              const Tensor& value, int64_t i, int64_t direction, int64_t* wide) {
  const int64_t at = position_of_row(c, row.positions, i) * row.pairs;
  kernels::with_wide_gradient_type(value.bits, [&](auto type) {
    row.turn(value.as<decltype(type)>() + i * row.channels, table.cosines + at, table.sines + at,
             int64_t{1} << kCircleBits, direction, wide);
  });
}

void rotary_forward(const OpContext& c) {
  const Tensor& x = c.inputs[0];
  const TurnedRow row(c.attributes<RotaryAttributes>(), x.shape);
  const CircleTable table = make_circle_table(c, row.positions);
  save_starts(c);
  const auto exponent_at = [&](int64_t i) { return x.row_exponent(i) - kCircleBits; };
  write_rows(c, exponent_at,
             [&](int64_t i, int, int64_t* wide) { turn_row(c, row, table, x, i, 1, wide); });
}

void rotary_backward(const OpContext& c) {
  const Tensor &from = c.grad_output(), &to = c.grad_inputs[0];
  const TurnedRow row(c.attributes<RotaryAttributes>(), to.shape);
  const CircleTable table = make_circle_table(c, row.positions);
  narrow_gradient(c, to, *from.exponent - kCircleBits,
                  [&](int shift, const kernels::PassCounts& counts) {
                    return narrow_rows(
                        c, to, true, shift,
                        [&](int64_t i, int64_t* wide) {
                          turn_row(c, row, table, from, i, -1, wide);
                        },
                        counts);
                  });
}

void emit_rotary_gradient(GradientEmitter& e) {
  e.emit(e.rows().grad_input, {e.grad_outputs(), e.saved(), e.grad_inputs()});
}

}  // namespace

const Op kRotary = {.name = "rotary",
                    .traits = {.takes = TakenExponents::kOfRows, .row_by_row = true},
                    .attributes = schema<RotaryAttributes>(kRotarySchema),
                    .bits = least_bits<RotaryAttributes>,
                    .infer_shape = infer_rotary,
                    .input_elements = kRotaryElements,
                    .integer = {.memory = rotary_memory,
                                .forward = {.run = rotary_forward, .prepare = prepare_rotary},
                                .grad_input = {.run = rotary_backward, .prepare = prepare_rotary},
                                .kernel = kernel_name<&kernels::KernelTable::wide>},
                    .emit_gradient = emit_rotary_gradient,
                    .fp32 = &fp32::kRotary};

}  // namespace mantissa::ops
