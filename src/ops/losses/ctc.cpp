// CTC in integers: -log2 of the sum over all paths that spell the labels of the product of their
// probabilities. Forward and backward sums (alpha and beta) are logarithms to the base 2 in Q24.
//
// The gradient of a logit is its probability less the share of the paths that have its class at
// this position. Shares are a softmax over the states of alpha + beta at the position, in Q30: they
// add up to 1 whatever alpha and beta lost by rounding, and what both lost alike has no effect.
#include "ops/losses/ctc.h"

#include <algorithm>
#include <array>
#include <string>

#include "numerics/exponential.h"
#include "ops/fp32.h"
#include "ops/losses/loss_rows.h"
#include "ops/losses/row_softmax.h"
#include "ops/ops.h"

namespace mantissa::ops {
namespace {

constexpr AttributeSpec kCtcSchema[] = {
    whole<&CtcAttributes::blank>("blank", 0, 0, kernels::kMaximumOutputs - 1)};

constexpr Element kCtcElements[] = {Element::kMantissa, Element::kIndex, Element::kIndex};

Result<std::vector<ValueType>> infer_ctc(const Attributes& attributes,
                                         std::span<const Shape> inputs) {
  const bool fits = (inputs.size() == 2 || (inputs.size() == 3 && inputs[2] == Shape{})) &&
                    inputs[0].rank == 2 && inputs[1].rank == 1;
  if (!fits) {
    return invalid_input(
        "wants logits [positions, classes], labels [most], and perhaps a length");
  }
  const int64_t positions = inputs[0][0], classes = inputs[0][1];
  if (classes < 2 || classes > kernels::kMaximumOutputs || positions > kMostCtcPositions) {
    return invalid_input("wants 2 to " + std::to_string(kernels::kMaximumOutputs) +
                         " classes and at most " + std::to_string(kMostCtcPositions) +
                         " positions");
  }
  if (inputs[1][0] > positions) {
    return invalid_input("wants at most as many labels as positions, " +
                         std::to_string(positions) + ", not " + std::to_string(inputs[1][0]));
  }
  if (attributes.as<CtcAttributes>().blank >= classes) {
    return invalid_input("blank: is a class, from 0 to " + std::to_string(classes - 1));
  }
  return std::vector<ValueType>{{Shape{}, Element::kReal}};
}

// Logarithms of sums of probabilities, in Q24. Sums of paths of 2^15 positions, each above -2^44,
// are possible; one without a path is not.
constexpr int64_t kImpossible = -(int64_t{1} << 61);
constexpr bool is_possible(int64_t sum) { return sum > kImpossible / 2; }

// 2^x in Q30 of x <= 0 in Q24, rounded down.
int64_t exp2_of_q24(int64_t x) {
  const int64_t whole = x >> 24, fraction = x & ((int64_t{1} << 24) - 1);
  return whole < -31 ? 0 : exp2_fraction_q30(fraction, 24) >> -whole;
}

// The logarithm of the sum of up to three numbers that are given by theirs.
int64_t log2_of_sum(int64_t a, int64_t b, int64_t c = kImpossible) {
  const int64_t largest = std::max({a, b, c});
  if (!is_possible(largest)) return kImpossible;
  const int64_t sum =
      exp2_of_q24(a - largest) + exp2_of_q24(b - largest) + exp2_of_q24(c - largest);
  return largest + log2_q24(static_cast<uint64_t>(sum)) - (int64_t{30} << 24);
}

// Memory for one example at a time: logarithms of the probabilities of the blank and of each label
// at each position, alpha of each state at each position, and beta at two positions.
struct CtcRoom {
  int64_t *probabilities, *alpha, *beta;
  int64_t states, labels;  // at most
  CtcRoom(std::byte* base, int64_t positions, int64_t most)
      : probabilities(reinterpret_cast<int64_t*>(base)),
        alpha(probabilities + positions * (most + 1)),
        beta(alpha + positions * (2 * most + 1)),
        states(2 * most + 1),
        labels(most) {}
  int64_t bytes() const {
    return (beta + 2 * states - probabilities) * int64_t{sizeof(int64_t)};
  }
  int64_t probability(int64_t t, int64_t state) const {
    return probabilities[t * (labels + 1) + (state % 2 == 0 ? 0 : state / 2 + 1)];
  }
};

// Forward to backward: how many positions of each example count, and the shares of all classes.
struct CtcShares {
  int32_t *positions, *shares;
  CtcShares(std::byte* base, const Shape& logits)
      : positions(reinterpret_cast<int32_t*>(base)), shares(positions + logits[0]) {}
};

OpMemory ctc_memory(const OpShapes& s, const PlanningContext& planning) {
  const int64_t most = s.inputs[1].last();
  const int64_t bytes = CtcRoom(nullptr, s.inputs[0][1], most).bytes();
  return {.saved_bytes = (s.inputs[0][0] + s.inputs[0].count()) * int64_t{sizeof(int32_t)},
          .forward = {.workspace_bytes = planning.threads * bytes}};
}

void find_probabilities(const OpContext& c, const CtcExample& example, int64_t n,
                        const CtcRoom& room) {
  const int64_t positions = c.inputs[0].shape[1], classes = c.inputs[0].shape.last();
  for (int64_t t = 0; t < example.positions; ++t) {
    const int64_t row = n * positions + t;
    const RowSoftmax soft(c.inputs[0].as<int32_t>() + row * classes, classes,
                          c.inputs[0].row_exponent(row));
    int64_t* out = room.probabilities + t * (room.labels + 1);
    out[0] = -soft.lost_q24(example.states.blank);
    for (const int32_t label : example.states.labels) *++out = -soft.lost_q24(label);
  }
}

// Alpha at all positions; returns the logarithm of the sum over all paths.
int64_t find_alpha(const CtcExample& example, const CtcRoom& room) {
  const CtcStates& states = example.states;
  const int64_t count = states.count();
  for (int64_t t = 0; t < example.positions; ++t) {
    int64_t* const now = room.alpha + t * room.states;
    const int64_t* const before = t > 0 ? now - room.states : nullptr;
    for (int64_t s = 0; s < count; ++s) {
      int64_t sum = s < 2 ? 0 : kImpossible;  // a path begins with the blank or the first label
      if (t > 0) {
        sum = log2_of_sum(before[s], s > 0 ? before[s - 1] : kImpossible,
                          states.may_skip_to(s) ? before[s - 2] : kImpossible);
      }
      now[s] = is_possible(sum) ? sum + room.probability(t, s) : kImpossible;
    }
  }
  const int64_t* const last = room.alpha + (example.positions - 1) * room.states;
  return log2_of_sum(last[count - 1], count > 1 ? last[count - 2] : kImpossible);
}

// Beta at position t, the paths behind it, from beta at t + 1.
void find_beta(const CtcExample& example, const CtcRoom& room, int64_t t, const int64_t* behind,
               int64_t* now) {
  const int64_t count = example.states.count();
  const auto onward = [&](int64_t s) {
    const bool is_one = s < count && is_possible(behind[s]);
    return is_one ? behind[s] + room.probability(t + 1, s) : kImpossible;
  };
  for (int64_t s = 0; s < count; ++s) {
    const bool skips = s + 2 < count && example.states.may_skip_to(s + 2);
    now[s] = t + 1 == example.positions
                 ? (s + 2 >= count ? 0 : kImpossible)
                 : log2_of_sum(onward(s), onward(s + 1), skips ? onward(s + 2) : kImpossible);
  }
}

// The shares of the classes at all positions of an example [positions, classes].
void find_shares(const CtcExample& example, const CtcRoom& room, int64_t classes,
                 int32_t* shares) {
  const int64_t count = example.states.count();
  for (int64_t t = example.positions - 1; t >= 0; --t) {
    int64_t* const now = room.beta + t % 2 * room.states;
    find_beta(example, room, t, room.beta + (t + 1) % 2 * room.states, now);
    const int64_t* const alpha = room.alpha + t * room.states;
    int64_t largest = kImpossible, sum = 0;
    for (int64_t s = 0; s < count; ++s) largest = std::max(largest, alpha[s] + now[s]);
    for (int64_t s = 0; s < count; ++s) sum += exp2_of_q24(alpha[s] + now[s] - largest);
    int32_t* const out = shares + t * classes;
    std::fill_n(out, classes, 0);
    for (int64_t s = 0; s < count; ++s) {
      const int64_t own = exp2_of_q24(alpha[s] + now[s] - largest);
      out[example.states.class_of(s)] += static_cast<int32_t>(((own << 30) + sum / 2) / sum);
    }
  }
}

void add_sequence(const OpContext& c, int64_t n, const CtcRoom& room, LossTotals& totals) {
  const CtcExample example = ctc_example(c, n);
  const int64_t positions = c.inputs[0].shape[1], classes = c.inputs[0].shape.last();
  const bool has_path = example.has_path();
  if (c.memory.saved != nullptr) {
    CtcShares(c.memory.saved, c.inputs[0].shape).positions[n] =
        has_path ? static_cast<int32_t>(example.positions) : 0;
  }
  ++totals.rows;
  if (!has_path) return;
  ++totals.counted;
  totals.weight_q10 += int64_t{1} << kernels::kRowWeightBits;
  const int32_t* const logits = c.inputs[0].as<int32_t>() + n * positions * classes;
  totals.correct += example.is_spelled([&](int64_t t) {
    const int32_t* const row = logits + t * classes;
    return std::max_element(row, row + classes) - row;
  });
  constexpr int64_t kMostLost = int64_t{1} << 50;
  find_probabilities(c, example, n, room);
  totals.loss_q24 += std::clamp<int64_t>(-find_alpha(example, room), 0, kMostLost);
  if (c.memory.saved == nullptr) return;
  find_shares(example, room, classes,
              CtcShares(c.memory.saved, c.inputs[0].shape).shares + n * positions * classes);
}

void ctc_forward(const OpContext& c) {
  std::array<LossTotals, kernels::kMaximumParts> partial = {};
  const CtcRoom first(c.memory.workspace, c.inputs[0].shape[1], c.inputs[1].shape.last());
  const int64_t parts = kernels::parallel_ranges(
      *c.kernel.pool, c.inputs[0].shape[0], 1, [&](int64_t begin, int64_t end, int64_t part) {
        const CtcRoom room(c.memory.workspace + part * first.bytes(), c.inputs[0].shape[1],
                           first.labels);
        for (int64_t n = begin; n < end; ++n) add_sequence(c, n, room, partial[part]);
      });
  for (int64_t part = 0; part < parts; ++part) *c.step.loss += partial[part];
}

// For ByNumbers: a row is a position.
class CtcGradients {
 public:
  CtcGradients(const OpContext& c, int64_t row)
      : logits_(c.inputs[0].as<int32_t>()),
        positions_(c.inputs[0].shape[1]),
        classes_(c.inputs[0].shape.last()),
        exponent_(c.inputs[0].row_exponent(row)),
        left_(c.memory.saved, c.inputs[0].shape) {}

