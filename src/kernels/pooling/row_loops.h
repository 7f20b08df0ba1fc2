// Maximum pooling of fewer than 16 channels: whole rows, whatever a pixel's width.
//
// First the maxima of columns, element by element along the row; then the maxima of neighbouring
// pixels, 16 elements at a time, of which only the first `channels` count. The other writes go to
// the next pixel, which is written later, or to the padding of a buffer.
//
// Include inside an anonymous namespace of mantissa::kernels, after strip_loops.h.

// Rows are cut into pieces that stay in the first-level cache, or several short ones make one.
constexpr int64_t kPiece = 1024;

// The outputs [x, x + pixels) of `rows` rows of outputs, counted through all images.
struct Piece {
  int64_t first_row, rows, x, pixels, window, channels;

  // Elements of a row of the input.
  int64_t width() const { return pixels * window * channels; }
  int64_t outputs() const { return rows * pixels * channels; }
  // Offset of the first input of the piece's row `row`.
  int64_t corner(const MaxPoolShape& s, int64_t row) const {
    const int64_t n = (first_row + row) / s.out_height(), y = (first_row + row) % s.out_height();
    return ((n * s.in_height + y * window) * s.in_width + x * window) * channels;
  }
  // Offset of the first output.
  int64_t out(const MaxPoolShape& s) const { return (first_row * s.out_width() + x) * channels; }
};

template <typename Visit>
inline void for_each_piece(const MaxPoolShape& s, int64_t begin, int64_t end,
                           Visit&& visit) noexcept {
  const int64_t most_pixels = kPiece / (s.window * s.channels);
  const int64_t width = s.out_width(), last_row = end * s.out_height();
  const int64_t most_rows = std::max<int64_t>(1, most_pixels / width);
  for (int64_t row = begin * s.out_height(); row < last_row; row += most_rows) {
    for (int64_t x = 0; x < width; x += most_pixels) {
      visit(Piece{row, std::min(most_rows, last_row - row), x, std::min(most_pixels, width - x),
                  s.window, s.channels});
    }
  }
}

// high[i] = the maximum of column i of `window` rows.
template <typename Window>
inline void column_maxima(const int8_t* from, int64_t row, Window window, int64_t width,
                          int8_t* __restrict high) noexcept {
  for (int64_t i = 0; i < width; ++i) high[i] = from[i];
  for (int64_t ky = 1; ky < window; ++ky) {
    from += row;
    for (int64_t i = 0; i < width; ++i) high[i] = from[i] > high[i] ? from[i] : high[i];
  }
}

template <typename Window>
inline void max_pool_rows(const MaxPoolShape& s, Window window, const int8_t* in, int8_t* out,
                          int64_t begin, int64_t end) noexcept {
  int8_t columns[kPiece + kStrip] = {}, result[kPiece + kStrip];
  for_each_piece(s, begin, end, [&](const Piece& p) {
    for (int64_t row = 0; row < p.rows; ++row) {
      column_maxima(in + p.corner(s, row), s.in_width * s.channels, window, p.width(),
                    columns + row * p.width());
    }
    const int8_t* tap = columns;
    for (int64_t at = 0; at < p.outputs(); at += s.channels) {
      Strip<int8_t> best, value;
      load(tap, best);
      for (int64_t kx = 1; kx < window; ++kx) {
        load(tap + kx * s.channels, value);
        best = value > best ? value : best;
      }
      store(best, result + at);
      tap += window * s.channels;
    }
    std::copy_n(result, p.outputs(), out + p.out(s));
  });
}

// A value and its tap as one number, whose maximum is the first maximum.
constexpr int kFirstTap = 255;
inline int16_t key_of(int8_t value, int64_t tap) noexcept {
  return static_cast<int16_t>(value * 256 + kFirstTap - static_cast<int>(tap));
}

// keys[i] = the largest key of column i, each with the tap (ky, 0).
template <typename Window>
inline void column_keys(const int8_t* from, int64_t row, Window window, int64_t width,
                        int16_t* __restrict keys) noexcept {
  for (int64_t i = 0; i < width; ++i) keys[i] = key_of(from[i], 0);
  for (int64_t ky = 1; ky < window; ++ky) {
    from += row;
    for (int64_t i = 0; i < width; ++i) {
      const int16_t key = key_of(from[i], ky * window);
      keys[i] = key > keys[i] ? key : keys[i];
    }
  }
}

// For each input column of the windows: the gradient of its output, and the first maximum's tap
// less kx, which is ky * window in the column of the maximum and no multiple of it in the others.
template <typename T, typename Window>
inline void spread(const int16_t* keys, const T* grad_out, Window window, int64_t outputs,
                   int64_t channels, T* taps, T* grads) noexcept {
  for (int64_t at = 0; at < outputs; at += channels) {
    Strip<int16_t> best, key;
    load(keys, best);
    for (int64_t kx = 1; kx < window; ++kx) {
      load(keys + kx * channels, key);
      key -= static_cast<int16_t>(kx);
      best = key > best ? key : best;
    }
    keys += window * channels;
    const Strip<int16_t> first = kFirstTap - (best & int16_t{255});
    Strip<T> grad, tap = __builtin_convertvector(first, Strip<T>);
    load(grad_out + at, grad);
    for (int64_t kx = 0; kx < window; ++kx) {
      store(tap, taps);
      store(grad, grads);
      tap -= T{1};
      taps += channels, grads += channels;
    }
  }
}

// The gradients whose tap is `here`, 0 for the others.
template <typename T>
inline void choose(const T* taps, const T* grads, T here, int64_t width,
                   T* __restrict grad_in) noexcept {
  for (int64_t i = 0; i < width; ++i) {
    const T grad = grads[i];
    grad_in[i] = taps[i] == here ? grad : T{0};
  }
}

template <typename T, typename Window>
inline void max_pool_gradient_rows(const MaxPoolShape& s, Window window, const int8_t* in,
                                   const T* grad_out, T* grad_in, int64_t begin,
                                   int64_t end) noexcept {
  const int64_t in_row = s.in_width * s.channels;
  // Zeros: lanes that do not count must not overflow either.
  int16_t keys[kPiece + kStrip] = {};
  T outer[kPiece + kStrip] = {}, taps[kPiece + kStrip], grads[kPiece + kStrip];
  for_each_piece(s, begin, end, [&](const Piece& p) {
    const int64_t width = p.width();
    for (int64_t row = 0; row < p.rows; ++row) {
      column_keys(in + p.corner(s, row), in_row, window, width, keys + row * width);
    }
    std::copy_n(grad_out + p.out(s), p.outputs(), outer);
    spread(keys, outer, window, p.outputs(), s.channels, taps, grads);
    for (int64_t row = 0; row < p.rows; ++row) {
      for (int64_t ky = 0; ky < window; ++ky) {
        choose(taps + row * width, grads + row * width, static_cast<T>(ky * window), width,
               grad_in + p.corner(s, row) + ky * in_row);
      }
    }
  });
}
