// Softmax of several examples at once, one per lane. The reference does the remaining examples, and
// exponents above 0, which no network has; row_loops.h does rows of many classes.
//
// Include inside an anonymous namespace of mantissa::kernels, after softmax.h, targets.h and the
// vectors of one instruction set (lanes/).

#include "kernels/common/round_even_loops.h"
// Built on these.
#include "kernels/lanes/arithmetic.h"
// Built on that.
#include "kernels/lanes/exp2.h"

constexpr int64_t kLaneClasses = 64;

inline bool is_for_reference(const SoftmaxCrossEntropy& args) { return args.exponent > 0; }
inline bool is_for_rows(const SoftmaxCrossEntropy& args) {
  return !is_for_reference(args) && args.classes > kLaneClasses;
}

// kLanes rows of logits, turned into columns, and their largest.
struct Columns {
  alignas(64) int32_t values[kLaneClasses * kLanes];
  int64_t classes;
  Lanes largest, guess;  // the first of the largest

  Columns(const SoftmaxCrossEntropy& args, int64_t row) : classes(args.classes) {
    const int32_t* const logits = args.logits + row * classes;
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      for (int64_t c = 0; c < classes; ++c) values[c * kLanes + lane] = logits[lane * classes + c];
    }
    largest = column(0);
    guess = Lanes{};
    for (int64_t c = 1; c < classes; ++c) {
      const Lanes logit = column(c);
      guess = logit > largest ? all(c) : guess;
      largest = logit > largest ? logit : largest;
    }
  }
  Lanes column(int64_t c) const { return load(values + c * kLanes); }
  void set_column(int64_t c, Lanes numbers) { store(values + c * kLanes, numbers); }
};

// The powers exp(logit - largest) by their logarithms: natural_to_log2_q16, of positive sign, for
// exp2_q30_lanes.
struct Powers {
  UnsignedLanes below_half, odd;
  int shift;

  explicit Powers(int exponent) {
    const RoundEven64 round(-exponent);
    below_half = wrapping(all(round.below_half));
    odd = wrapping(all(round.odd));
    shift = round.shift;
  }
  // -log2 in Q16 of a logit's distance from the largest, which is below 2^32.
  UnsignedLanes logarithm(Lanes below) const {
    const UnsignedLanes n = wrapping(unsigned_product(below, all(kLog2EQ16)));
    const Lanes rounded = as_signed((n + below_half + ((n >> shift) & odd)) >> shift);
    constexpr int64_t kMost = int64_t{1} << 40;
    return wrapping(rounded > kMost ? all(kMost) : rounded);
  }
};

// log2_q24 on lanes.
inline Lanes log2_q24_lanes(Lanes numbers) noexcept {
  Lanes whole, square;
  for (int64_t lane = 0; lane < kLanes; ++lane) {
    whole[lane] = bit_length(static_cast<uint64_t>(numbers[lane])) - 1;
    square[lane] = whole[lane] >= 31 ? numbers[lane] >> (whole[lane] - 31)
                                     : numbers[lane] << (31 - whole[lane]);
  }
  UnsignedLanes result = wrapping(whole);
  for (int bit = 0; bit < 24; ++bit) {
    const UnsignedLanes product = wrapping(unsigned_product(square, square)) >> 31;
    const UnsignedLanes carry = product >> 32;
    square = as_signed(product >> carry);
    result = (result << 1) | carry;
  }
  return as_signed(result);
}

// Powers divided by their sums, in Q30, to nearest. A power is at most 2^30, a sum from there to
// 2^48. The reciprocal, at most 1 too small in Q62, makes the quotient too small by less than 1 1/4
// before it is rounded, so that one correction is enough.
struct Quotients {
  Lanes sums, half_sums, reciprocals, high_sums;

