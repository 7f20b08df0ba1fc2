// Any number of channels seen as strips of kLanes: the vectorised loops of batch norm go over
// these.
//
// Include inside an anonymous namespace of mantissa::kernels, after kLanes, a power of two.

// Rows seen as fewer and longer ones, whose length is a multiple of kLanes: their channel c is
// channel c % channels. Fewer than kLanes rows are left over.
struct LongRows {
  int64_t first;     // element at which they begin
  int64_t channels;  // of a long row, which is also the step from one to the next
  int64_t rows;
  int64_t rest_row;  // the first row that is left over

  LongRows(int64_t short_channels, int64_t begin_row, int64_t end_row) {
    const int64_t divisor = std::min(kLanes, short_channels & -short_channels);  // common
    const int64_t folded = kLanes / divisor;
    first = begin_row * short_channels;
    channels = folded * short_channels;
    rows = (end_row - begin_row) / folded;
    rest_row = begin_row + rows * folded;
  }

  // `count` of these rows from `begin` on, or as many as there are.
  LongRows part(int64_t begin, int64_t count) const {
    LongRows some = *this;
    some.first += begin * channels;
    some.rows = std::min(count, rows - begin);
    return some;
  }
};

// The channels of a strip, of some long rows.
struct Block {
  int64_t at;    // the first element
  int64_t step;  // from row to row
  int64_t rows;
  int64_t channel;  // of the first lane; the next follows, and 0 follows the last

  bool is_contiguous() const { return step == kLanes; }
};

// Fetches the same strip of the block below: the processor does not foresee it, since the other
// strips come in between.
template <typename T>
MANTISSA_INLINE void prefetch_next(const T* from, const Block& block) {
  constexpr int kForReading = 0, kIntoSecondCache = 2;
  if (block.is_contiguous()) return;
  __builtin_prefetch(from + block.rows * block.step, kForReading, kIntoSecondCache);
}
template <typename T>
MANTISSA_INLINE void prefetch_next(T* to, const Block& block) {
  constexpr int kForWriting = 1, kIntoSecondCache = 2;
  if (block.is_contiguous()) return;
  __builtin_prefetch(to + block.rows * block.step, kForWriting, kIntoSecondCache);
}

// Rows of a block, from 4 to `most`, a multiple of 4: few enough that their elements, of
// `element_bytes` each, stay in the nearest cache.
inline int64_t block_rows(const LongRows& rows, int64_t element_bytes, int64_t most) {
  constexpr int64_t kCacheBytes = 12 * 1024;
  return std::clamp<int64_t>(kCacheBytes / (rows.channels * element_bytes) & -4, 4, most);
}

// Calls visit(block, strip) for all blocks of at most `height` rows of the strips [begin, end).
// Blocks of the same rows follow each other, so that these are read from the nearest cache.
template <typename Visit>
MANTISSA_INLINE void for_each_block(const LongRows& long_rows, int64_t short_channels,
                                    int64_t begin_strip, int64_t end_strip, int64_t height,
                                    Visit&& visit) {
  for (int64_t row = 0; row < long_rows.rows; row += height) {
    for (int64_t strip = begin_strip; strip < end_strip; ++strip) {
      visit(Block{.at = long_rows.first + row * long_rows.channels + strip * kLanes,
                  .step = long_rows.channels,
                  .rows = std::min(height, long_rows.rows - row),
                  .channel = strip * kLanes % short_channels},
            strip);
    }
  }
}

// Calls visit(lane, channel) for the lanes of a strip whose first lane has this channel.
template <typename Visit>
MANTISSA_INLINE void for_each_lane(int64_t channel, int64_t channels, Visit&& visit) {
  if (channel + kLanes <= channels) {
    for (int64_t lane = 0; lane < kLanes; ++lane) visit(lane, channel + lane);
    return;
  }
  for (int64_t lane = 0; lane < kLanes; ++lane) {
    visit(lane, channel);
    if (++channel == channels) channel = 0;
  }
}

// Calls visit(first, last) for consecutive strips, few enough for an array with the data of each.
constexpr int64_t kStripsAtATime = 32;
template <typename Visit>
MANTISSA_INLINE void for_some_strips(const LongRows& rows, Visit&& visit) {
  const int64_t strips = rows.channels / kLanes;
  if (rows.rows == 0) return;
  for (int64_t begin = 0; begin < strips; begin += kStripsAtATime) {
    visit(begin, std::min(strips, begin + kStripsAtATime));
  }
}

// Sums over rows: add(block, Sums&) adds the sums of a block, whose elements take element_bytes.
// Sums start anew after every `exact_rows` long rows, and go to flush(Sums, channel).
template <typename Sums, typename Add, typename Flush>
MANTISSA_INLINE void sum_strips(const LongRows& rows, int64_t short_channels, int64_t element_bytes,
                                int64_t exact_rows, Add&& add, Flush&& flush) {
  const int64_t height = block_rows(rows, element_bytes, exact_rows);
  for_some_strips(rows, [&](int64_t begin, int64_t end) {
    for (int64_t row = 0; row < rows.rows; row += exact_rows) {
      Sums sums[kStripsAtATime];
      for_each_block(rows.part(row, exact_rows), short_channels, begin, end, height,
                     [&](const Block& block, int64_t strip) { add(block, sums[strip - begin]); });
      for (int64_t strip = begin; strip < end; ++strip) {
        flush(sums[strip - begin], strip * kLanes % short_channels);
      }
    }
  });
}
