// Triplets in fp32, in double (ops/losses/triplets.cpp).
#include "ops/losses/triplets.h"

#include <algorithm>
#include <span>
#include <vector>

#include "ops/fp32.h"
#include "ops/fp32/losses/unit_vectors.h"

namespace mantissa::ops::fp32 {
namespace {

// Others with the label of an example, and those with other labels.
struct Others {
  std::vector<int64_t> friends, strangers;
};

Others others_of(const OpContext& c, int64_t i) {
  const Friends friends = friends_of(c);
  Others others;
  for (int64_t j = 0; j < friends.count && friends.labels[i] >= 0; ++j) {
    if (!friends.are_compared(i, j)) continue;
    (friends.are(i, j) ? others.friends : others.strangers).push_back(j);
  }
  return others;
}

// The stranger of a semi-hard triplet: the nearest that is farther than p, or else the farthest.
int64_t semi_hard_stranger(const std::vector<int64_t>& strangers,
                           const std::vector<double>& products, int64_t p) {
  int64_t beyond = -1, farthest = strangers[0];
  for (const int64_t j : strangers) {
    if (products[j] < products[farthest]) farthest = j;
    const bool is_beyond = products[j] < products[p];
    if (is_beyond && (beyond < 0 || products[j] > products[beyond])) beyond = j;
  }
  return beyond >= 0 ? beyond : farthest;
}

// The example's loss. The slopes are half of the gradient.
double compare_triplets(const OpContext& c, const VectorRoom& room, int64_t i) {
  const auto& attributes = c.attributes<TripletAttributes>();
  const int64_t n = c.inputs[0].shape[0], channels = c.inputs[0].shape.last();
  Others others = others_of(c, i);
  double* const slopes = room.slopes + i * n;
  std::fill_n(slopes, n, 0.0);
  if (others.friends.empty()) return 0;
  std::vector<double> products(static_cast<size_t>(n));
  for (int64_t j = 0; j < n; ++j) {
    products[j] = vector_product(room, channels, i, j);
  }
  const auto less = [&](int64_t a, int64_t b) {
    return products[a] < products[b];
  };
  const int64_t nearest_friend = *std::ranges::max_element(others.friends, less);
  if (others.strangers.empty()) {
    ++c.step.loss->correct;
    return 0;
  }
  const int64_t nearest = *std::ranges::max_element(others.strangers, less);
  const bool tie = !less(nearest_friend, nearest) && !less(nearest, nearest_friend);
  c.step.loss->correct += less(nearest, nearest_friend) || (tie && nearest_friend < nearest);
  if (attributes.mining == Mining::kHard) {
    others = {{*std::ranges::min_element(others.friends, less)}, {nearest}};
  }
  const bool is_semi_hard = attributes.mining == Mining::kSemiHard;
  const size_t each = is_semi_hard ? 1 : others.strangers.size();
  const auto triplets = static_cast<double>(others.friends.size() * each);
  double sum = 0;
  for (const int64_t p : others.friends) {
    const int64_t one = is_semi_hard ? semi_hard_stranger(others.strangers, products, p) : 0;
    for (const int64_t s : is_semi_hard ? std::span(&one, 1) : std::span(others.strangers)) {
      const double lost = 2 * (products[s] - products[p]) + attributes.margin;
      if (lost <= 0) continue;
      sum += lost;
      slopes[p] -= 1 / triplets;
      slopes[s] += 1 / triplets;
    }
  }
  return sum / triplets;
}

void triplets(const OpContext& c) { compare_all(c, compare_triplets, 0x1p24); }
void triplets_backward(const OpContext& c) { vector_gradients(c, 0.5); }

}  // namespace

const OpRows kTripletLoss = {.memory = vector_memory,
                             .check = check_vectors,
                             .forward = {.run = triplets},
                             .grad_input = {.run = triplets_backward},
                             .kernel = loops_name};

}  // namespace mantissa::ops::fp32
