// The inner loops of the depthwise kernels, one set per instruction set.
#pragma once

#include <cstdint>

#include "kernels/bit_counts/wide_counts.h"

namespace mantissa::kernels::depthwise {

// Two int16 numbers of one channel, the first in the low half: multiply-add instructions take them.
using Pair = uint32_t;

// Pixels of `channels` numbers each, `step` numbers apart (0: the same pixel again).
struct PixelRow {
  const void* data;
  int64_t step;
};

struct Pairing {
  PixelRow first, second;
  int bits;  // of the numbers: up to 8 are int8, otherwise int16
  int64_t pixels, channels, padded_channels;
  Pair* pairs;  // [pixels, padded_channels]
};

// Results along one row: bias plus the sum over `columns` neighbouring pixels of `rows` lines.
struct CorrelationRow {
  const Pair* const* lines = nullptr;  // [rows], each [pixel, padded_channels]
  const Pair* weights = nullptr;       // [columns, rows, padded_channels]
  const int32_t* bias = nullptr;       // [padded_channels]
  int64_t rows = 0, columns = 0;
  int64_t channels = 0, padded_channels = 0;
  int64_t source = 0, source_step = 0;  // the first pixel read, and from one result to the next
  int64_t results = 0;
  void* to = nullptr;
  int64_t to_step = 0;  // numbers from one result to the next
  int to_bytes = 4;     // 4: the sums; 1 or 2: saturate(rne(sum >> shift), +-limit)
  int shift = 0;        // 0..31; |sum| + 2^(shift - 1) < 2^31
  int32_t limit = 0;
  WideCounts* counts = nullptr;  // of the sums, if they are counted
};

// Products of `pixels` gradients with the inputs under each tap.
struct ProductRow {
  const Pair* grad;          // [pixels, padded_channels]
  const Pair* const* lines;  // [rows], each [pixel, padded_channels]
  int64_t rows, columns, padded_channels;
  int64_t source, source_step;  // the first pixel read, and from one gradient to the next
  int64_t pixels;
  int32_t* sums;  // [rows, columns, padded_channels]
};

struct RowLoops {
  int64_t lanes;  // padded_channels is a multiple
  void (*pair)(const Pairing&) noexcept;
  WideStatistics (*correlate)(const CorrelationRow&) noexcept;
  void (*add_products)(const ProductRow&) noexcept;
  // Adds sums to totals and zeroes them.
  void (*drain)(int32_t* sums, int64_t count, int64_t* totals) noexcept;
};

#if defined(__x86_64__)
extern const RowLoops kRowLoopsAvx2;
extern const RowLoops kRowLoopsAvx512Vnni;
#endif

}  // namespace mantissa::kernels::depthwise
