// Where a resized axis takes its numbers from: the same in all arithmetics.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <numeric>

#include "ops/attributes.h"
#include "ops/image_shape.h"

namespace mantissa::ops {

// A result along an axis: (first_weight * x[first] + second_weight * x[second]) / denominator.
struct ResizeTap {
  int64_t first, second, first_weight, second_weight;
};

// Linear interpolation from `in` elements to `out`. Without align_corners the centres of the pixels
// are brought together, result i lies at (i + 1/2) * in / out - 1/2; with it the first and last
// elements, i * (in - 1) / (out - 1). Beyond the outermost elements it equals these. Places are
// whole numbers over one denominator.
struct ResizeAxis {
  int64_t in, out;
  int64_t step, start, denominator;

  ResizeAxis(int64_t in_, int64_t out_, bool align_corners) : in(in_), out(out_) {
    if (align_corners) {
      step = out > 1 ? in - 1 : 0, start = 0, denominator = std::max<int64_t>(1, out - 1);
    } else {
      step = 2 * in, start = in - out, denominator = 2 * out;
    }
    const int64_t common = std::gcd(std::gcd(step, std::abs(start)), denominator);
    step /= common, start /= common, denominator /= common;
  }
  ResizeTap tap(int64_t i) const {
    const int64_t place = std::clamp<int64_t>(start + i * step, 0, (in - 1) * denominator);
    const int64_t first = place / denominator, rest = place % denominator;
    return {first, std::min(first + 1, in - 1), denominator - rest, rest};
  }
  // The weight of input j in result i.
  int64_t weight(int64_t i, int64_t j) const {
    const ResizeTap t = tap(i);
    return (t.first == j ? t.first_weight : 0) + (t.second == j ? t.second_weight : 0);
  }
  // The first result that may read input j, and the one after the last.
  int64_t begin(int64_t j) const { return j == 0 ? 0 : first_at((j - 1) * denominator + 1); }
  int64_t end(int64_t j) const { return j == in - 1 ? out : first_at((j + 1) * denominator); }

 private:
  // The first result at this place or behind it.
  int64_t first_at(int64_t place) const {
    if (step == 0) return out;
    const int64_t distance = place - start;
    return distance <= 0 ? 0 : std::min(out, (distance + step - 1) / step);
  }
};

struct ResizeAxes {
  ResizeAxis vertical, horizontal;
};

// Shapes with the micro-batch in front.
inline ResizeAxes resize_axes(const ResizeAttributes& a, const Shape& input, const Shape& output) {
  const Shape in = as_images(input), out = as_images(output);
  return {{in[1], out[1], a.align_corners}, {in[2], out[2], a.align_corners}};
}

struct UpsampleFactors {
  int64_t vertical, horizontal;
};

// A sequence has a width alone.
inline UpsampleFactors upsample_factors(const UpsampleAttributes& a, bool of_sequence) {
  if (of_sequence) return {1, a.factor};
  return {a.factor, a.factor_width > 0 ? a.factor_width : a.factor};
}

}  // namespace mantissa::ops