  static kernels::RowWeights row_weights() { return {}; }
  static kernels::LossSums lost(int64_t) { return {}; }
  void prepare(int64_t row) {
    counts_ = row % positions_ < left_.positions[row / positions_];
    if (counts_) soft_ = {logits_ + row * classes_, classes_, exponent_};
  }
  int64_t gradient(int64_t row, int64_t k) const {
    return counts_ ? soft_.probability_q30(k) - left_.shares[row * classes_ + k] : 0;
  }

 private:
  const int32_t* logits_;
  int64_t positions_, classes_;
  int exponent_;
  CtcShares left_;
  bool counts_ = false;
  RowSoftmax soft_;
};

void ctc_backward(const OpContext& c) {
  loss_backward<ByNumbers<CtcGradients>, kLossGradientExponent>(c);
}

const char* ctc_kernel(const OpContext&) { return "reference"; }

}  // namespace

const Op kCtcLoss = {.name = "ctc_loss",
                     .attributes = schema<CtcAttributes>(kCtcSchema),
                     .infer_outputs = infer_ctc,
                     .input_elements = kCtcElements,
                     .integer = {.memory = ctc_memory,
                                 .forward = {.run = ctc_forward},
                                 .grad_input = {.run = ctc_backward},
                                 .kernel = ctc_kernel},
                     .emit_gradient = emit_saved_loss_gradient,
                     .loss_unit = nats_from_q24(1),
                     .fp32 = &fp32::kCtcLoss};

}  // namespace mantissa::ops
