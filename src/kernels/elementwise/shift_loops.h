// Right shifts of gradients, one per channel.
//
// Include after kStrip is defined (elementwise_loops.h).

template <typename T, typename Width>
inline void shift_strip(const ShiftChannels& args, int64_t first, Width width, int64_t begin_row,
                        int64_t end_row) noexcept {
  int32_t shift[kStrip], below_half[kStrip], odd[kStrip];
  for (int64_t c = 0; c < width; ++c) {
    shift[c] = args.shifts[first + c];
    below_half[c] = ((int32_t{1} << shift[c]) - 1) >> 1;
    odd[c] = shift[c] == 0 ? 0 : 1;
  }
  const T* in = args.in.as<T>() + first;
  T* out = args.out.as<T>() + first;
  for (int64_t row = begin_row; row < end_row; ++row) {
    const T* __restrict from = in + row * args.channels;
    T* __restrict to = out + row * args.channels;
    for (int64_t c = 0; c < width; ++c) {
      const int32_t floor = from[c] >> shift[c];
      to[c] = static_cast<T>((from[c] + below_half[c] + (floor & odd[c])) >> shift[c]);
    }
  }
}

template <typename T>
inline void shift_channels_of(const ShiftChannels& args, int64_t begin_row,
                              int64_t end_row) noexcept {
  for (int64_t first = 0; first < args.channels; first += kStrip) {
    const int64_t left = args.channels - first;
    if (left >= kStrip) {
      shift_strip<T>(args, first, std::integral_constant<int64_t, kStrip>(), begin_row, end_row);
    } else {
      shift_strip<T>(args, first, left, begin_row, end_row);
    }
  }
}

inline void shift_channels(const ShiftChannels& args, int64_t begin_row, int64_t end_row) noexcept {
  with_gradient_type(args.in.bits, [&](auto type) {
    shift_channels_of<decltype(type)>(args, begin_row, end_row);
  });
}
