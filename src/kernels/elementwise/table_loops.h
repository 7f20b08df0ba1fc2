// The loops of look-ups, clamps and products: part of elementwise_loops.h, which includes this
// file.

inline void count_values(const int8_t* in, int64_t begin, int64_t end, int64_t* counts) noexcept {
  // Four sets of counts, so that equal neighbours do not wait for each other.
  constexpr int kSets = 4;
  constexpr int64_t kBlock = int64_t{1} << 30;
  const auto* bytes = reinterpret_cast<const uint8_t*>(in);
  for (int64_t block = begin; block < end; block += kBlock) {
    const int64_t stop = std::min(end, block + kBlock);
    uint32_t sets[kSets][256] = {};
    int64_t i = block;
    for (; i + kSets <= stop; i += kSets) {
      for (int set = 0; set < kSets; ++set) ++sets[set][bytes[i + set]];
    }
    for (; i < stop; ++i) ++sets[0][bytes[i]];
    for (int value = 0; value < 256; ++value) {
      for (const auto& set : sets) counts[value] += set[value];
    }
  }
}

inline void look_up(const int8_t* in, const int8_t* table, int8_t* out, int64_t begin,
                    int64_t end) noexcept {
  const auto* bytes = reinterpret_cast<const uint8_t*>(in);
  for (int64_t i = begin; i < end; ++i) out[i] = table[bytes[i]];
}

inline void clamp(const int8_t* in, int8_t low, int8_t high, int8_t* out, int64_t begin,
                  int64_t end) noexcept {
  for (int64_t i = begin; i < end; ++i) {
    const int8_t above = in[i] < low ? low : in[i];
    out[i] = above > high ? high : above;
  }
}

inline void within(const int8_t* in, int8_t low, int8_t high, int8_t* out, int64_t begin,
                   int64_t end) noexcept {
  const int8_t* __restrict from = in;
  int8_t* __restrict to = out;
  for (int64_t i = begin; i < end; ++i) {
    to[i] =
        static_cast<int8_t>(static_cast<int>(from[i] >= low) & static_cast<int>(from[i] <= high));
  }
}

inline void extremes(const int8_t* in, int64_t begin, int64_t end, int8_t* least,
                     int8_t* most) noexcept {
  int8_t low = *least, high = *most;
  for (int64_t i = begin; i < end; ++i) {
    low = in[i] < low ? in[i] : low;
    high = in[i] > high ? in[i] : high;
  }
  *least = low;
  *most = high;
}

// Calls row(first, second, count) for the elements [begin, end) of one operand and those that they
// meet in another, which repeats every `period` elements (0: it does not).
template <typename Row>
inline void for_each_row(int64_t period, int64_t begin, int64_t end, const Row& row) {
  const int64_t length = period == 0 ? end - begin : period;
  for (int64_t first = begin; first < end; first += length) {
    row(first, period == 0 ? first : 0, length);
  }
}

inline WideStatistics multiply(const Multiply& args, int64_t begin, int64_t end) noexcept {
  // |product| < 2^14: a fixed exponent below the product's saturates from 7 left shifts on.
  const int up = args.shift < 0 ? std::min(-args.shift, 7) : 0;
  const RoundEven32 round(std::clamp(args.shift, 0, 30));
  const auto limit = static_cast<int32_t>(mantissa_limit(args.bits));
  int32_t low = 0, high = 0;
  int64_t saturated = 0;
  for_each_row(args.period, begin, end, [&](int64_t first, int64_t second, int64_t count) {
    const int8_t* __restrict a = args.a + first;
    const int8_t* __restrict b = args.b + second;
    for (int64_t i = 0; i < count; ++i) {
      const int32_t wide = a[i] * b[i];
      low = wide < low ? wide : low;
      high = wide > high ? wide : high;
    }
    if (args.out == nullptr) return;
    int8_t* __restrict out = args.out + first;
    for (int64_t i = 0; i < count; ++i) {
      const int32_t rounded = round(a[i] * b[i] * (int32_t{1} << up));
      const int32_t narrow = rounded < -limit ? -limit : rounded > limit ? limit : rounded;
      saturated += narrow != rounded;
      out[i] = static_cast<int8_t>(narrow);
    }
  });
  return {std::max(magnitude(low), magnitude(high)), saturated};
}

