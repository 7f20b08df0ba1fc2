// Products of each channel with weights of its own, added up over taps, in vectors of channels.
//
// Include inside an anonymous namespace of mantissa::kernels, after wide.h and the set's
// lanes of integers.

// Adds up kVectors vectors of channels of one pixel, `in` elements from each tap's first.
template <int kVectors, typename In>
inline void add_up_channels(const ChannelProducts& args, int64_t in, int64_t channel,
                            int64_t* sums) noexcept {
  Lanes total[kVectors];
  _Pragma("GCC unroll 8") for (int v = 0; v < kVectors; ++v) {
    total[v] = load(args.first + channel + v * kLanes);
  }
  for (int64_t i = 0; i < args.tap_count; ++i) {
    const ChannelProducts::Tap& tap = args.taps[i];
    const In* const values = tap.in.as<In>() + in + channel;
    const int64_t* const weights = tap.weights + channel;
    _Pragma("GCC unroll 8") for (int v = 0; v < kVectors; ++v) {
      total[v] += product(load(values + v * kLanes), load(weights + v * kLanes));
    }
  }
  _Pragma("GCC unroll 8") for (int v = 0; v < kVectors; ++v) {
    std::memcpy(sums + channel + v * kLanes, &total[v], sizeof(Lanes));
  }
}

template <typename In>
inline void add_up_pixels(const ChannelProducts& args) noexcept {
  constexpr int kVectors = 4;
  for (int64_t pixel = 0; pixel < args.pixels; ++pixel) {
    const int64_t in = pixel * args.in_step;
    int64_t* const sums = args.sums + pixel * args.sum_step;
    int64_t c = 0;
    for (; c + kVectors * kLanes <= args.channels; c += kVectors * kLanes) {
      add_up_channels<kVectors, In>(args, in, c, sums);
    }
    for (; c + kLanes <= args.channels; c += kLanes) add_up_channels<1, In>(args, in, c, sums);
    for (; c < args.channels; ++c) {
      int64_t sum = args.first[c];
      for (int64_t i = 0; i < args.tap_count; ++i) {
        sum += args.taps[i].in.as<In>()[in + c] * args.taps[i].weights[c];
      }
      sums[c] = sum;
    }
  }
}

inline void channel_products(const ChannelProducts& args) noexcept {
  const int bits = args.tap_count == 0 ? 8 : args.taps[0].in.bits;
  with_value_type(bits, [&](auto type) { add_up_pixels<decltype(type)>(args); });
}
