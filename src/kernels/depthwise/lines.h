// The ring of interleaved lines that a thread keeps while it goes down an image.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/depthwise/row_loops.h"

namespace mantissa::kernels::depthwise {

// A tensor [batch, height, width, channels] of int8 (up to 8 bits) or int16.
struct Images {
  const void* data;
  int bits;
  int64_t height, width, channels;
};

// Line i interleaves the rows i * stride and i * stride + apart, zeros beyond the image: columns
// [first_column, first_column + columns), padded_channels each.
struct LineLayout {
  int64_t stride, apart;
  int64_t first_column, columns;
  int64_t padded_channels;
  int64_t slots;  // lines kept; a window of lines is no longer

  int64_t line_pairs() const { return columns * padded_channels; }
  // Lines, their addresses, and a pixel of zeros.
  size_t scratch_bytes() const;
};

class LineRing {
 public:
  // scratch: scratch_bytes(), aligned to 64.
  LineRing(const RowLoops& loops, const Images& images, const LineLayout& layout,
           std::byte* scratch);

  // The addresses of lines first, ..., first + count - 1 of image n; valid until the next call. n
  // must not fall, nor `first` within an image.
  const Pair* const* window(int64_t n, int64_t first, int64_t count);

 private:
  Pair* slot(int64_t line) const;
  void clear_padding(Pair* line) const;
  void fill(int64_t n, int64_t line);
  PixelRow row(int64_t n, int64_t y, int64_t x) const;

  const RowLoops& loops_;
  Images images_;
  LineLayout layout_;
  Pair* lines_;
  const Pair** addresses_;
  const std::byte* zeros_;
  int64_t first_valid_, valid_columns_;
  int64_t image_ = -1, next_ = 0;
};

}  // namespace mantissa::kernels::depthwise
