// The element-wise loops, written once: reference.cpp compiles them plainly, the files of the
// instruction sets compile the same source for wider vectors. Integers only, so the bits are equal.
//
// Include inside an anonymous namespace of mantissa::kernels, after elementwise.h and rounding.h.

constexpr int64_t kLimit8 = mantissa_limit(8);
constexpr int64_t kLimit16 = mantissa_limit(16);

inline WideStatistics requantise(const Requantise& args, int64_t begin, int64_t end) noexcept {
  const int32_t* __restrict wide = args.wide;
  int8_t* __restrict out = args.out;
  if (out == nullptr) {
    int32_t low = 0, high = 0;
    for (int64_t i = begin; i < end; ++i) {
      low = wide[i] < low ? wide[i] : low;
      high = wide[i] > high ? wide[i] : high;
    }
    return {std::max(magnitude(low), magnitude(high)), 0};
  }
  int64_t saturated = 0;
  if (args.shift < 0 || args.shift > 30) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t rounded = rescale_rne(wide[i], args.shift);
      out[i] = static_cast<int8_t>(saturate(rounded, kLimit8));
      saturated += out[i] != rounded;
    }
    return {0, saturated};
  }
  // rne in 32 bits: the half never overflows because it is added after one bit is shifted out.
  const int shift = args.shift;
  const int32_t half = shift == 0 ? 0 : (int32_t{1} << (shift - 1)) - 1;
  const int32_t odd_mask = shift == 0 ? 0 : 1;
  for (int64_t block = begin; block < end; block += 1 << 20) {
    const int64_t stop = std::min(end, block + (1 << 20));
    int32_t clipped = 0;
    for (int64_t i = block; i < stop; ++i) {
      const int32_t remainder = wide[i] & (half * 2 + odd_mask);
      const int32_t floor = wide[i] >> shift;
      const int32_t rounded = floor + ((remainder + half + (floor & odd_mask)) >> shift);
      const int32_t low = rounded < -127 ? -127 : rounded;
      const int32_t narrow = low > 127 ? 127 : low;
      clipped += narrow != rounded;
      out[i] = static_cast<int8_t>(narrow);
    }
    saturated += clipped;
  }
  return {0, saturated};
}

inline WideStatistics normalise_input(const NormaliseInput& args, int64_t begin_row,
                                      int64_t end_row) noexcept {
  WideStatistics statistics;
  for (int64_t row = begin_row; row < end_row; ++row) {
    for (int64_t c = 0; c < args.channels; ++c) {
      const int64_t i = row * args.channels + c;
      const int64_t wide = int64_t{args.pixels[i]} - args.mean[c];
      statistics.maximum = std::max(statistics.maximum, magnitude(wide));
      if (args.out == nullptr) continue;
      const int64_t rounded = rescale_rne(wide, args.shift);
      args.out[i] = static_cast<int8_t>(saturate(rounded, kLimit8));
      statistics.saturated += args.out[i] != rounded;
    }
  }
  return statistics;
}

// rescale_rne in int32 for 8-bit values: left shifts up to kAlignBits8, right shifts up to 30.
inline int32_t align8(int32_t value, int left, int right) {
  const int32_t up = value << left;
  const int32_t floor = up >> right;
  const int32_t mask = (int32_t{1} << right) - 1;
  const int32_t half = mask >> 1;
  const int32_t odd = right == 0 ? 0 : (floor & 1);
  return floor + (((up & mask) + half + odd) >> right);
}

inline WideStatistics add(const Add& args, int64_t begin, int64_t end) noexcept {
  const int8_t* __restrict a = args.a;
  const int8_t* __restrict b = args.b;
  int8_t* __restrict out = args.out;
  const int left_a = args.shift_a < 0 ? -args.shift_a : 0;
  const int left_b = args.shift_b < 0 ? -args.shift_b : 0;
  const int right_a = args.shift_a > 0 ? std::min(args.shift_a, 30) : 0;
  const int right_b = args.shift_b > 0 ? std::min(args.shift_b, 30) : 0;
  const int32_t floor = args.relu ? 0 : INT32_MIN;
  if (out == nullptr) {
    int32_t low = 0, high = 0;
    for (int64_t i = begin; i < end; ++i) {
      const int32_t sum = align8(a[i], left_a, right_a) + align8(b[i], left_b, right_b);
      const int32_t wide = sum < floor ? floor : sum;
      low = wide < low ? wide : low;
      high = wide > high ? wide : high;
    }
    return {std::max(magnitude(low), magnitude(high)), 0};
  }
  // A fixed exponent may lie below the sum's (left shift) or far above it.
  const int up = args.shift < 0 ? std::min(-args.shift, 30) : 0;
  const int down = args.shift > 0 ? std::min(args.shift, 62) : 0;
  int64_t saturated = 0;
  for (int64_t i = begin; i < end; ++i) {
    const int32_t sum = align8(a[i], left_a, right_a) + align8(b[i], left_b, right_b);
    const int64_t wide = int64_t{sum < floor ? floor : sum} * (int64_t{1} << up);
    const int64_t rounded = shift_right_rne(wide, down);
    const int64_t narrow = saturate(rounded, kLimit8);
    saturated += narrow != rounded;
    out[i] = static_cast<int8_t>(narrow);
  }
  return {0, saturated};
}