  explicit Quotients(Lanes sums_) : sums(sums_) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      const auto sum = static_cast<uint64_t>(sums[lane]);
      reciprocals[lane] =
          static_cast<int64_t>(std::min<uint64_t>((uint64_t{1} << 62) / sum, UINT32_MAX));
    }
    half_sums = as_signed(wrapping(sums) >> 1);
    high_sums = as_signed(wrapping(sums) >> 32);
  }
  Lanes operator()(Lanes powers) const {
    const Lanes quotient = as_signed(wrapping(unsigned_product(powers, reciprocals)) >> 32);
    const UnsignedLanes product = wrapping(unsigned_product(quotient, sums)) +
                                  (wrapping(unsigned_product(quotient, high_sums)) << 32);
    const Lanes rest = as_signed((wrapping(powers) << 30) + wrapping(half_sums) - product);
    return quotient - (rest >= sums);  // a comparison that holds is -1
  }
};

// Replaces the columns by their powers; returns their sums.
inline Lanes raise(Columns& columns, const Powers& powers) noexcept {
  Lanes sums = {};
  for (int64_t c = 0; c < columns.classes; ++c) {
    const Lanes power = exp2_q30_lanes(powers.logarithm(columns.largest - columns.column(c)));
    columns.set_column(c, power);
    sums += power;
  }
  return sums;
}

// The loss of a row in Q24, from log2 of the sum of its powers in Q24, log2 of the label's power in
// Q16, and the sum of the logarithms of all, of positive sign.
inline int64_t lost_of(const SoftmaxCrossEntropy& args, const SoftmaxTargets& targets,
                       int64_t log2_sum, int64_t log2_label, int64_t logarithms) noexcept {
  const int64_t lost = log2_sum - log2_label * 256;
  if (targets.other == 0) return lost;
  const __int128 shared = __int128{targets.other} * (-logarithms - args.classes * log2_label);
  return lost - divide_rne(shared, int64_t{1} << 22);
}

// Adds the losses of kLanes rows to the sums; `logarithms` are sums over classes.
inline void add_losses(const SoftmaxCrossEntropy& args, const SoftmaxTargets& targets, int64_t row,
                       const Columns& columns, Lanes sums, Lanes logarithms,
                       LossSums& total) noexcept {
  const Lanes log2_sums = log2_q24_lanes(sums) - (int64_t{30} << 24);
  for (int64_t lane = 0; lane < kLanes; ++lane) {
    if (args.row_weights().factor(row + lane) == 0) continue;
    const int64_t label = args.labels[row + lane];
    const int64_t log2_label = natural_to_log2_q16(
        columns.values[label * kLanes + lane] - columns.largest[lane], args.exponent);
    const int64_t lost = lost_of(args, targets, log2_sums[lane], log2_label, logarithms[lane]);
    total.loss_q24 += args.row_weights().weighted(lost, row + lane);
    total.correct += columns.guess[lane] == label;
  }
}

inline LossSums loss_of_columns(const SoftmaxCrossEntropy& args, int64_t begin_row,
                                int64_t end_row) noexcept {
  const SoftmaxTargets targets(args);
  const Powers powers(args.exponent);
  const int64_t middle = end_row - (end_row - begin_row) % kLanes;
  LossSums total = kSoftmaxReference.loss(args, middle, end_row);
  for (int64_t row = begin_row; row < middle; row += kLanes) {
    const Columns columns(args, row);
    Lanes sums = {}, logarithms = {};
    for (int64_t c = 0; c < args.classes; ++c) {
      const UnsignedLanes logarithm = powers.logarithm(columns.largest - columns.column(c));
      logarithms += as_signed(logarithm);
      sums += exp2_q30_lanes(logarithm);
    }
    add_losses(args, targets, row, columns, sums, logarithms, total);
  }
  return total;
}

