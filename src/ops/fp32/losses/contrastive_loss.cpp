// Supervised contrast in fp32, in double (ops/losses/contrastive.cpp).
#include <algorithm>
#include <cmath>

#include "ops/fp32.h"
#include "ops/fp32/losses/loss_parts.h"
#include "ops/fp32/losses/unit_vectors.h"
#include "ops/losses/contrastive.h"

namespace mantissa::ops::fp32 {
namespace {

double contrast_vector(const OpContext& c, const VectorRoom& room, int64_t i) {
  const Friends friends = friends_of(c);
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
    row[j] = vector_product(room, channels, i, j);
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

void contrastive(const OpContext& c) { compare_all(c, contrast_vector, 0x1p24 / kLn2); }

void contrastive_backward(const OpContext& c) {
  vector_gradients(c, c.attributes<ContrastiveAttributes>().temperature);
}

}  // namespace

const OpRows kContrastiveLoss = {.memory = vector_memory,
                                 .check = check_vectors,
                                 .forward = {.run = contrastive},
                                 .grad_input = {.run = contrastive_backward},
                                 .kernel = loops_name};

}  // namespace mantissa::ops::fp32
