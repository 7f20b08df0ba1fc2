#include "runtime/decided_exponents.h"

#include <algorithm>

namespace mantissa {

int clipped_ppm(const Exponent& exponent, const Graph& graph, const Format& format) {
  const int ppm = format.clipped_ppm;
  if (exponent.owner != ExponentOwner::kGradient || !graph.is_loss(exponent.of)) return ppm;
  const int logits = graph.nodes[exponent.of].inputs[0];
  return static_cast<int>(ppm / graph.values[logits].shape.last());
}

DecidedExponents::DecidedExponents(int64_t slots, const Format& format, int64_t micro_batches)
    : needed(static_cast<size_t>(format.deciding_steps() > 0 ? slots : 0)),
      written(static_cast<size_t>(slots)),
      decisions(static_cast<size_t>(slots), {.rule = {.clipped_ppm = format.clipped_ppm,
                                                      .decides_at_once = !format.decides_by_op,
                                                      .threshold = format.threshold,
                                                      .micro_batches = micro_batches}}) {}

int64_t DecidedExponents::predict_bytes(int64_t slots, const Format& format) {
  const auto needed_bytes =
      static_cast<int64_t>(format.deciding_steps() > 0 ? sizeof(NeededExponents) : 0);
  return slots * (needed_bytes + int64_t{sizeof(BitStatistics)} + int64_t{sizeof(Decision)});
}

void DecidedExponents::start_step(const Format& format, int64_t steps) {
  for (Decision& decision : decisions) {
    decision.rule.warms_up = steps < format.deciding_steps();
  }
  std::fill(needed.begin(), needed.end(), NeededExponents{});
  std::fill(written.begin(), written.end(), BitStatistics{});
}

DecidedExponents& DecidedExponents::operator+=(const DecidedExponents& other) {
  for (size_t slot = 0; slot < needed.size(); ++slot) needed[slot] += other.needed[slot];
  for (size_t slot = 0; slot < written.size(); ++slot) written[slot] += other.written[slot];
  return *this;
}

void DecidedExponents::commit(const Format& format, int64_t steps, std::span<const int> slots,
                              State& state) const {
  auto* decided = state.data<int16_t>(state.layout().predictors);
  auto* counted = state.data<BitStatistics>(state.layout().bits);
  for (const int slot : slots) {
    const Decision& decision = decisions[slot];
    const int ppm = decision.rule.clipped_ppm, bits = decision.bits;
    const auto decide = [&](int exponent) {
      decided[slot] = static_cast<int16_t>(std::min(exponent, decision.exponent_limit));
    };
    if (decision.rule.warms_up) {
      if (needed[slot].elements() > 0) decide(needed[slot].decided(ppm, bits));
      continue;
    }
    counted[slot] += written[slot];
    if (steps % format.decision_steps != 0) continue;
    decide(next_decided_exponent(counted[slot], decided[slot], ppm, bits));
    counted[slot] = {};
  }
}

}  // namespace mantissa
