// Positions that are added to a sequence: a trained row for each, or sines and cosines.
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
#include "ops/sequences/angles.h"
#include "ops/sequences/row_table.h"
#include "ops/wide_values.h"

namespace mantissa::ops {
namespace {

struct PositionAttributes {
  int64_t positions = 0;
  int least_bits = 0;  // of the result's mantissas
};

constexpr AttributeSpec kPositionSchema[] = {
    required_whole<&PositionAttributes::positions>("positions", 1, kMostRows),
    whole<&PositionAttributes::least_bits>("least_bits", 0, 0, 16)};

Result<Shape> infer_positions(const Attributes& given, std::span<const Shape> inputs) {
  const auto& attributes = given.as<PositionAttributes>();
  if (inputs.size() != 1 || inputs[0].rank < 2) {
    return invalid_input("wants one [..., positions, C] input");
  }
  const Shape& x = inputs[0];
  if (x[x.rank - 2] > attributes.positions) {
    return invalid_input("has " + std::to_string(attributes.positions) +
                         " positions, and its input " + std::to_string(x[x.rank - 2]));
  }
  if (x.last() > kMostRowChannels) {
    return invalid_input("wants at most " + std::to_string(kMostRowChannels) + " channels");
  }
  return x;
}

std::vector<Parameter> position_parameters(const Attributes& given, std::span<const Shape> inputs) {
  const auto& attributes = given.as<PositionAttributes>();
  return {table_of(attributes.positions, inputs[0].last())};
}

void position_forward(const OpContext& c) {
  const Tensor &x = c.inputs[0], &table = c.parameters[0].mantissa;
  const int64_t channels = x.shape.last(), positions = x.shape[x.shape.rank - 2];
  const int least = least_exponent(table);
  const auto exponent_at = [&](int64_t row) {
    return aligned_exponent(x.row_exponent(row), least, kAlignBits16);
  };
  write_rows(c, exponent_at, [&](int64_t row, int wide_exponent, int64_t* wide) {
    const int64_t position = c.step.scalars->position + row % positions;
    rescale_row(c, x, row, wide_exponent, false, wide);
    c.kernel.table->wide->rescale({gradient_from(table, position * channels),
                                   wide_exponent - table.block_exponent(position), true, wide},
                                  0, channels);
  });
}

void position_backward(const OpContext& c) {
  const Tensor &from = c.grad_output(), &to = c.grad_inputs[0];
  std::copy_n(from.as<std::byte>(), to.count() * element_bytes(to.type), to.as<std::byte>());
  *to.exponent = *from.exponent;
}

void position_backward_weights(const OpContext& c) {
  const Tensor& gradient = c.parameters[0].gradient;
  const Shape& shape = c.grad_output().shape;
  const int64_t channels = shape.last(), size = shape[shape.rank - 2] * channels;
  const int64_t count = c.grad_output().count();
  const Mantissas grads(c.grad_output());
  const int shift = *gradient.exponent - *c.grad_output().exponent;
  kernels::parallel_ranges(*c.kernel.pool, size, kernels::kElementsPerThread,
                           [&](int64_t begin, int64_t end, int64_t) {
                             for (int64_t i = begin; i < end; ++i) {
                               int64_t sum = 0;
                               for (int64_t at = i; at < count; at += size) sum += grads[at];
                               int64_t& total = gradient.as<int64_t>()[i];
                               total = accumulate(total, rescale_rne(sum, shift));
                             }
                           });
}

void emit_position_gradient(GradientEmitter& e) {
  e.emit(e.rows().grad_weights, {e.grad_outputs(), e.sums()});
  e.emit(e.rows().grad_input, {e.grad_outputs(), e.grad_inputs(GradientWidth::kPassed)});
}

constexpr AttributeSpec kSinusoidalSchema[] = {
    real<&SinusoidalAttributes::base>("base", 10000, kLeastBase, kMostBase),
    flag<&SinusoidalAttributes::interleaved>("interleaved", true),
    whole<&SinusoidalAttributes::least_bits>("least_bits", 0, 0, 16)};

Result<Shape> infer_sinusoidal(const Attributes&, std::span<const Shape> inputs) {
  if (inputs.size() != 1 || inputs[0].rank < 2) {
    return invalid_input("wants one [..., positions, C] input");
  }
  const Shape& x = inputs[0];
  if (x.last() % 2 != 0 || x.last() > kMostRowChannels) {
    return invalid_input("wants an even number of channels, at most " +
                         std::to_string(kMostRowChannels) + ", not " + std::to_string(x.last()));
  }
  if (x[x.rank - 2] > kMostPositions) {
    return invalid_input("wants at most " + std::to_string(kMostPositions) + " positions");
  }
  return x;
}

void sinusoidal_forward(const OpContext& c) {
  const Tensor& x = c.inputs[0];
  const int64_t pairs = x.shape.last() / 2, positions = x.shape[x.shape.rank - 2];
  const CircleTable table = make_circle_table(c, positions);
  const PairPlaces places(c.attributes<SinusoidalAttributes>().interleaved, pairs);
  const auto exponent_at = [&](int64_t row) {
    return aligned_exponent(x.row_exponent(row), -kCircleBits, kAlignBits16);
  };
  write_rows(c, exponent_at, [&](int64_t row, int wide_exponent, int64_t* wide) {
    rescale_row(c, x, row, wide_exponent, false, wide);
    const int shift = wide_exponent + kCircleBits;
    const int64_t at = row % positions * pairs;
    for (int64_t i = 0; i < pairs; ++i) {
      wide[places.first(i)] += rescale_rne(table.sines[at + i], shift);
      wide[places.second(i)] += rescale_rne(table.cosines[at + i], shift);
    }
  });
}

}  // namespace

const Op kPositionEmbedding = {.name = "position_embedding",
                               .traits = {.takes = TakenExponents::kOfRows, .row_by_row = true},
                               .attributes = schema<PositionAttributes>(kPositionSchema),
                               .bits = least_bits<PositionAttributes>,
                               .infer_shape = infer_positions,
                               .parameters = position_parameters,
                               .integer = {.forward = {.run = position_forward},
                                           .grad_input = {.run = position_backward},
                                           .grad_weights = {.run = position_backward_weights},
                                           .kernel = kernel_name<&kernels::KernelTable::wide>},
                               .emit_gradient = emit_position_gradient,
                               .fp32 = &fp32::kPositionEmbedding};

const Op kSinusoidalPositions = {
    .name = "sinusoidal_positions",
    .traits = {.takes = TakenExponents::kOfRows, .row_by_row = true},
    .attributes = schema<SinusoidalAttributes>(kSinusoidalSchema),
    .bits = least_bits<SinusoidalAttributes>,
    .infer_shape = infer_sinusoidal,
    .integer = {.memory = sinusoidal_memory,
                .forward = {.run = sinusoidal_forward, .prepare = prepare_sinusoidal},
                .grad_input = {.run = position_backward},
                .kernel = kernel_name<&kernels::KernelTable::wide>},
    .emit_gradient = emit_passed_gradient,
    .fp32 = &fp32::kSinusoidalPositions};

}  // namespace mantissa::ops
