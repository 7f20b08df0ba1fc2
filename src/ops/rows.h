// Passes over the rows of a tensor, vectors along its last dimension, whose wide values are
// computed a row at a time.
#pragma once

#include <algorithm>
#include <array>

#include "kernels/common/parallel_ranges.h"
#include "kernels/kernel_table.h"
#include "ops/narrowing.h"

namespace mantissa::ops {

// A row of wide values is on the stack, in 128 KiB. No sum runs over these channels: each is
// requantised by itself, at an exponent that follows from their largest. Sums over channels have
// limits of their own: 4,096 of norms (kernels::kMostNormChannels), 65,000 products of layers
// (kernels::kMaximumForwardDepth).
constexpr int64_t kMostRowChannels = int64_t{1} << 14;

// Aligned: vectors of a row do not lie in two cache lines.
struct alignas(64) WideRow : std::array<int64_t, kMostRowChannels> {};

inline int64_t row_grain(int64_t channels) {
  return std::max<int64_t>(1, kernels::kElementsPerThread / 4 / channels);
}

// out = narrow(wide >> shift) for all rows, unless `writes` is false: fill(row, wide) computes the
// wide values of a row.
template <typename Fill>
kernels::WideStatistics narrow_rows(const OpContext& c, const Tensor& out, bool writes, int shift,
                                    const Fill& fill, const kernels::PassCounts& counts = {}) {
  const int64_t channels = out.shape.last();
  return kernels::parallel_statistics(
      *c.kernel.pool, out.count() / channels, row_grain(channels),
      [&](int64_t begin, int64_t end, int64_t part) {
        WideRow wide;
        kernels::WideStatistics found;
        for (int64_t row = begin; row < end; ++row) {
          fill(row, wide.data());
          kernels::MantissaSpan to = gradient_from(out, row * channels);
          if (!writes) to.data = nullptr;
          found += kernels::narrow_counted(*c.kernel.table->wide, {wide.data(), shift, to}, 0,
                                           channels, counts.wide_of(part));
        }
        return found;
      });
}

// Whether each row has an exponent of its own.
inline bool has_rows(const Tensor& value) { return value.row_exponents != nullptr; }

// Values that a sum runs over are brought to one exponent, in mantissas of 16 bits. It is the
// largest of the rows' exponents, less the bits that 16 has more, so that rows within 2^8 of it
// lose nothing. Values with one exponent keep it, and their bits.
constexpr int kSharedBits = 16;

inline int shared_exponent(const Tensor& rows, int64_t first, int64_t count) {
  if (!has_rows(rows)) return *rows.exponent;
  int largest = kExponentMin;
  for (int64_t row = first; row < first + count; ++row) {
    largest = std::max(largest, rows.row_exponent(row));
  }
  return largest - (kSharedBits - rows.bits);
}

// Rows [begin, end) of context.output, each requantised to its own maximum: fill(row, wide)
// computes the wide values of a row and returns their exponent.
template <typename Fill>
void narrow_own_rows(const OpContext& c, int64_t begin, int64_t end, const Fill& fill) {
  const Tensor& out = c.output();
  const int64_t channels = out.shape.last();
  const kernels::WideStatistics found = kernels::parallel_statistics(
      *c.kernel.pool, end - begin, row_grain(channels), [&](int64_t first, int64_t last) {
        WideRow wide;
        kernels::WideStatistics statistics;
        for (int64_t row = begin + first; row < begin + last; ++row) {
          const int exponent = fill(row, wide.data());
          kernels::NarrowWide args{wide.data(), 0, {nullptr, out.bits}};
          const uint64_t maximum = c.kernel.table->wide->narrow(args, 0, channels).maximum;
          args.shift = exact_shift(maximum, out.bits);
          args.out = gradient_from(out, row * channels);
          statistics += c.kernel.table->wide->narrow(args, 0, channels);
          out.row_exponents[row] =
              static_cast<int16_t>(exact_exponent(maximum, exponent, out.bits));
        }
        return statistics;
      });
  if (!c.mode.recomputes) *out.saturated += found.saturated;
}

// wide = a row of the value at another exponent, or the sum of this and `wide`.
inline void rescale_row(const OpContext& c, const Tensor& value, int64_t row, int exponent,
                        bool adds, int64_t* wide) {
  const int64_t channels = value.shape.last();
  c.kernel.table->wide->rescale(
      {gradient_from(value, row * channels), exponent - value.row_exponent(row), adds, wide}, 0,
      channels);
}

// Sets the output's own exponent, once all rows have theirs.
inline void set_largest_row_exponent(const OpContext& c) {
  int largest = kExponentMin;
  for (int64_t row = 0; row < c.output().count() / c.output().shape.last(); ++row) {
    int16_t& exponent = c.output().row_exponents[row];
    exponent = checked_exponent(c, exponent);
    largest = std::max<int>(largest, exponent);
  }
  *c.output().exponent = static_cast<int16_t>(largest);
}

// context.output = the rows, requantised to its width: each to its own maximum if rows have
// exponents of their own, else in any mode. exponent_at(row) is the exponent of its wide values,
// fill(row, exponent, wide) computes them. Inputs with one exponent give all rows the same.
template <typename ExponentAt, typename Fill>
void write_rows(const OpContext& c, const ExponentAt& exponent_at, const Fill& fill) {
  const int64_t channels = c.output().shape.last(), rows = c.output().count() / channels;
  if (has_rows(c.output())) {
    narrow_own_rows(c, 0, rows, [&](int64_t row, int64_t* wide) {
      const int exponent = exponent_at(row);
      fill(row, exponent, wide);
      return exponent;
    });
    return set_largest_row_exponent(c);
  }
  const int wide_exponent = exponent_at(0);
  if (counts_values(c)) {
    WideRow wide;
    for (int64_t row = 0; row < rows; ++row) {
      fill(row, wide_exponent, wide.data());
      for (int64_t i = 0; i < channels; ++i) {
        count_wide(c.output().histogram, wide[i], wide_exponent, c.output());
      }
    }
  }
  const auto fill_row = [&](int64_t row, int64_t* wide) { fill(row, wide_exponent, wide); };
  narrow_by_passes(
      c, wide_exponent,
      [&](bool writes, int shift, const kernels::PassCounts& counts) {
        return narrow_rows(c, c.output(), writes, shift, fill_row, counts);
      },
      64);
}

}  // namespace mantissa::ops
