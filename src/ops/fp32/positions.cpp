// Sinusoidal and rotary positions in fp32, from the integers' cosines and sines; and trained rows in
// front of a sequence.
#include <algorithm>

#include "ops/attributes.h"
#include "ops/fp32.h"
#include "ops/sequences/rotary.h"

namespace mantissa::ops::fp32 {
namespace {

constexpr float kUnit = 1.0F / (1 << kCircleBits);

void sinusoidal(const OpContext& c) {
  const Shape& shape = c.output().shape;
  const int64_t channels = shape.last(), pairs = channels / 2, positions = shape[shape.rank - 2];
  const CircleTable table = make_circle_table(c, positions);
  const PairPlaces places(c.attributes<SinusoidalAttributes>().interleaved, pairs);
  for_images(c, c.output().count() / channels, [&](int64_t row) {
    const float* in = c.inputs[0].as<float>() + row * channels;
    float* out = c.output().as<float>() + row * channels;
    const int64_t at = row % positions * pairs;
    for (int64_t i = 0; i < pairs; ++i) {
      const int64_t first = places.first(i), second = places.second(i);
      out[first] = in[first] + static_cast<float>(table.sines[at + i]) * kUnit;
      out[second] = in[second] + static_cast<float>(table.cosines[at + i]) * kUnit;
    }
  });
}

void sinusoidal_backward(const OpContext& c) {
  std::copy_n(c.grad_output().as<float>(), c.grad_inputs[0].count(), c.grad_inputs[0].as<float>());
}

// Turns all rows: the integers of the table are exact in floats but for their last bits.
void turn_rows(const OpContext& c, const Tensor& from, const Tensor& to, float direction) {
  const TurnedRow row(c.attributes<RotaryAttributes>(), to.shape);
  const CircleTable table = make_circle_table(c, row.positions);
  for_images(c, to.count() / row.channels, [&](int64_t i) {
    const int64_t at = position_of_row(c, row.positions, i) * row.pairs;
    float* const out = to.as<float>() + i * row.channels;
    row.turn(from.as<float>() + i * row.channels, table.cosines + at, table.sines + at,
             1.0F / kUnit, direction, out);
    for (int64_t k = 0; k < row.channels; ++k) out[k] *= kUnit;
  });
}

void rotary(const OpContext& c) {
  save_starts(c);
  turn_rows(c, c.inputs[0], c.output(), 1);
}

void rotary_backward(const OpContext& c) {
  turn_rows(c, c.grad_output(), c.grad_inputs[0], -1);
}

// The elements of a sequence's trained rows, and of all its rows.
struct PrependedSizes {
  int64_t trained, all;
  PrependedSizes(const Shape& rows, const Shape& whole)
      : trained(rows.count()), all(whole[whole.rank - 2] * whole.last()) {}
};

void prepend(const OpContext& c) {
  const Tensor& table = c.parameters[0].mantissa;
  const PrependedSizes sizes(table.shape, c.output().shape);
  const int64_t rest = sizes.all - sizes.trained;
  for_images(c, c.output().count() / sizes.all, [&](int64_t i) {
    float* const out = c.output().as<float>() + i * sizes.all;
    std::copy_n(table.as<float>(), sizes.trained, out);
    std::copy_n(c.inputs[0].as<float>() + i * rest, rest, out + sizes.trained);
  });
}

void prepend_backward(const OpContext& c) {
  const int64_t rest = c.grad_inputs[0].shape[c.grad_inputs[0].shape.rank - 2] *
                       c.grad_inputs[0].shape.last();
  const Shape& whole = c.grad_output().shape;
  const int64_t all = whole[whole.rank - 2] * whole.last();
  for_images(c, c.grad_output().count() / all, [&](int64_t i) {
    std::copy_n(c.grad_output().as<float>() + i * all + all - rest, rest,
                c.grad_inputs[0].as<float>() + i * rest);
  });
}

void prepend_backward_weights(const OpContext& c) {
  const Tensor& gradient = c.parameters[0].gradient;
  const PrependedSizes sizes(gradient.shape, c.grad_output().shape);
  for (int64_t i = 0; i < sizes.trained; ++i) {
    double sum = 0;
    for (int64_t at = i; at < c.grad_output().count(); at += sizes.all) {
      sum += c.grad_output().as<float>()[at];
    }
    gradient.as<float>()[i] += static_cast<float>(sum);
  }
}

}  // namespace

const OpRows kPrependRows = {.forward = {.run = prepend},
                             .grad_input = {.run = prepend_backward},
                             .grad_weights = {.run = prepend_backward_weights},
                             .kernel = loops_name};
const OpRows kSinusoidalPositions = {
    .memory = sinusoidal_memory,
    .forward = {.run = sinusoidal, .prepare = prepare_sinusoidal},
    .grad_input = {.run = sinusoidal_backward},
    .kernel = loops_name};
const OpRows kRotary = {.memory = rotary_memory,
                        .forward = {.run = rotary, .prepare = prepare_rotary},
                        .grad_input = {.run = rotary_backward, .prepare = prepare_rotary},
                        .kernel = loops_name};

}  // namespace mantissa::ops::fp32
