// Dice's loss in fp32, with sums in double (ops/losses/dice.cpp).
#include <algorithm>
#include <vector>

#include "ops/fp32.h"
#include "ops/fp32/losses/loss_parts.h"
#include "ops/loss.h"
#include "ops/losses/dice.h"

namespace mantissa::ops::fp32 {
namespace {

// What a class's probability has as its gradient, and how much less where it is the label.
struct DiceSlopes {
  double all, label;
};

struct DiceSizes {
  int64_t examples, places, classes;
  explicit DiceSizes(const Shape& logits)
      : examples(logits[0]), classes(logits.last()) {
    places = logits.count() / classes / examples;
  }
};

// Programs without a backward pass have a workspace alone.
DiceSlopes* dice_slopes_of(const OpContext& c, int64_t example) {
  auto* const left = c.memory.saved != nullptr ? c.memory.saved : c.memory.workspace;
  return reinterpret_cast<DiceSlopes*>(left) + example * c.inputs[0].shape.last();
}

OpMemory dice_memory(const OpShapes& s, const PlanningContext&) {
  const int64_t bytes = s.inputs[0][0] * s.inputs[0].last() * int64_t{sizeof(DiceSlopes)};
  return {.saved_bytes = bytes, .forward = {.workspace_bytes = bytes}};
}

// Calls visit(row, softmax, logits, label, weight) for the places of an example that count.
template <typename Visit>
void for_places(const OpContext& c, const DiceSizes& sizes, int64_t example, Visit&& visit) {
  const kernels::RowWeights weights = row_weights(c);
  for (int64_t row = example * sizes.places; row < (example + 1) * sizes.places; ++row) {
    const float* const logits = c.inputs[0].as<float>() + row * sizes.classes;
    const double weight = weight_of(weights, row);
    if (weight == 0) continue;
    visit(row, row_softmax(logits, sizes.classes, 1), logits, c.inputs[1].as<int32_t>()[row],
          weight);
  }
}

double place_probability(const RowSoftmax& soft, const float* logits, int64_t k) {
  return std::exp(logits[k] - soft.largest) / soft.sum;
}

double add_dice_example(const OpContext& c, const DiceSizes& sizes, int64_t example) {
  const auto& attributes = c.attributes<DiceAttributes>();
  DiceSlopes* const sums = dice_slopes_of(c, example);  // first: of p and t, and of p * t
  std::fill_n(sums, sizes.classes, DiceSlopes{0, 0});
  double counted = 0, cross_entropy = 0;
  for_places(c, sizes, example,
             [&](int64_t, const RowSoftmax& soft, const float* logits, int32_t label,
                 double weight) {
               for (int64_t k = 0; k < sizes.classes; ++k) {
                 const double p = place_probability(soft, logits, k);
                 sums[k].all += weight * (p + (k == label ? 1 : 0));
                 if (k == label) sums[k].label += weight * p;
               }
               counted += weight;
               cross_entropy += weight * (std::log(soft.sum) - (logits[label] - soft.largest));
               c.step.loss->correct +=
                   std::max_element(logits, logits + sizes.classes) - logits == label;
             });
  const auto classes = static_cast<double>(sizes.classes);
  double missed = classes;
  for (int64_t k = 0; k < sizes.classes; ++k) {
    const double all = sums[k].all + attributes.smooth;
    const double quotient = (2 * sums[k].label + attributes.smooth) / all;
    const double share = counted / (all * classes);
    missed -= quotient;
    sums[k] = {share * quotient, 2 * share};
  }
  return missed / classes * counted + attributes.cross_entropy * cross_entropy;
}

void dice(const OpContext& c) {
  const DiceSizes sizes(c.inputs[0].shape);
  count_rows(row_weights(c), sizes.examples * sizes.places, *c.step.loss);
  for (int64_t n = 0; n < sizes.examples; ++n) {
    add_loss(add_dice_example(c, sizes, n) / kLn2 * 0x1p24, *c.step.loss,
             c.step.totals->exponent_overflow);
  }
}

void dice_backward(const OpContext& c) {
  const DiceSizes sizes(c.inputs[0].shape);
  const double factor = c.attributes<DiceAttributes>().cross_entropy;
  auto* const gradient = c.grad_inputs[0].as<float>();
  std::fill_n(gradient, c.grad_inputs[0].count(), 0.0F);
  for (int64_t n = 0; n < sizes.examples; ++n) {
    const DiceSlopes* const slopes = dice_slopes_of(c, n);
    for_places(c, sizes, n,
               [&](int64_t row, const RowSoftmax& soft, const float* logits, int32_t label,
                   double weight) {
                 const auto slope = [&](int64_t k) {
                   return slopes[k].all - (k == label ? slopes[k].label : 0);
                 };
                 double mean = 0;
                 for (int64_t k = 0; k < sizes.classes; ++k) {
                   mean += slope(k) * place_probability(soft, logits, k);
                 }
                 for (int64_t k = 0; k < sizes.classes; ++k) {
                   const double p = place_probability(soft, logits, k);
                   gradient[row * sizes.classes + k] = static_cast<float>(
                       weight * (p * (slope(k) - mean) + factor * (p - (k == label ? 1 : 0))));
                 }
               });
  }
}

}  // namespace

const OpRows kDiceLoss = {.memory = dice_memory,
                          .forward = {.run = dice},
                          .grad_input = {.run = dice_backward},
                          .kernel = loops_name};

}  // namespace mantissa::ops::fp32
