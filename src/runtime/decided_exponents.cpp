#include "runtime/decided_exponents.h"

#include <algorithm>
#include <cstdlib>

namespace mantissa {
namespace {

// Nothing is counted for tensors that another rule gives their exponents: those under the
// batch-norm guard.
bool is_counted(const Tensor& tensor) {
  return tensor.predictor.bits != nullptr && tensor.predictor.bits->elements() > 0;
}

int next_exponent(const BitStatistics& statistics, int decided, const Format& format,
                  const DecidedWidth& width) {
  return std::min(next_decided_exponent(statistics, decided, format.clipped_ppm, width.bits),
                  width.exponent_limit);
}

// Puts an exponent in use; false if it is already.
bool use(const Tensor& tensor, int exponent) {
  exponent = std::min(exponent, tensor.exponent_limit);
  if (*tensor.predictor.predicted == exponent) return false;
  *tensor.predictor.predicted = static_cast<int16_t>(exponent);
  return true;
}

}  // namespace

void DecidedExponents::start_step() {
  std::fill(measured.begin(), measured.end(), kUnmeasured);
  std::fill(step.begin(), step.end(), BitStatistics{});
}

void DecidedExponents::start_micro_batch(const State& state) {
  if (in_use.empty()) return;
  std::copy_n(state.data<int16_t>(state.layout().predictors), in_use.size(), in_use.begin());
  std::fill(written.begin(), written.end(), BitStatistics{});
}

void DecidedExponents::end_micro_batch() {
  for (size_t slot = 0; slot < step.size(); ++slot) step[slot] += written[slot];
}

bool DecidedExponents::measure(std::span<const Tensor> tensors) {
  bool changes = false;
  for (const Tensor& tensor : tensors) {
    if (!is_counted(tensor)) continue;
    const int64_t largest = tensor.predictor.bits->largest_exponent;
    if (largest != kUnmeasured) changes |= use(tensor, static_cast<int>(largest));
  }
  return changes;
}

bool DecidedExponents::decide(std::span<const Tensor> tensors, const Format& format,
                              const State& state) {
  const auto* before = state.data<int16_t>(state.layout().predictors);
  bool changes = false;
  for (const Tensor& tensor : tensors) {
    if (!is_counted(tensor)) continue;
    const ExponentPredictor& predictor = tensor.predictor;
    const int next = next_exponent(*predictor.bits, *predictor.predicted, format,
                                   {tensor.bits, tensor.exponent_limit});
    *predictor.measured = std::max(*predictor.measured, static_cast<int16_t>(next));
    const int start = before[predictor.predicted - in_use.data()];
    changes |= use(tensor, std::abs(next - start) > format.threshold ? next : start);
  }
  return changes;
}

void DecidedExponents::commit(const Format& format, int64_t steps,
                              std::span<const DecidedWidth> widths, State& state) const {
  auto* decided = state.data<int16_t>(state.layout().predictors);
  auto* counted = state.data<BitStatistics>(state.layout().bits);
  for (size_t slot = 0; slot < step.size(); ++slot) {
    if (steps <= format.repeating_steps()) {
      if (measured[slot] != kUnmeasured) decided[slot] = measured[slot];
      continue;
    }
    counted[slot] += step[slot];
    if (steps % format.decision_steps != 0) continue;
    const int next = next_exponent(counted[slot], decided[slot], format, widths[slot]);
    decided[slot] = static_cast<int16_t>(next);
    counted[slot] = {};
  }
}

}  // namespace mantissa