template <typename T, typename Out>
inline WideStatistics scale_gradient_as(const ScaleGradient& args, int64_t begin,
                                        int64_t end) noexcept {
  const auto limit = mantissa_limit(args.grad_in.bits);
  const RoundEven64 round(args.shift);
  int64_t low = 0, high = 0, saturated = 0;
  for_each_row(args.period, begin, end, [&](int64_t first, int64_t second, int64_t count) {
    const T* __restrict from = args.grad_out.as<T>() + first;
    const auto* __restrict by = reinterpret_cast<const uint8_t*>(args.by) + second;
    Out* __restrict to = args.grad_in.as<Out>() + first;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t wide = from[i] * args.factors[by[i]];
      low = wide < low ? wide : low;
      high = wide > high ? wide : high;
      const int64_t rounded = round(wide);
      const int64_t above = rounded < -limit ? -limit : rounded;
      const int64_t narrow = above > limit ? limit : above;
      saturated += narrow != rounded;
      to[i] = static_cast<Out>(narrow);
    }
  });
  return {std::max(magnitude(low), magnitude(high)), saturated};
}

inline WideStatistics scale_gradient(const ScaleGradient& args, int64_t begin,
                                     int64_t end) noexcept {
  return with_wide_gradient_type(args.grad_out.bits, [&](auto from) {
    return with_gradient_type_from<decltype(from)>(args.grad_in.bits, [&](auto to) {
      return scale_gradient_as<decltype(from), decltype(to)>(args, begin, end);
    });
  });
}

inline void sum_products(ConstMantissaSpan grad, const int8_t* in, int64_t channels,
                         int64_t begin_row, int64_t end_row, int64_t* sums) noexcept {
  with_wide_gradient_type(grad.bits, [&](auto type) {
    using T = decltype(type);
    using Product = std::conditional_t<sizeof(T) <= 2, int32_t, int64_t>;
    const T* from = grad.as<T>();
    for (int64_t row = begin_row; row < end_row; ++row) {
      for (int64_t c = 0; c < channels; ++c) {
        const int64_t i = row * channels + c;
        sums[c] += Product{from[i]} * in[i];
      }
    }
  });
}

template <typename T, typename Out>
inline WideStatistics scale_within_as(const ScaleWithin& args, int64_t begin,
                                      int64_t end) noexcept {
  const auto limit = mantissa_limit(args.grad_in.bits);
  const RoundEven64 round(args.shift);
  const T* __restrict from = args.grad_out.as<T>();
  const int8_t* __restrict by = args.by;
  Out* __restrict to = args.grad_in.as<Out>();
  int64_t low = 0, high = 0, saturated = 0;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t wide = by[i] >= args.low && by[i] <= args.high ? from[i] * args.factor : 0;
    low = wide < low ? wide : low;
    high = wide > high ? wide : high;
    const int64_t rounded = round(wide);
    const int64_t above = rounded < -limit ? -limit : rounded;
    const int64_t narrow = above > limit ? limit : above;
    saturated += narrow != rounded;
    to[i] = static_cast<Out>(narrow);
  }
  return {std::max(magnitude(low), magnitude(high)), saturated};
}

// Calls function(T{}, Out{}) with the types of the gradients.
template <typename Function>
inline WideStatistics with_scaled_types(const ScaleWithin& args, const Function& function) {
  return with_wide_gradient_type(args.grad_out.bits, [&](auto from) {
    return with_gradient_type_from<decltype(from)>(args.grad_in.bits,
                                                   [&](auto to) { return function(from, to); });
  });
}

inline WideStatistics scale_within(const ScaleWithin& args, int64_t begin, int64_t end) noexcept {
  return with_scaled_types(args, [&](auto from, auto to) {
    return scale_within_as<decltype(from), decltype(to)>(args, begin, end);
  });
}

inline int64_t sum_by_table(ConstMantissaSpan grad, const int8_t* in, const int8_t* table,
                            int64_t begin, int64_t end) noexcept {
  return with_wide_gradient_type(grad.bits, [&](auto type) {
    const auto* from = grad.as<decltype(type)>();
    const auto* bytes = reinterpret_cast<const uint8_t*>(in);
    int64_t sum = 0;
    for (int64_t i = begin; i < end; ++i) sum += int64_t{from[i]} * table[bytes[i]];
    return sum;
  });
}