inline WideStatistics add_gradients(const AddGradients& args, int64_t begin, int64_t end) noexcept {
  const int16_t* __restrict a = args.a;
  const int16_t* __restrict b = args.b;
  int16_t* __restrict out = args.out;
  // One addend may lie below the alignment limit: its right shift, the other's left shift.
  const int64_t up_a = int64_t{1} << (args.shift_a < 0 ? -args.shift_a : 0);
  const int64_t up_b = int64_t{1} << (args.shift_b < 0 ? -args.shift_b : 0);
  const int down_a = args.shift_a > 0 ? std::min(args.shift_a, 40) : 0;
  const int down_b = args.shift_b > 0 ? std::min(args.shift_b, 40) : 0;
  int64_t low = 0, high = 0, saturated = 0;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t wide =
        shift_right_rne(a[i] * up_a, down_a) + shift_right_rne(b[i] * up_b, down_b);
    low = wide < low ? wide : low;
    high = wide > high ? wide : high;
    const int64_t rounded = shift_right_rne(wide, args.shift);
    const int64_t narrow = saturate(rounded, kLimit16);
    saturated += narrow != rounded;
    out[i] = static_cast<int16_t>(narrow);
  }
  return {std::max(magnitude(low), magnitude(high)), saturated};
}

inline void relu(const int8_t* in, int8_t* out, int64_t begin, int64_t end) noexcept {
  const int8_t* __restrict from = in;
  int8_t* __restrict to = out;
  for (int64_t i = begin; i < end; ++i) to[i] = from[i] > 0 ? from[i] : int8_t{0};
}

inline void relu_gradient(const int8_t* output, const int16_t* grad_out, int16_t* grad_in,
                          int64_t begin, int64_t end) noexcept {
  const int8_t* __restrict out = output;
  const int16_t* __restrict from = grad_out;
  int16_t* __restrict to = grad_in;
  for (int64_t i = begin; i < end; ++i) to[i] = out[i] > 0 ? from[i] : int16_t{0};
}

inline void sum_rows(const int16_t* in, int64_t channels, int64_t begin_row, int64_t end_row,
                     int64_t* sums) noexcept {
  int64_t* __restrict to = sums;
  for (int64_t row = begin_row; row < end_row; ++row) {
    const int16_t* __restrict from = in + row * channels;
    for (int64_t c = 0; c < channels; ++c) to[c] += from[c];
  }
}

inline void channel_maxima(const int32_t* wide, int64_t channels, int64_t begin_row,
                           int64_t end_row, uint32_t* maxima) noexcept {
  uint32_t* __restrict to = maxima;
  for (int64_t row = begin_row; row < end_row; ++row) {
    const int32_t* __restrict from = wide + row * channels;
    for (int64_t c = 0; c < channels; ++c) {
      const uint32_t size = static_cast<uint32_t>(from[c] < 0 ? -from[c] : from[c]);
      to[c] = size > to[c] ? size : to[c];
    }
  }
}

inline int64_t requantise_channels(const int32_t* wide, const int32_t* shifts, int64_t channels,
                                   int64_t begin_row, int64_t end_row, int8_t* out) noexcept {
  int64_t saturated = 0;
  for (int64_t row = begin_row; row < end_row; ++row) {
    const int32_t* __restrict from = wide + row * channels;
    int8_t* __restrict to = out + row * channels;
    for (int64_t c = 0; c < channels; ++c) {
      const int64_t rounded = shift_right_rne(from[c], shifts[c]);
      const int64_t narrow = saturate(rounded, kLimit8);
      saturated += narrow != rounded;
      to[c] = static_cast<int8_t>(narrow);
    }
  }
  return saturated;
}
