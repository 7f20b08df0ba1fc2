// Softmax of one example at a time, of whose classes each lane has one: for rows of many classes,
// which are read as they lie.
//
// Include inside an anonymous namespace of mantissa::kernels, after lane_loops.h.

// A row of logits whose last lanes, after its classes, have the largest logit: their powers are
// exactly 2^30, and their logarithms 0.
struct ClassRow {
  const int32_t* logits;
  int64_t classes;
  const Powers& powers;
  int32_t largest;

  ClassRow(const SoftmaxCrossEntropy& args, const Powers& powers_, int64_t row)
      : logits(args.logits + row * args.classes),
        classes(args.classes),
        powers(powers_),
        largest(INT32_MIN) {
    for (int64_t c = 0; c < classes; ++c) largest = std::max(largest, logits[c]);
  }
  int64_t lanes_behind() const { return (kLanes - classes % kLanes) % kLanes; }
  Lanes at(int64_t c) const {
    if (c + kLanes <= classes) return load(logits + c);
    Lanes last = all(largest);
    for (int64_t lane = 0; c + lane < classes; ++lane) last[lane] = logits[c + lane];
    return last;
  }
  UnsignedLanes logarithm(int64_t c) const { return powers.logarithm(all(largest) - at(c)); }

  // The sums over the classes of powers and, of positive sign, of their logarithms.
  struct Sums {
    int64_t powers = 0, logarithms = 0;
  };
  Sums sums() const {
    Lanes powers_sums = {}, logarithms = {};
    for (int64_t c = 0; c < classes; c += kLanes) {
      const UnsignedLanes logarithm_lanes = logarithm(c);
      logarithms += as_signed(logarithm_lanes);
      powers_sums += exp2_q30_lanes(logarithm_lanes);
    }
    return {lane_sum(powers_sums) - (lanes_behind() << 30), lane_sum(logarithms)};
  }
};

// The classes of the lanes from c on.
inline Lanes classes_from(int64_t c) noexcept {
  Lanes classes;
  for (int64_t lane = 0; lane < kLanes; ++lane) classes[lane] = c + lane;
  return classes;
}

// out[0, count) = the first lanes.
template <typename T>
inline void store_lanes(Lanes lanes, int64_t count, T* out) noexcept {
  int32_t words[kLanes];
  store(words, lanes);
  if (count >= kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) out[lane] = static_cast<T>(words[lane]);
  } else {
    for (int64_t lane = 0; lane < count; ++lane) out[lane] = static_cast<T>(words[lane]);
  }
}

inline LossSums loss_of_rows(const SoftmaxCrossEntropy& args, int64_t begin_row,
                             int64_t end_row) noexcept {
  const SoftmaxTargets targets(args);
  const Powers powers(args.exponent);
  LossSums total;
  for (int64_t i = begin_row; i < end_row; ++i) {
    if (args.row_weights().factor(i) == 0) continue;
    const ClassRow row(args, powers, i);
    const ClassRow::Sums sums = row.sums();
    const int64_t guess = std::find(row.logits, row.logits + row.classes, row.largest) - row.logits;
    const int64_t log2_sum = log2_q24(static_cast<uint64_t>(sums.powers)) - (int64_t{30} << 24);
    const int64_t below = int64_t{row.logits[args.labels[i]]} - row.largest;
    const int64_t lost = lost_of(args, targets, log2_sum, natural_to_log2_q16(below, args.exponent),
                                 sums.logarithms);
    total.loss_q24 += args.row_weights().weighted(lost, i);
    total.correct += guess == args.labels[i];
  }
  return total;
}

template <typename T>
inline WideStatistics gradient_of_rows(const SoftmaxCrossEntropy& args, int shift,
                                       MantissaSpan grad, int64_t begin_row,
                                       int64_t end_row) noexcept {
  const SoftmaxTargets targets(args);
  const Powers powers(args.exponent);
  GradientLanes narrowing(shift, grad.bits, args.counts);
  for (int64_t i = begin_row; i < end_row; ++i) {
    T* const out = grad.as<T>() + i * args.classes;
    const int64_t factor = args.row_weights().factor(i);
    if (factor == 0) {
      std::fill_n(out, args.classes, T{0});
      continue;
    }
    const ClassRow row(args, powers, i);
    const Quotients quotients(all(row.sums().powers));
    const Lanes labels = all(args.labels[i]), ends = all(args.classes);
    Lanes classes = classes_from(0);
    for (int64_t c = 0; c < args.classes; c += kLanes, classes += kLanes) {
      const Lanes target = labels == classes ? all(targets.label) : all(targets.other);
      Lanes wide = quotients(exp2_q30_lanes(row.logarithm(c))) - target;
      if (factor != 1) wide *= factor;
      if (c + kLanes > args.classes) wide = classes < ends ? wide : Lanes{};
      store_lanes(narrowing(wide), args.classes - c, out + c);
    }
  }
  return narrowing.statistics();
}

inline void probabilities_of_rows(const SoftmaxCrossEntropy& args, int32_t* out, int64_t begin_row,
                                  int64_t end_row) noexcept {
  const Powers powers(args.exponent);
  for (int64_t i = begin_row; i < end_row; ++i) {
    const ClassRow row(args, powers, i);
    const Quotients quotients(all(row.sums().powers));
    for (int64_t c = 0; c < args.classes; c += kLanes) {
      store_lanes(quotients(exp2_q30_lanes(row.logarithm(c))), args.classes - c,
                  out + i * args.classes + c);
    }
  }
}
