// Triplets: with u the vectors of a micro-batch, brought to length 1, d_ij = |u_i - u_j|^2 =
// 2 - 2 u_i u_j, and M the margin, a triplet of an anchor a, another example p with its label and
// an example n with another label has the loss max(0, d_ap - d_an + M). The loss of an example is
// the one of its hardest triplet, the farthest p and the nearest n; the mean over all its triplets;
// or the mean over its p of the semi-hard triplet, with the nearest n that is farther than p, or
// the farthest n if none is (Schroff et al.). An example without triplets has no loss, and one
// without a label is not compared.
//
// d is linear in the product. So a product's slope is a whole number divided by the number of
// triplets, and nothing is divided by a distance.
#include "ops/losses/triplets.h"

#include <algorithm>
#include <string>

#include "ops/fp32.h"
#include "ops/losses/loss_rows.h"
#include "ops/losses/unit_vectors.h"
#include "ops/ops.h"

namespace mantissa::ops {
namespace {

constexpr AttributeSpec kTripletSchema[] = {
    real<&TripletAttributes::margin>("margin", 0.2, 0, kMostMargin),
    text<&TripletAttributes::mining>("mining", "all", "hard all semi-hard")};

constexpr Element kTripletElements[] = {Element::kMantissa, Element::kIndex};

// Besides the vectors: for each thread, the triplets that count of each other example.
OpMemory triplet_memory(const OpShapes& s, const PlanningContext& planning) {
  OpMemory memory = vectors_memory(s, planning);
  memory.forward.workspace_bytes += planning.threads * s.inputs[0][0] * int64_t{sizeof(int32_t)};
  return memory;
}

// An anchor with its products, which become their slopes: half of the gradient, in Q30.
struct Anchor {
  const Friends& friends;
  int64_t i;
  int32_t* row;
  int64_t half_q30;  // of the margin

