// Convolution in pieces: some images, or some channels, at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "kernels/common/parallel_ranges.h"
#include "kernels/convolution/convolution.h"

namespace mantissa::kernels {

// Images whose sums are held at once if they can be computed again.
inline int64_t images_per_chunk(const ConvolutionShape& s, int64_t elements = 256 * 1024) {
  return std::clamp<int64_t>(elements * s.batch / s.output_count(), 1, s.batch);
}

// The most bytes(piece) that pieces of `images` of `count` need. The last piece may be shorter,
// which may take more, since shapes are then cut differently.
template <typename Bytes>
auto most_of_pieces(int64_t count, int64_t piece, const Bytes& bytes) {
  const int64_t last = count % piece;
  return last == 0 ? bytes(piece) : std::max(bytes(piece), bytes(last));
}

// Choices for pieces of this many of `count`, and for the shorter last one.
template <typename Choice>
struct PieceChoices {
  int64_t piece = 0;
  Choice whole, last;

  PieceChoices() = default;
  template <typename Choose>
  PieceChoices(int64_t count, int64_t piece_, const Choose& choose) : piece(piece_) {
    if (count >= piece) whole = choose(piece);
    if (count % piece != 0) last = choose(count % piece);
  }
  const Choice& of(int64_t length) const { return length == piece ? whole : last; }
};

// Rows of `width` bytes, `from_step` and `to_step` apart: some channels of all pixels.
inline void copy_rows(ThreadPool& pool, const std::byte* from, int64_t from_step, std::byte* to,
                      int64_t to_step, int64_t width, int64_t rows) {
  parallel_ranges(pool, rows, std::max<int64_t>(1, kBytesPerThread / width),
                  [&](int64_t begin, int64_t end, int64_t) {
                    for (int64_t i = begin; i < end; ++i) {
                      std::memcpy(to + i * to_step, from + i * from_step,
                                  static_cast<size_t>(width));
                    }
                  });
}

}  // namespace mantissa::kernels
