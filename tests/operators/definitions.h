// Operators by their definitions in double, for the gradient check, which differentiates them.
// Shapes have the batch as first dimension; values are those of the whole tensor.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "ops/attributes.h"
#include "ops/ops.h"
#include "ops/pooling/reduce.h"

namespace mantissa::testing {

using Reals = std::vector<double>;

// An attribute for the width. The height's counts if it is 0 (for padding: -1).
inline int64_t of_width(int64_t width, int64_t height) { return width < 1 ? height : width; }
inline int64_t padding_of_width(int64_t width, int64_t height) {
  return width < 0 ? height : width;
}

// Volumes [N, D, H, W, C] as images [N * D, H, W, C].
inline Shape images_of(const Shape& s) {
  return s.rank == 5 ? Shape{s[0] * s[1], s[2], s[3], s[4]} : s;
}

inline Reals convolution(ops::LayerAttributes a, Shape in, Shape out, const Shape& w,
                         const Reals& x, const std::vector<Reals>& p) {
  const bool image = w.rank == 4;
  if (image) in = images_of(in), out = images_of(out);
  if (image && in.rank == 3) {  // [N, T, C]
    in = Shape{in[0], 1, in[1], in[2]}, out = Shape{out[0], 1, out[1], out[2]};
    a.stride_width = a.stride, a.padding_width = a.causal ? (w[2] - 1) * a.dilation : a.padding;
    a.stride = 1, a.padding = 0;
  }
  const int64_t examples = image ? in[0] : in.count() / in.last();
  const int64_t height = image ? in[1] : 1, width = image ? in[2] : 1, channels = in.last();
  const int64_t out_height = image ? out[1] : 1, out_width = image ? out[2] : 1;
  const int64_t kernel_height = image ? w[1] : 1, kernel_width = image ? w[2] : 1;
  const int64_t stride = image ? a.stride : 1, padding = image ? a.padding : 0;
  const int64_t stride_width = image ? of_width(a.stride_width, stride) : 1;
  const int64_t padding_width = image ? padding_of_width(a.padding_width, padding) : 0;
  const int64_t dilation = image ? a.dilation : 1;
  const int64_t groups = image ? a.groups : 1;
  Reals y;
  for (int64_t n = 0; n < examples; ++n) {
    for (int64_t oy = 0; oy < out_height; ++oy) {
      for (int64_t ox = 0; ox < out_width; ++ox) {
        for (int64_t o = 0; o < out.last(); ++o) {
          double sum = p.size() > 1 ? p[1][o] : 0;
          for (int64_t ky = 0; ky < kernel_height; ++ky) {
            for (int64_t kx = 0; kx < kernel_width; ++kx) {
              const int64_t iy = oy * stride + ky * dilation - padding;
              const int64_t ix = ox * stride_width + kx * dilation - padding_width;
              if (iy < 0 || iy >= height || ix < 0 || ix >= width) continue;
              const int64_t per_group = channels / groups;
              const int64_t first = o / (out.last() / groups) * per_group;
              for (int64_t c = 0; c < per_group; ++c) {
                sum += x[((n * height + iy) * width + ix) * channels + first + c] *
                       p[0][((o * kernel_height + ky) * kernel_width + kx) * per_group + c];
              }
            }
          }
          y.push_back(sum);
        }
      }
    }
  }
  return y;
}

// Each input is spread over the results by all taps. Weights are [O, KH, KW, C].
inline Reals transposed_convolution(ops::TransposedAttributes a, Shape in, Shape out,
                                    const Shape& w, const Reals& x, const std::vector<Reals>& p) {
  in = images_of(in), out = images_of(out);
  if (in.rank == 3) {  // [N, T, C]
    in = Shape{in[0], 1, in[1], in[2]}, out = Shape{out[0], 1, out[1], out[2]};
    a.stride_width = a.stride, a.padding_width = a.padding;
    a.stride = 1, a.padding = 0;
  }
  const int64_t across = of_width(a.stride_width, a.stride);
  const int64_t side = padding_of_width(a.padding_width, a.padding);
  Reals y(static_cast<size_t>(out.count()));
  for (size_t i = 0; i < y.size() && p.size() > 1; ++i) y[i] = p[1][i % p[1].size()];
  for (int64_t pixel = 0; pixel < in.count() / in[3]; ++pixel) {
    const int64_t ix = pixel % in[2], iy = pixel / in[2] % in[1], n = pixel / in[2] / in[1];
    for (int64_t ky = 0; ky < w[1]; ++ky) {
      for (int64_t kx = 0; kx < w[2]; ++kx) {
        const int64_t oy = iy * a.stride + ky - a.padding, ox = ix * across + kx - side;
        if (oy < 0 || oy >= out[1] || ox < 0 || ox >= out[2]) continue;
        for (int64_t o = 0; o < out[3]; ++o) {
          const int64_t first = o / (out[3] / a.groups) * w[3];
          for (int64_t c = 0; c < w[3]; ++c) {
            y[((n * out[1] + oy) * out[2] + ox) * out[3] + o] +=
                x[pixel * in[3] + first + c] * p[0][((o * w[1] + ky) * w[2] + kx) * w[3] + c];
          }
        }
      }
    }
  }
  return y;
}

// Resizes [N, H, W, C] by weights of the rows and columns that a result reads.
inline Reals resized(Shape in, Shape out, const Reals& x,
                     const std::function<double(int64_t out, int64_t in, int64_t, int64_t)>& weight) {
  if (in.rank == 3) {
    in = Shape{in[0], 1, in[1], in[2]}, out = Shape{out[0], 1, out[1], out[2]};
  }
  Reals y(static_cast<size_t>(out.count()));
  for (int64_t i = 0; i < out.count(); ++i) {
    const int64_t c = i % out[3], ox = i / out[3] % out[2], oy = i / out[3] / out[2] % out[1];
    const int64_t n = i / out[3] / out[2] / out[1];
    for (int64_t iy = 0; iy < in[1]; ++iy) {
      for (int64_t ix = 0; ix < in[2]; ++ix) {
        y[i] += weight(oy, iy, in[1], out[1]) * weight(ox, ix, in[2], out[2]) *
                x[((n * in[1] + iy) * in[2] + ix) * in[3] + c];
      }
    }
  }
  return y;
}

inline Reals upsample(const Shape& in, const Shape& out, const Reals& x) {
  return resized(in, out, x, [](int64_t o, int64_t i, int64_t from, int64_t to) {
    return o / (to / from) == i ? 1.0 : 0.0;
  });
}

inline Reals bilinear_resize(const ops::ResizeAttributes& a, const Shape& in, const Shape& out,
                             const Reals& x) {
  return resized(in, out, x, [&](int64_t o, int64_t i, int64_t from, int64_t to) {
    const auto n = static_cast<double>(from), m = static_cast<double>(to);
    const auto result = static_cast<double>(o);
    const double place = a.align_corners ? (to == 1 ? 0 : result * (n - 1) / (m - 1))
                                         : (result + 0.5) * n / m - 0.5;
    return std::max(0.0, 1 - std::abs(std::clamp(place, 0.0, n - 1) - static_cast<double>(i)));
  });
}

inline Reals batch_norm(int64_t channels, const Reals& x, const std::vector<Reals>& p) {
  const auto rows = static_cast<int64_t>(x.size()) / channels;
  Reals y(x.size());
  for (int64_t c = 0; c < channels; ++c) {
    double mean = 0, variance = 0;
    for (int64_t r = 0; r < rows; ++r) mean += x[r * channels + c] / static_cast<double>(rows);
    for (int64_t r = 0; r < rows; ++r) {
      const double d = x[r * channels + c] - mean;
      variance += d * d / static_cast<double>(rows);
    }
    for (int64_t r = 0; r < rows; ++r) {
      y[r * channels + c] =
          p[0][c] * (x[r * channels + c] - mean) / std::sqrt(variance + 1e-5) + p[1][c];
    }
  }
  return y;
}

inline double levels(const ops::QuantiseAttributes& a) {
  return std::ldexp(1.0, a.bits - (a.is_signed ? 1 : 0)) - 1;
}

// Without an offset.
inline Reals quantise(const ops::QuantiseAttributes& a, const Reals& x,
                      const std::vector<Reals>& p) {
  const double low = a.is_signed ? -levels(a) : 0;
  Reals y(x.size());
  for (size_t i = 0; i < y.size(); ++i) {
    const double step = std::clamp(std::nearbyint(x[i] * levels(a) / p[0][0]), low, levels(a));
    y[i] = std::ldexp(step, a.exponent);
  }
  return y;
}

// A scale and a bias for each channel. They come after the parameters of a quantise node, if there
// is one.
inline Reals rescale(const ops::QuantiseAttributes& a, const Reals& x,
                     const std::vector<Reals>& p) {
  const Reals &scale = p[p.size() - 2], &bias = p.back();
  const double factor = a.bits == 0 ? 1 : std::ldexp(p[0][0] / levels(a), -a.exponent);
  Reals y(x.size());
  for (size_t i = 0; i < y.size(); ++i) {
    y[i] = x[i] * scale[i % scale.size()] * factor + bias[i % bias.size()];
  }
  return y;
}

// Rows of mean 0 (layer norm) and deviation 1, then a scale and an offset for each channel.
inline Reals row_norm(const ops::RowNormAttributes& a, int64_t channels, bool is_centred,
                      const Reals& x, const std::vector<Reals>& p) {
  Reals y(x.size());
  const auto n = static_cast<double>(channels);
  for (size_t row = 0; row < x.size(); row += channels) {
    double mean = 0, variance = 0;
    for (int64_t c = 0; is_centred && c < channels; ++c) mean += x[row + c] / n;
    for (int64_t c = 0; c < channels; ++c) {
      variance += (x[row + c] - mean) * (x[row + c] - mean) / n;
    }
    for (int64_t c = 0; c < channels; ++c) {
      y[row + c] = p[0][c] * (x[row + c] - mean) / std::sqrt(variance + a.epsilon) +
                   (is_centred ? p[1][c] : 0);
    }
  }
  return y;
}

// Groups of channels, over all positions of an example, with mean 0 and deviation 1; then a scale
// and an offset for each channel.
inline Reals group_norm(const ops::GroupNormAttributes& a, const Shape& in, const Reals& x,
                        const std::vector<Reals>& p) {
  Reals y(x.size());
  const int64_t channels = in.last(), size = in.count() / in[0], of_group = channels / a.groups;
  const auto n = static_cast<double>(size / a.groups);
  for (int64_t i = 0; i < in[0] * a.groups; ++i) {
    const int64_t begin = i / a.groups * size, first = i % a.groups * of_group;
    const auto for_group = [&](const auto& visit) {
      for (int64_t row = begin; row < begin + size; row += channels) {
        for (int64_t c = first; c < first + of_group; ++c) visit(row + c, c);
      }
    };
    double mean = 0, variance = 0;
    for_group([&](int64_t at, int64_t) { mean += x[at] / n; });
    for_group([&](int64_t at, int64_t) { variance += (x[at] - mean) * (x[at] - mean) / n; });
    for_group([&](int64_t at, int64_t c) {
      y[at] = p[0][c] * (x[at] - mean) / std::sqrt(variance + a.epsilon) + p[1][c];
    });
  }
  return y;
}

// Recurrent layers over sequences of `steps` rows. x is the input's part of the gates, in PyTorch's
// order; p are the recurrent weights, and GRU's bias or LSTM's peepholes. With lengths, rows after
// the end of a sequence repeat its last h. Sequences start with the given h and cell, or with
// zeros.
inline Reals recurrent(int gates, int64_t steps, int64_t n, const Reals& x,
                       const std::vector<Reals>& p, const std::vector<int64_t>& lengths = {},
                       const Reals& start_h = {}, const Reals& start_cell = {}) {
  const auto sigmoid = [](double a) { return 1 / (1 + std::exp(-a)); };
  const auto count = static_cast<int64_t>(x.size()) / (gates * n);
  Reals y(static_cast<size_t>(count * n)), cell(static_cast<size_t>(n)), h(cell);
  for (int64_t row = 0; row < count; ++row) {
    if (row % steps == 0) {
      const auto begin = [&](const Reals& from, Reals& to) {
        for (int64_t j = 0; j < n; ++j) to[j] = from.empty() ? 0 : from[row / steps * n + j];
      };
      begin(start_h, h);
      begin(start_cell, cell);
    }
    if (!lengths.empty() && row % steps >= lengths[static_cast<size_t>(row / steps)]) {
      std::copy(h.begin(), h.end(), y.begin() + row * n);
      continue;
    }
    Reals s(static_cast<size_t>(gates * n));
    for (int64_t k = 0; k < gates * n; ++k) {
      for (int64_t j = 0; j < n; ++j) s[k] += p[0][k * n + j] * h[j];
    }
    const double* in = x.data() + row * gates * n;
    for (int64_t j = 0; j < n; ++j) {
      const auto sum = [&](int gate) { return in[gate * n + j] + s[gate * n + j]; };
      const auto peephole = [&](int gate) { return p.size() > 1 ? p[1][gate * n + j] : 0; };
      if (gates == 1) h[j] = std::tanh(sum(0));
      if (gates == 3) {
        const double reset = sigmoid(sum(0)), keep = sigmoid(sum(1));
        const double fresh = std::tanh(in[2 * n + j] + reset * (s[2 * n + j] + p[1][j]));
        h[j] = (1 - keep) * fresh + keep * h[j];
      }
      if (gates == 4) {
        const double old = cell[j];
        cell[j] = sigmoid(sum(1) + peephole(1) * old) * old +
                  sigmoid(sum(0) + peephole(0) * old) * std::tanh(sum(2));
        h[j] = sigmoid(sum(3) + peephole(2) * cell[j]) * std::tanh(cell[j]);
      }
      y[row * n + j] = h[j];
    }
  }
  return y;
}

// Calls visit(x index) for the cells of output i's window that lie in the image.
template <typename Visit>
inline void for_each_cell(ops::PoolAttributes a, Shape in, Shape out, int64_t i, Visit&& visit) {
  if (in.rank == 3) {  // [N, T, C]
    in = Shape{in[0], 1, in[1], in[2]}, out = Shape{out[0], 1, out[1], out[2]};
    a.window_width = a.window, a.stride_width = a.stride > 0 ? a.stride : a.window;
    a.padding_width = a.padding;
    a.window = a.stride = 1, a.padding = 0;
  }
  if (a.over == ops::PooledAxes::kDepth) {
    in = Shape{in[0], in[1], in[2] * in[3], in[4]}, out = Shape{out[0], out[1], in[2], out[4]};
    a.window_width = a.stride_width = 1, a.padding_width = 0;
    if (a.stride == 0) a.stride = a.window;
  }
  in = images_of(in), out = images_of(out);
  const int64_t window = a.window, stride = a.stride > 0 ? a.stride : window;
  const int64_t wide = of_width(a.window_width, window),
                step = of_width(a.stride_width, a.stride > 0 ? stride : wide);
  const int64_t c = i % in[3], ox = i / in[3] % out[2], oy = i / in[3] / out[2] % out[1];
  const int64_t n = i / in[3] / out[2] / out[1], padding = a.padding;
  const int64_t side = padding_of_width(a.padding_width, padding);
  for (int64_t t = 0; t < window * wide; ++t) {
    const int64_t iy = oy * stride + t / wide - padding, ix = ox * step + t % wide - side;
    if (iy < 0 || iy >= in[1] || ix < 0 || ix >= in[2]) continue;
    visit(((n * in[1] + iy) * in[2] + ix) * in[3] + c);
  }
}

inline Reals max_pool(const ops::PoolAttributes& a, const Shape& in, const Shape& out,
                      const Reals& x) {
  Reals y(static_cast<size_t>(out.count()), -INFINITY);
  for (int64_t i = 0; i < out.count(); ++i) {
    for_each_cell(a, in, out, i, [&](int64_t at) { y[i] = std::max(y[i], x[at]); });
  }
  return y;
}

// Windows that lie in the image and its padding (no ceil).
inline Reals average_pool(const ops::PoolAttributes& a, const Shape& in, const Shape& out,
                          const Reals& x) {
  const bool padded = a.count_padding;
  Reals y(static_cast<size_t>(out.count()));
  for (int64_t i = 0; i < out.count(); ++i) {
    double sum = 0;
    int64_t cells = 0;
    for_each_cell(a, in, out, i, [&](int64_t at) { sum += x[at], ++cells; });
    const bool one_axis = in.rank == 3 || a.over == ops::PooledAxes::kDepth;
    if (padded) cells = one_axis ? a.window : a.window * of_width(a.window_width, a.window);
    y[i] = sum / static_cast<double>(cells);
  }
  return y;
}

inline Reals concat(const std::vector<int64_t>& channels, const std::vector<Reals>& x) {
  Reals y;
  const auto rows = static_cast<int64_t>(x[0].size()) / channels[0];
  for (int64_t row = 0; row < rows; ++row) {
    for (size_t i = 0; i < x.size(); ++i) {
      for (int64_t c = 0; c < channels[i]; ++c) y.push_back(x[i][row * channels[i] + c]);
    }
  }
  return y;
}

inline Reals slice(const ops::SliceAttributes& a, const Shape& in, const Shape& out,
                   const Reals& x) {
  const int64_t position = a.position;
  Reals y;
  for (int64_t i = 0; i < out.count(); ++i) {
    int64_t row = i / out.last();
    if (position >= 0) row = row * in[in.rank - 2] + position;
    y.push_back(x[row * in.last() + a.first + i % out.last()]);
  }
  return y;
}

inline Reals average(const Shape& in, const Reals& x) {
  const int64_t channels = in.last(), pixels = in.count() / in[0] / channels;
  Reals y(static_cast<size_t>(in[0] * channels));
  for (int64_t i = 0; i < in.count(); ++i) {
    y[i / (pixels * channels) * channels + i % channels] += x[i] / static_cast<double>(pixels);
  }
  return y;
}

// The elements of an example that become one, as [outer, count, inner] (ops/pooling/reduce.h).
enum class Reduce { kMax, kMean, kSum };

inline Reals reduced(Reduce how, const ops::Reduction& r, const Reals& x) {
  Reals y;
  for (int64_t outer = 0; outer < r.outer; ++outer) {
    for (int64_t i = 0; i < r.inner; ++i) {
      double sum = 0, most = -INFINITY;
      for (int64_t k = 0; k < r.count; ++k) {
        const double each = x[(outer * r.count + k) * r.inner + i];
        sum += each;
        most = std::max(most, each);
      }
      const double mean = sum / static_cast<double>(r.count);
      y.push_back(how == Reduce::kMax ? most : how == Reduce::kMean ? mean : sum);
    }
  }
  return y;
}

// The second operand has the first one's shape, or one element per channel.
// Softmax of the elements that a reduction over the same axes makes one.
inline Reals softmax(const ops::Reduction& r, const Reals& x) {
  Reals y = x, sums(static_cast<size_t>(r.results())), largest(sums.size(), -INFINITY);
  const auto result = [&](size_t i) { return r.result_of(static_cast<int64_t>(i)); };
  for (size_t i = 0; i < x.size(); ++i) {
    largest[result(i)] = std::max(largest[result(i)], x[i]);
  }
  for (size_t i = 0; i < x.size(); ++i) {
    y[i] = std::exp(x[i] - largest[result(i)]);
    sums[result(i)] += y[i];
  }
  for (size_t i = 0; i < x.size(); ++i) y[i] /= sums[result(i)];
  return y;
}

// Rows [..., P, C] by constant places, and rows put at constant places.
inline Reals gathered(const ops::RowsAttributes& a, const Shape& in, const Reals& x) {
  const int64_t channels = in.last(), size = in[in.rank - 2] * channels;
  Reals y;
  for (int64_t at = 0; at < in.count(); at += size) {
    for (const int64_t row : a.rows) {
      y.insert(y.end(), x.begin() + at + row * channels, x.begin() + at + (row + 1) * channels);
    }
  }
  return y;
}
inline Reals scattered(const ops::RowsAttributes& a, const Shape& in, const Reals& x) {
  const int64_t channels = in.last(), rows = in[in.rank - 2];
  Reals y(static_cast<size_t>(in.count() / rows * a.positions));
  for (int64_t i = 0; i < in.count(); ++i) {
    const int64_t sequence = i / channels / rows, row = i / channels % rows;
    y[(sequence * a.positions + a.rows[row]) * channels + i % channels] = x[i];
  }
  return y;
}

inline Reals product(const Shape& in, const Reals& a, const Reals& b) {
  const int64_t image = in.count() / in[0], channels = in.last();
  Reals y;
  for (int64_t i = 0; i < in.count(); ++i) {
    const bool gate = b.size() != a.size();
    y.push_back(a[i] * b[gate ? i / image * channels + i % channels : i]);
  }
  return y;
}

inline Reals pad(const ops::PadAttributes& a, Shape in, Shape out, const Reals& x) {
  in = images_of(in), out = images_of(out);
  Reals y;
  for (int64_t i = 0; i < out.count(); ++i) {
    const int64_t c = i % out[3], n = i / out[3] / out[2] / out[1];
    const int64_t iy = i / out[3] / out[2] % out[1] - a.top;
    const int64_t ix = i / out[3] % out[2] - a.left;
    const bool inside = iy >= 0 && iy < in[1] && ix >= 0 && ix < in[2];
    y.push_back(inside ? x[((n * in[1] + iy) * in[2] + ix) * in[3] + c] : 0);
  }
  return y;
}

// Channel c of result d has for each tap the number of c at depth d * stride + tap * dilation -
// padding.
inline Reals depth_taps(const ops::DepthTapsAttributes& a, const Shape& in, const Shape& out,
                        const Reals& x) {
  const int64_t pixels = in[2] * in[3], channels = in[4];
  Reals y;
  for (int64_t i = 0; i < out.count(); ++i) {
    const int64_t tap = i % a.kernel, c = i / a.kernel % channels;
    const int64_t pixel = i / out[4] % pixels, d = i / out[4] / pixels % out[1];
    const int64_t n = i / out[4] / pixels / out[1];
    const int64_t depth = d * a.stride + tap * a.dilation - a.padding;
    const bool inside = depth >= 0 && depth < in[1];
    y.push_back(inside ? x[((n * in[1] + depth) * pixels + pixel) * channels + c] : 0);
  }
  return y;
}

inline Reals shuffle(const ops::ShuffleAttributes& a, const Shape& in, const Reals& x) {
  const int64_t channels = in.last(), groups = a.groups;
  Reals y;
  for (int64_t i = 0; i < in.count(); ++i) {
    const int64_t c = i % channels;
    y.push_back(x[i - c + c % groups * (channels / groups) + c / groups]);
  }
  return y;
}

// The rows of each sequence in the opposite order.
inline Reals reverse(const Shape& in, const Reals& x) {
  const int64_t channels = in.last(), positions = in[in.rank - 2];
  Reals y;
  for (int64_t i = 0; i < in.count(); ++i) {
    const int64_t row = i / channels, at = row % positions;
    y.push_back(x[(row - at + positions - 1 - at) * channels + i % channels]);
  }
  return y;
}

// A slope for each channel, or one.
inline Reals prelu(const Reals& x, const Reals& slopes) {
  Reals y = x;
  for (size_t i = 0; i < y.size(); ++i) y[i] *= x[i] > 0 ? 1 : slopes[i % slopes.size()];
  return y;
}

// The angle of pair i of n at a position.
inline double angle_at(double base, int64_t i, int64_t n, int64_t position) {
  return static_cast<double>(position) *
         std::pow(base, -static_cast<double>(i) / static_cast<double>(n));
}

inline Reals sinusoidal(const ops::SinusoidalAttributes& a, const Shape& in, Reals x) {
  const int64_t channels = in.last(), pairs = channels / 2, positions = in[in.rank - 2];
  for (int64_t row = 0; row < in.count() / channels; ++row) {
    for (int64_t i = 0; i < pairs; ++i) {
      const double angle = angle_at(a.base, i, pairs, row % positions);
      x[row * channels + (a.interleaved ? 2 * i : i)] += std::sin(angle);
      x[row * channels + (a.interleaved ? 2 * i + 1 : pairs + i)] += std::cos(angle);
    }
  }
  return x;
}

// Blocks of these sizes from each input in turn.
inline Reals joined(const std::vector<int64_t>& sizes, const std::vector<Reals>& x) {
  Reals y;
  for (size_t block = 0; block * sizes[0] < x[0].size(); ++block) {
    for (size_t i = 0; i < x.size(); ++i) {
      const auto from = x[i].begin() + static_cast<int64_t>(block) * sizes[i];
      y.insert(y.end(), from, from + sizes[i]);
    }
  }
  return y;
}

// The rows before each sequence.
inline Reals prepended(const Shape& in, const Reals& x, const Reals& rows) {
  const int64_t sequence = in[in.rank - 2] * in.last();
  Reals y;
  for (int64_t at = 0; at < in.count(); at += sequence) {
    y.insert(y.end(), rows.begin(), rows.end());
    y.insert(y.end(), x.begin() + at, x.begin() + at + sequence);
  }
  return y;
}

inline Reals rotary(const ops::RotaryAttributes& a, const Shape& in, const Reals& x) {
  const int64_t channels = in.last(), head = channels / a.heads, positions = in[in.rank - 2];
  const int64_t pairs = (a.channels == 0 ? head : a.channels) / 2;
  Reals y = x;
  for (int64_t first = 0; first < in.count(); first += head) {
    for (int64_t i = 0; i < pairs; ++i) {
      const size_t factors = a.factors.size();
      const double factor = factors == 0 ? 1 : std::ldexp(a.factors[factors == 1 ? 0 : i], -23);
      const double angle = angle_at(a.base, i, pairs, first / channels % positions) / factor;
      const int64_t k = first + (a.interleaved ? 2 * i : i);
      const int64_t l = first + (a.interleaved ? 2 * i + 1 : pairs + i);
      y[k] = x[k] * std::cos(angle) - x[l] * std::sin(angle);
      y[l] = x[k] * std::sin(angle) + x[l] * std::cos(angle);
    }
  }
  return y;
}

using PointFunctionOfReals = std::function<double(double)>;

inline PointFunctionOfReals pointwise(const Op* op, const Attributes& a) {
  const auto hard_sigmoid = [](double x) { return std::clamp(x + 3, 0.0, 6.0) / 6; };
  if (op == &ops::kRelu6) return [](double x) { return std::clamp(x, 0.0, 6.0); };
  if (op == &ops::kSigmoid) return [](double x) { return 1 / (1 + std::exp(-x)); };
  if (op == &ops::kTanh) return [](double x) { return std::tanh(x); };
  if (op == &ops::kHardSigmoid) return hard_sigmoid;
  if (op == &ops::kHardSwish) return [=](double x) { return x * hard_sigmoid(x); };
  if (op == &ops::kGelu) return [](double x) { return x * std::erfc(-x / std::sqrt(2.0)) / 2; };
  if (op == &ops::kGeluTanh) {
    return [](double x) {
      const double u = std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x);
      return x * (1 + std::tanh(u)) / 2;
    };
  }
  if (op == &ops::kSilu) return [](double x) { return x / (1 + std::exp(-x)); };
  if (op == &ops::kSoftplus) {
    return [](double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); };
  }
  if (op == &ops::kMish) return [](double x) { return x * std::tanh(std::log1p(std::exp(x))); };
  if (op == &ops::kElu) {
    const double alpha = a.as<ops::EluAttributes>().alpha;
    return [=](double x) { return x > 0 ? x : alpha * std::expm1(x); };
  }
  if (op == &ops::kLeakyRelu) {
    const double slope = a.as<ops::LeakyReluAttributes>().slope;
    return [=](double x) { return x > 0 ? x : slope * x; };
  }
  return nullptr;
}

inline bool has_kinks(const Op* op) {
  return op == &ops::kPrelu || op == &ops::kElu || op == &ops::kRelu6 ||
         op == &ops::kLeakyRelu || op == &ops::kHardSigmoid ||
         op == &ops::kHardSwish;
}

}  // namespace mantissa::testing
