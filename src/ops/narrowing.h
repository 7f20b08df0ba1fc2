// Narrows wide results to 8- or 16-bit blocks: the exponent rules of METHODS section 0, applied.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <type_traits>

#include "base/checked.h"
#include "graph/op.h"
#include "kernels/bit_counts/wide_counts.h"
#include "kernels/bit_counts/written_block.h"
#include "kernels/common/mantissa_span.h"
#include "kernels/common/statistics.h"
#include "kernels/kernel_table.h"
#include "numerics/exponent.h"
#include "ops/value_histogram.h"

namespace mantissa::ops {

// A parameter's gradient for the kernels.
inline kernels::GradientSums sums_of(const ParameterView& parameter) {
  const bool narrow = parameter.narrow_sums != nullptr
                          ? *parameter.narrow_sums != 0
                          : parameter.gradient.type == DataType::kInt32;
  return {parameter.gradient.data, narrow ? 32 : 64};
}

// A gradient's mantissas for the kernels.
inline kernels::MantissaSpan gradient_of(const Tensor& tensor) {
  return {tensor.data, tensor.bits};
}

// The same from element `at` on.
inline kernels::MantissaSpan gradient_from(const Tensor& tensor, int64_t at) {
  return {tensor.as<std::byte>() + at * element_bytes(tensor.type), tensor.bits};
}

// An exponent to be kept. Outside -128..127 it is clamped and flagged, and the step fails.
inline int16_t checked_exponent(const OpContext& context, int exponent) {
  if (!exponent_in_range(exponent)) context.step.totals->exponent_overflow = true;
  return static_cast<int16_t>(std::clamp(exponent, kExponentMin, kExponentMax));
}

// Writes an exponent slot.
inline void set_exponent(const OpContext& context, const Tensor& tensor, int exponent) {
  *tensor.exponent = checked_exponent(context, exponent);
}

// Whether the maximum of all wide values is found before any is written.
constexpr bool finds_maximum_first(ExponentMode mode) {
  return mode == ExponentMode::kExact || mode == ExponentMode::kCalibrate;
}

// The shift from wide mantissas with this maximum to a tensor's width.
inline int limited_shift(const Tensor& tensor, uint64_t maximum, int wide_exponent) {
  return mantissa::limited_shift(maximum, wide_exponent, tensor.bits, tensor.exponent_limit);
}

// Sets a tensor's exponent from the maximum of its wide mantissas, and returns their shift.
inline int set_exact_exponent(const OpContext& context, const Tensor& tensor, uint64_t maximum,
                              int wide_exponent) {
  set_exponent(context, tensor,
               limited_exponent(maximum, wide_exponent, tensor.bits, tensor.exponent_limit));
  return limited_shift(tensor, maximum, wide_exponent);
}

// Counts clipped mantissas, except those that all readers clip.
inline void add_saturated(const Tensor& tensor, int64_t count) {
  if (*tensor.exponent < tensor.exponent_limit) *tensor.saturated += count;
}

// Sets the output's exponent (unless it is fixed) and returns the shift from wide mantissas with
// this maximum to its width. Negative only under a fixed exponent.
inline int choose_shift(const OpContext& context, const Tensor& output, uint64_t maximum,
                        int wide_exponent) {
  if (context.mode.exponents == ExponentMode::kFixed) return *output.exponent - wide_exponent;
  return set_exact_exponent(context, output, maximum, wide_exponent);
}

// Dynamic fixed point: the shift from wide mantissas to the decided exponent, from 0 to `most`. Not
// below 0, since nothing finer than the wide values is gained.
inline int decided_shift(const Tensor& tensor, int wide_exponent, int most) {
  const int decided = std::min<int>(*tensor.predictor.predicted, tensor.exponent_limit);
  return std::clamp(decided - wide_exponent, 0, most);
}

// The exponent at which none of a tensor's wide values is clipped; kUnmeasured if all are zero.
inline int largest_exponent(const Tensor& tensor, uint64_t maximum, int wide_exponent) {
  if (maximum == 0) return kUnmeasured;
  return wide_exponent + limited_shift(tensor, maximum, wide_exponent);
}

// In dynamic fixed point exponents in use stay in their range. If wide values would need one
// outside it, the step fails.
inline void check_largest_exponent(const OpContext& context, int largest) {
  if (largest > kExponentMax) context.step.totals->exponent_overflow = true;
}

// Empty counts of a tensor's wide values, which are narrowed by `shift`.
inline kernels::WideCounts empty_counts(const Tensor& tensor, int shift) {
  return {tensor.bits, shift, tensor.predictor.rule->most_clipped(tensor.count())};
}

// The warm-up's decision about wide values that were counted: the shift to use. `largest` is their
// largest_exponent. An operation that used another one is run again: once, since the counts do not
// depend on the exponent in use.
inline int decide_shift(const OpContext& context, const Tensor& tensor, int largest,
                        int wide_exponent, int most, std::span<const kernels::WideCounts> counts) {
  const DecisionRule& rule = *tensor.predictor.rule;
  check_largest_exponent(context, largest);
  const int before = decided_shift(tensor, wide_exponent, most);
  NeededExponents needed;
  if (largest == kUnmeasured) {
    needed.add_zeros(tensor.count());
  } else {
    needed = kernels::needed_exponents(counts, tensor.count(), wide_exponent, largest);
  }
  *tensor.predictor.needed += needed;
  const int next = std::min(needed.decided(rule.clipped_ppm, tensor.bits), tensor.exponent_limit);
  const bool at_once = rule.decides_at_once;
  if (!at_once && std::abs(next - *tensor.predictor.predicted) <= rule.threshold) return before;
  const int shift = std::clamp(next - wide_exponent, 0, most);
  context.step.totals->re_executions += !at_once && shift != before;
  return shift;
}

// Counts the wide values wide_of(i) of elements [begin, end) that have just been written, unless
// `counts` is null. Only those are computed whose mantissas are large enough.
template <typename WideOf>
void count_written(kernels::WideCounts* counts, const Tensor& tensor, int64_t begin, int64_t end,
                   const WideOf& wide_of) {
  constexpr int64_t kChunk = 64;
  if (counts == nullptr) return;
  kernels::with_wide_gradient_type(tensor.bits, [&](auto type) {
    using Mantissa = decltype(type);
    const auto* mantissas = tensor.as<Mantissa>();
    const auto largest_of = [mantissas](int64_t at, auto count) {
      Mantissa largest = 0;
      for (int64_t i = at; i < at + count; ++i) {
        const Mantissa m = mantissas[i];
        largest = std::max<Mantissa>(largest, m < 0 ? -m : m);
      }
      return largest;
    };
    for (int64_t at = begin; at < end; at += kChunk) {
      const int64_t count = std::min(kChunk, end - at), least = counts->least_written();
      const Mantissa largest = count == kChunk
                                   ? largest_of(at, std::integral_constant<int64_t, kChunk>())
                                   : largest_of(at, count);
      if (largest < least) continue;
      for (int64_t i = at; i < at + count; ++i) {
        if (std::abs(int64_t{mantissas[i]}) >= least) counts->add(magnitude(wide_of(i)));
      }
    }
  });
}

// As kernels::parallel_statistics over [0, count), for a pass that writes `tensor`. Each index is 1
// / count of the tensor. Works piece by piece if something is to be counted; wide_of(i) is the wide
// value of element i. function(begin, end) may also take the maximum of its thread's earlier
// pieces.
template <typename Function, typename WideOf>
kernels::WideStatistics write_pieces(const OpContext& context, const Tensor& tensor, int64_t count,
                                     int64_t grain, const kernels::PassCounts& counts,
                                     const Function& function, const WideOf& wide_of) {
  const auto write = [&](int64_t begin, int64_t end, uint64_t seen) {
    if constexpr (std::is_invocable_v<const Function&, int64_t, int64_t, uint64_t>) {
      return function(begin, end, seen);
    } else {
      return function(begin, end);
    }
  };
  int64_t length = count, elements = 0;
  if (counts.written != nullptr || counts.wide != nullptr) {
    elements = tensor.count() / count;
    const int64_t bytes = elements * element_bytes(tensor.type);
    length = round_up(divide_up(kernels::PieceCounts::kPieceBytes, bytes), grain);
  }
  return kernels::parallel_statistics(
      *context.kernel.pool, count, grain, [&](int64_t begin, int64_t end, int64_t part) {
        kernels::WideStatistics found;
        for (int64_t at = begin; at < end; at += length) {
          const int64_t next = std::min(end, at + length);
          found += write(at, next, found.maximum);
          count_written(counts.wide_of(part), tensor, at * elements, next * elements, wide_of);
          if (counts.written == nullptr) continue;
          counts.written->add(gradient_from(tensor, at * elements), (next - at) * elements, part);
        }
        return found;
      });
}

// Writes a tensor in the warm-up, with an exponent decided before, or now. `pass` as for
// narrow_in_one_pass: it is run once, and again if the exponent decided now is to be used.
template <typename Pass>
void narrow_and_decide(const OpContext& context, const Tensor& tensor, int wide_exponent, int most,
                       const Pass& pass) {
  const int before = decided_shift(tensor, wide_exponent, most);
  kernels::WorkerCounts counts(context.kernel.pool->size(), empty_counts(tensor, before));
  kernels::WideStatistics found = pass(before, kernels::PassCounts{.wide = counts.data()});
  const int shift =
      decide_shift(context, tensor, largest_exponent(tensor, found.maximum, wide_exponent),
                   wide_exponent, most, counts.all());
  if (shift != before) found = pass(shift, kernels::PassCounts{});
  set_exponent(context, tensor, wide_exponent + shift);
  add_saturated(tensor, found.saturated);
}

// Writes a tensor with the decided exponent, and counts its bits: `pass` as for narrow_in_one_pass.
template <typename Pass>
void narrow_as_decided(const OpContext& context, const Tensor& tensor, int wide_exponent, int most,
                       const Pass& pass, kernels::Counted counted = kernels::Counted::kAll) {
  if (tensor.predictor.rule->warms_up) {
    return narrow_and_decide(context, tensor, wide_exponent, most, pass);
  }
  const kernels::BitCountKernels& kernel = *context.kernel.table->bit_counts;
  ThreadPool& pool = *context.kernel.pool;
  const bool by_pieces = pool.size() <= kernels::kMaximumParts;
  kernels::PieceCounts counts(kernel, by_pieces ? pool.size() : 0, counted);
  const int shift = decided_shift(tensor, wide_exponent, most);
  set_exponent(context, tensor, wide_exponent + shift);
  const kernels::WideStatistics found =
      pass(shift, kernels::PassCounts{.written = by_pieces ? &counts : nullptr});
  // Mantissas that the pass did not count are counted now.
  const kernels::LargeCounts large =
      counts.elements() == tensor.count()
          ? counts.large()
          : kernels::count_block(kernel, pool, gradient_of(tensor), tensor.count(), counted);
  const int largest = largest_exponent(tensor, found.maximum, wide_exponent);
  check_largest_exponent(context, largest);
  *tensor.predictor.bits +=
      kernels::bit_statistics(large, tensor.count(),
                              {.decided_exponent = *tensor.predictor.predicted,
                               .written_exponent = *tensor.exponent,
                               .largest_exponent = largest},
                              found.saturated);
  add_saturated(tensor, found.saturated);
}

// A value that is computed again: the shift to its block's exponent, from 0 to `most`.
inline int known_shift(const OpContext& context, int wide_exponent, int most) {
  return std::clamp(*context.output().exponent - wide_exponent, 0, most);
}

// Requantises a value whose maximum is known: `write(shift, counts)` writes it narrowed and returns
// how many were clipped. If it writes in place, so that it may run only once, count(counts) counts
// wide values without writing. In dynamic fixed point `counted` of the written mantissas count.
template <typename Write, typename Count = std::nullptr_t>
void narrow_by_maximum(const OpContext& context, uint64_t maximum, int wide_exponent,
                       const Write& write, const Count& count = nullptr,
                       kernels::Counted counted = kernels::Counted::kAll) {
  const Tensor& output = context.output();
  if (context.mode.recomputes) {
    return (void)write(known_shift(context, wide_exponent, 62), kernels::PassCounts{});
  }
  if (context.mode.exponents == ExponentMode::kDecided) {
    if constexpr (std::is_invocable_v<Count, kernels::WideCounts*>) {
      if (output.predictor.rule->warms_up) {
        const int before = decided_shift(output, wide_exponent, 62);
        kernels::WorkerCounts counts(context.kernel.pool->size(), empty_counts(output, before));
        count(counts.data());
        const int shift =
            decide_shift(context, output, largest_exponent(output, maximum, wide_exponent),
                         wide_exponent, 62, counts.all());
        set_exponent(context, output, wide_exponent + shift);
        return add_saturated(output, write(shift, kernels::PassCounts{}));
      }
    }
    return narrow_as_decided(
        context, output, wide_exponent, 62,
        [&](int shift, const kernels::PassCounts& counts) {
          return kernels::WideStatistics{maximum, write(shift, counts)};
        },
        counted);
  }
  const int shift = choose_shift(context, output, maximum, wide_exponent);
  add_saturated(output, write(shift, kernels::PassCounts{}));
}

// The shift that the exponent in the slot, from last time, asks for.
inline int guessed_shift(const Tensor& tensor, int wide_exponent, int most) {
  return std::clamp(*tensor.exponent - wide_exponent, 0, most);
}

// Requantises to the exponent of the block's own maximum: `pass(shift, counts)` computes the wide
// values, writes them narrowed and returns their statistics. The first shift, at most `most`,
// follows from the exponent that the slot still holds from last time. The pass is run again if the
// maximum needs another one. So a wrong guess costs time but changes no bit (METHODS section 2,
// end).
template <typename Pass>
void narrow_by_guess(const OpContext& context, const Tensor& tensor, int wide_exponent, int most,
                     const Pass& pass) {
  const int guess = guessed_shift(tensor, wide_exponent, most);
  kernels::WideStatistics found = pass(guess, kernels::PassCounts{});
  const int exact = limited_shift(tensor, found.maximum, wide_exponent);
  if (found.maximum != 0 && exact != guess) {
    ++context.step.totals->mispredictions;
    found = pass(exact, kernels::PassCounts{});
  }
  set_exact_exponent(context, tensor, found.maximum, wide_exponent);
  add_saturated(tensor, found.saturated);
}

// Requantises a value to its width in one pass, `pass` as above. The shift is at most wide_bits
// (the bits of the wide values' type) minus the bits of the output.
template <typename Pass>
void narrow_in_one_pass(const OpContext& context, int wide_exponent, Pass&& pass,
                        int wide_bits = 32) {
  const Tensor& output = context.output();
  if (context.mode.recomputes) {
    return (void)pass(known_shift(context, wide_exponent, wide_bits - output.bits),
                      kernels::PassCounts{});
  }
  if (context.mode.exponents == ExponentMode::kDecided) {
    return narrow_as_decided(context, output, wide_exponent, wide_bits - output.bits, pass);
  }
  if (context.mode.exponents == ExponentMode::kPredicted) {
    return narrow_by_guess(context, output, wide_exponent, wide_bits - output.bits, pass);
  }
  add_saturated(output, pass(*output.exponent - wide_exponent, kernels::PassCounts{}).saturated);
}

// Requantises a value whose wide results are cheap to compute: `pass(writes, shift, counts)`
// computes them, writes them narrowed to the output if `writes`, and returns their statistics.
template <typename Pass>
void narrow_by_passes(const OpContext& context, int wide_exponent, Pass&& pass,
                      int wide_bits = 32) {
  if (context.mode.recomputes || !finds_maximum_first(context.mode.exponents)) {
    return narrow_in_one_pass(
        context, wide_exponent,
        [&](int shift, const kernels::PassCounts& counts) { return pass(true, shift, counts); },
        wide_bits);
  }
  const uint64_t maximum = pass(false, 0, kernels::PassCounts{}).maximum;
  const int shift = choose_shift(context, context.output(), maximum, wide_exponent);
  add_saturated(context.output(), pass(true, shift, kernels::PassCounts{}).saturated);
}

// The same for 8-bit values, with `pass(out, shift, counts)`: `out` is null if nothing is written.
template <typename Pass>
void narrow_value(const OpContext& context, int wide_exponent, Pass&& pass, int wide_bits = 32) {
  auto* out = context.output().as<int8_t>();
  narrow_by_passes(
      context, wide_exponent,
      [&](bool writes, int shift, const kernels::PassCounts& counts) {
        return pass(writes ? out : nullptr, shift, counts);
      },
      wide_bits);
}

// Counts a wide value, or several equal ones, in the histogram of kCalibrate: by the smallest
// exponent e >= wide_exponent with |value| <= (2^(bits-1) - 1/2) * 2^e. Zeros are counted apart.
inline void count_wide(int64_t* histogram, int64_t wide, int wide_exponent, const Tensor& tensor,
                       int64_t times = 1) {
  if (wide == 0) {
    histogram[kZerosBin] += times;
    return;
  }
  const uint64_t size = magnitude(wide), most = (uint64_t{1} << tensor.bits) - 1;
  int shift = std::max(0, bit_length(size) - tensor.bits);
  while (2 * size > (most << shift)) ++shift;
  const int exponent = std::min(wide_exponent + shift, tensor.exponent_limit);
  histogram[std::clamp(exponent + 128, kZerosBin + 1, kHistogramBins - 1)] += times;
}

// Whether the output's wide values are counted.
inline bool counts_values(const OpContext& context) {
  return context.mode.exponents == ExponentMode::kCalibrate &&
         context.output().histogram != nullptr;
}

// Under kCalibrate counts the output's wide values, wide_of(i) at wide_exponent.
template <typename WideOf>
void calibrate(const OpContext& context, int wide_exponent, const WideOf& wide_of) {
  if (!counts_values(context)) return;
  const Tensor& output = context.output();
  for (int64_t i = 0; i < output.count(); ++i) {
    count_wide(output.histogram, wide_of(i), wide_exponent, output);
  }
}

// Beyond this shift everything rounds to zero, which this one does as well.
constexpr int kMostNarrowing = 62;

// The first shift with which narrow_gradient writes, except in dynamic fixed point.
inline int first_gradient_shift(const Tensor& gradient, int wide_exponent) {
  const int16_t* const predicted = gradient.predictor.predicted;
  if (predicted == nullptr) return guessed_shift(gradient, wide_exponent, kMostNarrowing);
  return std::min(kMostNarrowing, headroom_exponent(*predicted, wide_exponent) - wide_exponent);
}

// Requantises a gradient to its width under the headroom rule (METHODS section 0.7): `pass(shift,
// counts)` computes the wide values anew, writes them narrowed and returns their statistics. Runs
// it once, or again if the block turned out larger than predicted. Without a predictor the exponent
// follows from the block's own maximum (BlockFloat [0112]-[0121]); in dynamic fixed point it is the
// decided one.
template <typename Pass>
void narrow_gradient(const OpContext& context, const Tensor& gradient, int wide_exponent,
                     Pass&& pass) {
  if (context.mode.exponents == ExponentMode::kDecided) {
    return narrow_as_decided(context, gradient, wide_exponent, kMostNarrowing, pass);
  }
  if (gradient.predictor.predicted == nullptr) {
    return narrow_by_guess(context, gradient, wide_exponent, kMostNarrowing, pass);
  }
  const int16_t predicted = *gradient.predictor.predicted;
  int exponent = headroom_exponent(predicted, wide_exponent);
  kernels::WideStatistics found =
      pass(first_gradient_shift(gradient, wide_exponent), kernels::PassCounts{});
  const int measured = exact_exponent(found.maximum, wide_exponent, gradient.bits);
  if (found.maximum == 0) {
    exponent = measured;
  } else {
    if (predicted == kUnmeasured || measured > exponent) {
      exponent = measured;
      ++context.step.totals->re_executions;
      found = pass(measured - wide_exponent, kernels::PassCounts{});
    }
    *gradient.predictor.measured =
        std::max(*gradient.predictor.measured, static_cast<int16_t>(measured));
  }
  set_exponent(context, gradient, exponent);
  *gradient.saturated += found.saturated;
}

}  // namespace mantissa::ops
