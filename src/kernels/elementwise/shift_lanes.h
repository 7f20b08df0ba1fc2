// Right shifts of gradients, one per channel.
//
// Include inside an anonymous namespace of mantissa::kernels, after add_lanes.h.

// Some adjacent rows, which share the shifts that are loaded.
template <int kRows, typename T>
inline void shift_rows(const ShiftChannels& args, int64_t first_row) noexcept {
  constexpr int64_t kWords = sizeof(Words) / sizeof(int32_t);
  const T* const from = args.in.as<T>() + first_row * args.channels;
  T* const to = args.out.as<T>() + first_row * args.channels;
  const Words one = in_all_lanes<Words, int32_t>(1);
  int64_t c = 0;
  for (; c + kWords <= args.channels; c += kWords) {
    const Words shift = load_words(args.shifts + c);
    const Words below_half = ((one << shift) - one) >> 1, odd = (shift > 0) & one;
    for (int row = 0; row < kRows; ++row) {
      const Words n = load_words(from + row * args.channels + c);
      store_words(to + row * args.channels + c, (n + below_half + ((n >> shift) & odd)) >> shift);
    }
  }
  for (; c < args.channels; ++c) {
    const RoundEven32 round(args.shifts[c]);
    for (int row = 0; row < kRows; ++row) {
      to[row * args.channels + c] = static_cast<T>(round(from[row * args.channels + c]));
    }
  }
}

inline void shift_channels(const ShiftChannels& args, int64_t begin_row, int64_t end_row) noexcept {
  constexpr int kRows = 4;
  with_gradient_type(args.in.bits, [&](auto type) {
    using T = decltype(type);
    int64_t row = begin_row;
    for (; row + kRows <= end_row; row += kRows) shift_rows<kRows, T>(args, row);
    for (; row < end_row; ++row) shift_rows<1, T>(args, row);
  });
}
