// Supervised contrast in fp32, in double (ops/losses/contrastive.cpp).
#include <algorithm>
#include <cmath>

#include "ops/fp32.h"
#include "ops/fp32/loss_parts.h"
#include "ops/loss.h"
#include "ops/losses/contrastive.h"

namespace mantissa::ops::fp32 {
namespace {

// Forward to backward: vectors of length 1, gradients of their products, 1 / the lengths.
struct ContrastRoom {
  double *vectors, *slopes, *inverse;
  ContrastRoom(std::byte* base, const Shape& shape)
      : vectors(reinterpret_cast<double*>(base)),
        slopes(vectors + shape.count()),
        inverse(slopes + shape[0] * shape[0]) {}
  static int64_t bytes(const Shape& shape) {
    return (shape.count() + shape[0] * shape[0] + shape[0]) * int64_t{sizeof(double)};
  }
};

// Programs without a backward pass have a workspace alone.
ContrastRoom room_of(const OpContext& c) {
  return {c.memory.saved != nullptr ? c.memory.saved : c.memory.workspace, c.inputs[0].shape};
}

OpMemory contrast_memory(const OpShapes& s, const PlanningContext&) {
  const int64_t bytes = ContrastRoom::bytes(s.inputs[0]);
  return {.saved_bytes = bytes,
          .forward = {.workspace_bytes = bytes},
          .grad_input = {.workspace_bytes = s.inputs[0].last() * int64_t{sizeof(double)}}};
}

Status check_vectors(const OpShapes& s) {
  if (s.inputs[0][0] <= kMostVectors) return {};
  return invalid_input("compares at most " + std::to_string(kMostVectors) +
                       " examples, and a micro-batch has " + std::to_string(s.inputs[0][0]));
}

void normalise_vector(const OpContext& c, const ContrastRoom& room, int64_t i) {
  const int64_t channels = c.inputs[0].shape.last();
  const float* const in = c.inputs[0].as<float>() + i * channels;
  double squares = 0;
  for (int64_t k = 0; k < channels; ++k) squares += static_cast<double>(in[k]) * in[k];
  room.inverse[i] = squares > 0 ? 1 / std::sqrt(squares) : 0;
  double* const out = room.vectors + i * channels;
  for (int64_t k = 0; k < channels; ++k) out[k] = in[k] * room.inverse[i];
}

double compare_vectors(const OpContext& c, const ContrastRoom& room, const Friends& friends,
                       int64_t i) {
  const double temperature = c.attributes<ContrastiveAttributes>().temperature;
  const int64_t n = friends.count, channels = c.inputs[0].shape.last(), own = friends.of(i);
  double* const row = room.slopes + i * n;
  if (own == 0) {
    std::fill_n(row, n, 0.0);
    return 0;
  }
  int64_t nearest = -1;
  for (int64_t j = 0; j < n; ++j) {
    if (!friends.are_compared(i, j)) continue;
    row[j] = 0;
    for (int64_t k = 0; k < channels; ++k) {
      row[j] += room.vectors[i * channels + k] * room.vectors[j * channels + k];
    }
    if (nearest < 0 || row[j] > row[nearest]) nearest = j;
  }
  c.step.loss->correct += friends.are(i, nearest);
  const double largest = row[nearest];
  double sum = 0, lost = 0;
  for (int64_t j = 0; j < n; ++j) {
    if (friends.are_compared(i, j)) sum += std::exp((row[j] - largest) / temperature);
  }
  for (int64_t j = 0; j < n; ++j) {
    if (!friends.are_compared(i, j)) {
      row[j] = 0;
      continue;
    }
    const double below = (row[j] - largest) / temperature;
    if (friends.are(i, j)) lost += std::log(sum) - below;
    row[j] = std::exp(below) / sum - (friends.are(i, j) ? 1.0 / static_cast<double>(own) : 0);
  }
  return lost / static_cast<double>(own);
}

Friends friends_of_batch(const OpContext& c) {
  return {c.inputs[1].as<int32_t>(), c.inputs[0].shape[0]};
}

void contrastive(const OpContext& c) {
  const ContrastRoom room = room_of(c);
  const Friends friends = friends_of_batch(c);
  count_rows(row_weights(c), friends.count, *c.step.loss);
  for (int64_t i = 0; i < friends.count; ++i) normalise_vector(c, room, i);
  for (int64_t i = 0; i < friends.count; ++i) {
    add_loss(compare_vectors(c, room, friends, i) / kLn2 * 0x1p24, *c.step.loss,
             c.step.totals->exponent_overflow);
  }
}

void contrastive_backward(const OpContext& c) {
  const ContrastRoom room = room_of(c);
  const double temperature = c.attributes<ContrastiveAttributes>().temperature;
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
          (direction[k] - along * own[k]) * room.inverse[i] / temperature);
    }
  }
}

}  // namespace

const OpRows kContrastiveLoss = {.memory = contrast_memory,
                                 .check = check_vectors,
                                 .forward = {.run = contrastive},
                                 .grad_input = {.run = contrastive_backward},
                                 .kernel = loops_name};

}  // namespace mantissa::ops::fp32
