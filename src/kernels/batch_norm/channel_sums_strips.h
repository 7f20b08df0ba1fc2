// Sums of values of 8 bits, in strips.
//
// Include inside an anonymous namespace of mantissa::kernels, after strips.h and, in a namespace
// `loops`, batch_norm_loops.h.

// This many sums, and squares, of bytes fit int32, and this many products of q and q + 128.
constexpr int64_t kExactByteRows = 32768;

// Sums of a strip, in an order of the instruction set's own; extremes in the order of the channels.
struct alignas(64) ByteSumsOfStrip {
  int32_t sums[kLanes] = {}, squares[kLanes] = {};
  int8_t low[kLanes], high[kLanes];

  ByteSumsOfStrip() {
    std::fill_n(low, kLanes, int8_t{127});
    std::fill_n(high, kLanes, int8_t{-128});
  }
};

// `add` as for sum_strips; place(lane) is the place at which it puts a lane's sums.
template <typename Add, typename Place>
MANTISSA_INLINE void channel_sums_in_strips(ConstMantissaSpan in, int64_t channels,
                                            int64_t begin_row, int64_t end_row,
                                            const ChannelSums& sums, Add&& add, Place&& place) {
  const LongRows rows(channels, begin_row, end_row);
  sum_strips<ByteSumsOfStrip>(
      rows, channels, 1, kExactByteRows, add, [&](const ByteSumsOfStrip& found, int64_t channel) {
        for_each_lane(channel, channels, [&](int64_t lane, int64_t c) {
          sums.sum[c] += found.sums[place(lane)];
          sums.sum_squares[c] += found.squares[place(lane)];
          sums.minimum[c] = std::min<int32_t>(sums.minimum[c], found.low[lane]);
          sums.maximum[c] = std::max<int32_t>(sums.maximum[c], found.high[lane]);
        });
      });
  loops::channel_sums(in, channels, rows.rest_row, end_row, sums);
}