// Calls visit(columns, quotients, row) for kLanes rows at a time, whose columns are their powers;
// returns the row after the last.
template <typename Visit>
inline int64_t for_each_quotient(const SoftmaxCrossEntropy& args, int64_t begin_row,
                                 int64_t end_row, Visit&& visit) noexcept {
  const Powers powers(args.exponent);
  const int64_t middle = end_row - (end_row - begin_row) % kLanes;
  for (int64_t row = begin_row; row < middle; row += kLanes) {
    Columns columns(args, row);
    const Quotients quotients(raise(columns, powers));
    visit(columns, quotients, row);
  }
  return middle;
}

// Writes columns as rows from `row` on.
template <typename T>
inline void store_rows(const Columns& columns, int64_t row, T* out) noexcept {
  for (int64_t lane = 0; lane < kLanes; ++lane) {
    T* const to = out + (row + lane) * columns.classes;
    for (int64_t c = 0; c < columns.classes; ++c) {
      to[c] = static_cast<T>(columns.values[c * kLanes + lane]);
    }
  }
}

// Narrows wide gradients, and counts.
struct GradientLanes {
  RoundEvenLanes round;
  Lanes limit;
  Lanes maximum = {}, exact = {};
  int64_t blocks = 0;
  WideCounts* counts;  // or null

  GradientLanes(int shift, int bits, WideCounts* wide_counts)
      : round(RoundEven64(shift)), limit(all(mantissa_limit(bits))), counts(wide_counts) {}
  Lanes operator()(Lanes wide) {
    if (counts != nullptr) [[unlikely]] {
      for (int64_t lane = 0; lane < kLanes; ++lane) counts->add(magnitude(wide[lane]));
    }
    const Lanes size = wide < 0 ? -wide : wide;
    maximum = size > maximum ? size : maximum;
    const Lanes rounded = round(wide);
    const Lanes below = rounded > limit ? limit : rounded;
    const Lanes narrow = below < -limit ? -limit : below;
    exact += narrow == rounded;  // a comparison that holds is -1
    ++blocks;
    return narrow;
  }
  WideStatistics statistics() const {
    WideStatistics statistics;
    statistics.saturated = blocks * kLanes;
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      statistics.maximum = std::max(statistics.maximum, static_cast<uint64_t>(maximum[lane]));
      statistics.saturated += exact[lane];
    }
    return statistics;
  }
};

template <typename T>
inline WideStatistics gradient_of_columns(const SoftmaxCrossEntropy& args, int shift,
                                          MantissaSpan grad, int64_t begin_row,
                                          int64_t end_row) noexcept {
  const SoftmaxTargets targets(args);
  GradientLanes narrowing(shift, grad.bits, args.counts);
  const int64_t middle = for_each_quotient(
      args, begin_row, end_row, [&](Columns& columns, const Quotients& quotients, int64_t row) {
        Lanes labels, factors;
        bool all_count_one = true;
        for (int64_t lane = 0; lane < kLanes; ++lane) {
          labels[lane] = args.labels[row + lane];
          factors[lane] = args.row_weights().factor(row + lane);
          all_count_one &= factors[lane] == 1;
        }
        for (int64_t c = 0; c < columns.classes; ++c) {
          const Lanes target = labels == c ? all(targets.label) : all(targets.other);
          Lanes wide = quotients(columns.column(c)) - target;
          if (!all_count_one) wide *= factors;
          columns.set_column(c, narrowing(wide));
        }
        store_rows(columns, row, grad.as<T>());
      });
  WideStatistics statistics = kSoftmaxReference.gradient(args, shift, grad, middle, end_row);
  statistics += narrowing.statistics();
  return statistics;
}

inline void probabilities_of_columns(const SoftmaxCrossEntropy& args, int32_t* out,
                                     int64_t begin_row, int64_t end_row) noexcept {
  const int64_t middle = for_each_quotient(
      args, begin_row, end_row, [&](Columns& columns, const Quotients& quotients, int64_t row) {
        for (int64_t c = 0; c < columns.classes; ++c) {
          columns.set_column(c, quotients(columns.column(c)));
        }
        store_rows(columns, row, out);
      });
  kSoftmaxReference.probabilities(args, out, middle, end_row);
}
