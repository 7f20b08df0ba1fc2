// look_up, scale_within and sum_by_table in vectors.
//
// Include inside an anonymous namespace of mantissa::kernels, after elementwise_loops.h,
// add_lanes.h, and the lanes' avx2.h or avx512vnni.h.

#include "kernels/lanes/arithmetic.h"

constexpr int64_t kBytes = sizeof(Bytes);

// A table of 256 bytes as rows of 16, by the high four bits of the index. Rows of zeros are left
// out: half of all rows in the tables of values that are never negative.
class TableRows {
 public:
  static constexpr int kFew = 8, kAll = 16;

  explicit TableRows(const int8_t* table) {
    for (int row = 0; row < kAll; ++row) {
      const int8_t* const from = table + kRowBytes * row;
      bool is_zero = true;
      for (int i = 0; i < kRowBytes; ++i) is_zero = is_zero && from[i] == 0;
      if (is_zero) continue;
      rows_[count_] = repeated_row(from);
      numbers_[count_++] = static_cast<int8_t>(row) - Bytes{};
    }
  }
  bool are_few() const { return count_ <= kFew; }

  // The first kRows rows; those that there are not are zeros.
  template <int kRows>
  Bytes at(Bytes index) const {
    const Bytes four = int8_t{15} - Bytes{};
    const Bytes low = index & four, high = upper_four(index);
    Bytes found = {};
    for (int row = 0; row < kRows; ++row) {
      found |= picked_from(rows_[row], low) & (high == numbers_[row]);
    }
    return found;
  }

 private:
  static constexpr int kRowBytes = 16;
  Bytes rows_[kAll] = {}, numbers_[kAll] = {};
  int count_ = 0;
};

template <int kRows>
inline void look_up_rows(const TableRows& rows, const int8_t* in, int8_t* out,
                         int64_t vectors) noexcept {
  for (int64_t i = 0; i < vectors; ++i) {
    Bytes index;
    std::memcpy(&index, in + i * kBytes, kBytes);
    const Bytes found = rows.at<kRows>(index);
    std::memcpy(out + i * kBytes, &found, kBytes);
  }
}

inline void look_up_vectors(const TableRows& rows, const int8_t* in, int8_t* out,
                            int64_t vectors) noexcept {
  rows.are_few() ? look_up_rows<TableRows::kFew>(rows, in, out, vectors)
                 : look_up_rows<TableRows::kAll>(rows, in, out, vectors);
}

inline void look_up_by_lanes(const int8_t* in, const int8_t* table, int8_t* out, int64_t begin,
                             int64_t end) noexcept {
  const int64_t vectors = (end - begin) / kBytes;
  if (vectors > 0) look_up_vectors(TableRows(table), in + begin, out + begin, vectors);
  look_up(in, table, out, begin + vectors * kBytes, end);
}

// So many products of 8 and 16 bits that sums of them in 32 bits are exact, two to a lane.
constexpr int64_t kSumBlock = 2048;

template <typename T>
inline int64_t sum_block(const T* grad, const int8_t* factors) noexcept {
  constexpr auto kCount = static_cast<int64_t>(sizeof(Halves) / sizeof(int16_t));
  Words sums = {};
  for (int64_t i = 0; i < kSumBlock; i += kCount) {
    sums += sums_of_products(reinterpret_cast<Words>(load_halves(grad + i)),
                             reinterpret_cast<Words>(load_halves(factors + i)));
  }
  int32_t lanes[sizeof(Words) / sizeof(int32_t)];
  std::memcpy(lanes, &sums, sizeof(sums));
  int64_t total = 0;
  for (const int32_t lane : lanes) total += lane;
  return total;
}

inline int64_t sum_by_table_by_lanes(ConstMantissaSpan grad, const int8_t* in, const int8_t* table,
                                     int64_t begin, int64_t end) noexcept {
  if (grad.bits > 16 || end - begin < kSumBlock) return sum_by_table(grad, in, table, begin, end);
  return with_gradient_type(grad.bits, [&](auto type) {
    const auto* from = grad.as<decltype(type)>();
    const TableRows rows(table);
    int8_t factors[kSumBlock];
    int64_t sum = 0, at = begin;
    for (; at + kSumBlock <= end; at += kSumBlock) {
      look_up_vectors(rows, in + at, factors, kSumBlock / kBytes);
      sum += sum_block(from + at, factors);
    }
    return sum + sum_by_table(grad, in, table, at, end);
  });
}

constexpr int64_t kScaleBlock = 2048;

// The rest at the end, and blocks in which something is clipped, go to the plain loop.
template <typename T, typename Out>
inline WideStatistics scale_within_lanes(const ScaleWithin& args, int64_t begin,
                                         int64_t end) noexcept {
  constexpr int64_t kCount = 2 * kLanes;
  const T* from = args.grad_out.as<T>();
  Out* to = args.grad_in.as<Out>();
  const RoundEven64 round(args.shift);
  const RoundEvenLanes round_lanes(round);
  const Lanes factor = all(args.factor);
  const Words least = all_words(args.low), most = all_words(args.high);
  const auto limit = mantissa_limit(args.grad_in.bits);
  const int64_t vectors_end = begin + (end - begin) / kCount * kCount;
  WideStatistics found = scale_within_as<T, Out>(args, vectors_end, end);
  for (int64_t block = begin; block < vectors_end; block += kScaleBlock) {
    const int64_t stop = std::min(vectors_end, block + kScaleBlock);
    Words low = {}, high = {};
    for (int64_t i = block; i < stop; i += kCount) {
      const Words by = load_words(args.by + i);
      const Words within = load_words(from + i) & ((by >= least) & (by <= most));
      low = within < low ? within : low;
      high = within > high ? within : high;
      store_words(to + i, interleaved(round_lanes(product(evens_of(within), factor)),
                                      round_lanes(product(odds_of(within), factor))));
    }
    const auto maximum = static_cast<int64_t>(largest_magnitude<int32_t>(low, high)) * args.factor;
    found.maximum = std::max(found.maximum, static_cast<uint64_t>(maximum));
    if (round(maximum) > limit) {
      found.saturated += scale_within_as<T, Out>(args, block, stop).saturated;
    }
  }
  return found;
}

inline WideStatistics scale_within_by_lanes(const ScaleWithin& args, int64_t begin,
                                            int64_t end) noexcept {
  return with_scaled_types(args, [&](auto from, auto to) {
    return scale_within_lanes<decltype(from), decltype(to)>(args, begin, end);
  });
}
