#include "runtime/decided_exponents.h"

#include <algorithm>

namespace mantissa {

DecidedExponents::DecidedExponents(int64_t slots, const Format& format, int64_t micro_batches)
    : rule{.clipped_ppm = format.clipped_ppm,
           .decides_at_once = !format.decides_by_op,
           .threshold = format.threshold,
           .micro_batches = micro_batches},
      needed(static_cast<size_t>(format.deciding_steps() > 0 ? slots : 0)),
      written(static_cast<size_t>(slots)),
      widths(static_cast<size_t>(slots)) {}

int64_t DecidedExponents::predict_bytes(int64_t slots, const Format& format) {
  const auto needed_bytes =
      static_cast<int64_t>(format.deciding_steps() > 0 ? sizeof(NeededExponents) : 0);
  return slots * (needed_bytes + int64_t{sizeof(BitStatistics)} + int64_t{sizeof(DecidedWidth)});
}

void DecidedExponents::start_step(const Format& format, int64_t steps) {
  rule.warms_up = steps < format.deciding_steps();
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
  const auto decide = [&](int slot, int exponent) {
    decided[slot] = static_cast<int16_t>(std::min(exponent, widths[slot].exponent_limit));
  };
  for (const int slot : slots) {
    const int bits = widths[slot].bits;
    if (rule.warms_up) {
      if (needed[slot].elements() > 0) decide(slot, needed[slot].decided(rule.clipped_ppm, bits));
      continue;
    }
    counted[slot] += written[slot];
    if (steps % format.decision_steps != 0) continue;
    decide(slot, next_decided_exponent(counted[slot], decided[slot], rule.clipped_ppm, bits));
    counted[slot] = {};
  }
}

}  // namespace mantissa
