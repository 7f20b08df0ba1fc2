#include "ops/fp32/losses/unit_vectors.h"

#include <algorithm>
#include <cmath>

#include "ops/fp32/losses/loss_parts.h"
#include "ops/loss.h"

namespace mantissa::ops::fp32 {
namespace {

// Programs without a backward pass have a workspace alone.
VectorRoom room_of(const OpContext& c) {
  return {c.memory.saved != nullptr ? c.memory.saved : c.memory.workspace, c.inputs[0].shape};
}

void normalise_vector(const OpContext& c, const VectorRoom& room, int64_t i) {
  const int64_t channels = c.inputs[0].shape.last();
  const float* const in = c.inputs[0].as<float>() + i * channels;
  double squares = 0;
  for (int64_t k = 0; k < channels; ++k) squares += static_cast<double>(in[k]) * in[k];
  room.inverse[i] = squares > 0 ? 1 / std::sqrt(squares) : 0;
  double* const out = room.vectors + i * channels;
  for (int64_t k = 0; k < channels; ++k) out[k] = in[k] * room.inverse[i];
}

}  // namespace

OpMemory vector_memory(const OpShapes& s, const PlanningContext&) {
  const int64_t n = s.inputs[0][0];
  const int64_t bytes = (s.inputs[0].count() + n * n + n) * int64_t{sizeof(double)};
  return {.saved_bytes = bytes,
          .forward = {.workspace_bytes = bytes},
          .grad_input = {.workspace_bytes = s.inputs[0].last() * int64_t{sizeof(double)}}};
}

double vector_product(const VectorRoom& room, int64_t channels, int64_t i, int64_t j) {
  double sum = 0;
  for (int64_t k = 0; k < channels; ++k) {
    sum += room.vectors[i * channels + k] * room.vectors[j * channels + k];
  }
  return sum;
}

void compare_all(const OpContext& c, CompareVector compare, double to_q24) {
  const VectorRoom room = room_of(c);
  const int64_t n = c.inputs[0].shape[0];
  count_rows(row_weights(c), n, *c.step.loss);
  for (int64_t i = 0; i < n; ++i) normalise_vector(c, room, i);
  for (int64_t i = 0; i < n; ++i) {
    add_loss(compare(c, room, i) * to_q24, *c.step.loss, c.step.totals->exponent_overflow);
  }
}

void vector_gradients(const OpContext& c, double divisor) {
  const VectorRoom room = room_of(c);
  const int64_t n = c.inputs[0].shape[0], channels = c.inputs[0].shape.last();
  auto* const direction = reinterpret_cast<double*>(c.memory.workspace);
  for (int64_t i = 0; i < n; ++i) {
    const double* const own = room.vectors + i * channels;
    double along = 0;
    std::fill_n(direction, channels, 0.0);
    for (int64_t j = 0; j < n; ++j) {
      const double slope = room.slopes[i * n + j] + room.slopes[j * n + i];
      for (int64_t k = 0; k < channels; ++k) direction[k] += slope * room.vectors[j * channels + k];
    }
    for (int64_t k = 0; k < channels; ++k) along += direction[k] * own[k];
    for (int64_t k = 0; k < channels; ++k) {
      c.grad_inputs[0].as<float>()[i * channels + k] = static_cast<float>(
          (direction[k] - along * own[k]) * room.inverse[i] / divisor);
    }
  }
}

}  // namespace mantissa::ops::fp32
