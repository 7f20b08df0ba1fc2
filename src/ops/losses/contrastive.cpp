// Supervised contrast: with u the vectors of a micro-batch, brought to length 1, and T the
// temperature, the loss of an example is the mean, over the others j with its label, of -log of the
// softmax over all others of u_i u_j / T. An example without such others has no loss, and one
// without a label is not compared.
//
// The softmax of the products, in Q30, is that of the other losses.
#include "ops/losses/contrastive.h"

#include <algorithm>

#include "numerics/exponential.h"
#include "ops/fp32.h"
#include "ops/losses/loss_rows.h"
#include "ops/losses/unit_vectors.h"
#include "ops/ops.h"

namespace mantissa::ops {
namespace {

constexpr AttributeSpec kContrastSchema[] = {real<&ContrastiveAttributes::temperature>(
    "temperature", 0.1, kLeastContrast, kMostContrast)};

constexpr Element kContrastElements[] = {Element::kMantissa, Element::kIndex};

// An example's loss, and the gradients of its products.
void contrast_vector(const OpContext& c, const UnitVectors& room, int64_t i, int64_t,
                     LossTotals& totals) {
  const Friends friends = friends_of(c);
  const int64_t n = friends.count, channels = c.inputs[0].shape.last(), own = friends.of(i);
  const int64_t log2_q23 = c.attributes<ContrastiveAttributes>().log2_q23;
  int32_t* const row = room.slopes + i * n;
  int64_t largest = -kUnitQ30, nearest = -1;
  for (int64_t j = 0; j < n && own > 0; ++j) {
    if (!friends.are_compared(i, j)) continue;
    row[j] = static_cast<int32_t>(
        product_q30(room.vectors + i * channels, room.vectors + j * channels, channels));
    if (nearest < 0 || row[j] > largest) largest = row[j], nearest = j;
  }
  if (own == 0) {
    std::fill_n(row, n, 0);
    return;
  }
  totals.correct += friends.are(i, nearest);
  const auto log2_q16 = [&](int64_t j) {
    return shift_right_rne((row[j] - largest) * log2_q23, 23 + 30 - 16);
  };
  int64_t sum = 0, lost = 0;
  for (int64_t j = 0; j < n; ++j) sum += friends.are_compared(i, j) ? exp2_q30(log2_q16(j)) : 0;
  const int64_t log2_sum = log2_q24(static_cast<uint64_t>(sum)) - (int64_t{30} << 24);
  const int64_t share = ref_divide_rne(kUnitQ30, own);
  for (int64_t j = 0; j < n; ++j) {
    if (!friends.are_compared(i, j)) {
      row[j] = 0;
      continue;
    }
    const int64_t below = log2_q16(j), p = ((exp2_q30(below) << 30) + sum / 2) / sum;
    if (friends.are(i, j)) lost += log2_sum - below * 256;
    row[j] = static_cast<int32_t>(p - (friends.are(i, j) ? share : 0));
  }
  totals.loss_q24 += ref_divide_rne(lost, own);
}

void contrast_forward(const OpContext& c) { vectors_forward(c, contrast_vector); }

void contrast_backward(const OpContext& c) {
  vectors_backward(c, Real(c.attributes<ContrastiveAttributes>().temperature));
}

const char* contrast_kernel(const OpContext&) { return "reference"; }

}  // namespace

const Op kContrastiveLoss = {
    .name = "contrastive_loss",
    .attributes = schema<ContrastiveAttributes, derive_contrastive>(kContrastSchema),
    .infer_outputs = infer_vectors,
    .input_elements = kContrastElements,
    .integer = {.memory = vectors_memory,
                .check = check_vectors,
                .forward = {.run = contrast_forward},
                .grad_input = {.run = contrast_backward},
                .kernel = contrast_kernel},
    .emit_gradient = emit_saved_loss_gradient,
    .loss_unit = nats_from_q24(1),
    .fp32 = &fp32::kContrastiveLoss};

}  // namespace mantissa::ops