  bool is_stranger(int64_t j) const { return friends.are_compared(i, j) && !friends.are(i, j); }
  // Half of a triplet's loss in Q30, which counts if it is above 0.
  int64_t lost(int64_t p, int64_t n) const { return int64_t{row[n]} - row[p] + half_q30; }
};

// Half of the loss of the hardest triplet. Of products that are equal the first one counts.
int64_t take_hardest(const Anchor& anchor) {
  int64_t friend_at = -1, stranger_at = -1;
  for (int64_t j = 0; j < anchor.friends.count; ++j) {
    if (anchor.friends.are(anchor.i, j)) {
      if (friend_at < 0 || anchor.row[j] < anchor.row[friend_at]) friend_at = j;
    } else if (anchor.is_stranger(j)) {
      if (stranger_at < 0 || anchor.row[j] > anchor.row[stranger_at]) stranger_at = j;
    }
  }
  const int64_t lost = std::max<int64_t>(0, anchor.lost(friend_at, stranger_at));
  std::fill_n(anchor.row, anchor.friends.count, 0);
  if (lost > 0) {
    anchor.row[friend_at] = static_cast<int32_t>(-kUnitQ30);
    anchor.row[stranger_at] = static_cast<int32_t>(kUnitQ30);
  }
  return lost;
}

// Half of the sum of the losses of all triplets. `counts`: of those above 0, for each example.
int64_t take_all(const Anchor& anchor, int64_t triplets, int32_t* counts) {
  const int64_t n = anchor.friends.count;
  std::fill_n(counts, n, 0);
  int64_t sum = 0;
  for (int64_t p = 0; p < n; ++p) {
    if (!anchor.friends.are(anchor.i, p)) continue;
    for (int64_t j = 0; j < n; ++j) {
      if (!anchor.is_stranger(j) || anchor.lost(p, j) <= 0) continue;
      sum += anchor.lost(p, j);
      --counts[p];
      ++counts[j];
    }
  }
  for (int64_t j = 0; j < n; ++j) {
    anchor.row[j] = static_cast<int32_t>(ref_divide_rne(counts[j] * kUnitQ30, triplets));
  }
  return sum;
}

// The stranger of a semi-hard triplet of an anchor and p. Of equal products the first one counts.
int64_t semi_hard_stranger(const Anchor& anchor, int64_t p) {
  int64_t beyond = -1, farthest = -1;
  for (int64_t j = 0; j < anchor.friends.count; ++j) {
    if (!anchor.is_stranger(j)) continue;
    if (farthest < 0 || anchor.row[j] < anchor.row[farthest]) farthest = j;
    const bool is_beyond = anchor.row[j] < anchor.row[p];
    if (is_beyond && (beyond < 0 || anchor.row[j] > anchor.row[beyond])) beyond = j;
  }
  return beyond >= 0 ? beyond : farthest;
}

// Half of the sum of the losses of the semi-hard triplets, one for each of `own` examples with the
// anchor's label. `counts` as above.
int64_t take_semi_hard(const Anchor& anchor, int64_t own, int32_t* counts) {
  const int64_t n = anchor.friends.count;
  std::fill_n(counts, n, 0);
  int64_t sum = 0;
  for (int64_t p = 0; p < n; ++p) {
    if (!anchor.friends.are(anchor.i, p)) continue;
    const int64_t stranger = semi_hard_stranger(anchor, p), lost = anchor.lost(p, stranger);
    if (lost <= 0) continue;
    sum += lost;
    --counts[p];
    ++counts[stranger];
  }
  for (int64_t j = 0; j < n; ++j) {
    anchor.row[j] = static_cast<int32_t>(ref_divide_rne(counts[j] * kUnitQ30, own));
  }
  return sum;
}

void compare_triplets(const OpContext& c, const UnitVectors& room, int64_t i, int64_t part,
                      LossTotals& totals) {
  const auto& attributes = c.attributes<TripletAttributes>();
  const Friends friends = friends_of(c);
  const int64_t n = friends.count, channels = c.inputs[0].shape.last();
  const Anchor anchor{friends, i, room.slopes + i * n, attributes.half_q30};
  int64_t own = 0, strangers = 0, nearest = -1;
  for (int64_t j = 0; j < n; ++j) {
    if (c.inputs[1].as<int32_t>()[i] < 0 || !friends.are_compared(i, j)) continue;
    anchor.row[j] = static_cast<int32_t>(
        product_q30(room.vectors + i * channels, room.vectors + j * channels, channels));
    if (nearest < 0 || anchor.row[j] > anchor.row[nearest]) nearest = j;
    friends.are(i, j) ? ++own : ++strangers;
  }
  if (own > 0) totals.correct += friends.are(i, nearest);
  const int64_t triplets = own * strangers;
  if (triplets == 0) {
    std::fill_n(anchor.row, n, 0);
    return;
  }
  if (attributes.mining == Mining::kHard) {
    totals.loss_q24 += shift_right_rne(take_hardest(anchor), 30 - 24 - 1);
    return;
  }
  auto* const counts = reinterpret_cast<int32_t*>(c.memory.workspace + room.bytes) + part * n;
  const bool is_semi_hard = attributes.mining == Mining::kSemiHard;
  const int64_t taken = is_semi_hard ? own : triplets;
  const int64_t sum = (is_semi_hard ? take_semi_hard : take_all)(anchor, taken, counts);
  totals.loss_q24 += ref_divide_rne(sum, taken * 32);
}

void triplet_forward(const OpContext& c) { vectors_forward(c, compare_triplets); }

// Slopes are half of the gradient.
void triplet_backward(const OpContext& c) { vectors_backward(c, Real(0.5)); }

const char* triplet_kernel(const OpContext&) { return "reference"; }

}  // namespace

const Op kTripletLoss = {
    .name = "triplet_loss",
    .attributes = schema<TripletAttributes, derive_triplets>(kTripletSchema),
    .infer_outputs = infer_vectors,
    .input_elements = kTripletElements,
    .integer = {.memory = triplet_memory,
                .check = check_vectors,
                .forward = {.run = triplet_forward},
                .grad_input = {.run = triplet_backward},
                .kernel = triplet_kernel},
    .emit_gradient = emit_saved_loss_gradient,
    .loss_unit = 0x1p-24,
    .fp32 = &fp32::kTripletLoss};

}  // namespace mantissa::ops
