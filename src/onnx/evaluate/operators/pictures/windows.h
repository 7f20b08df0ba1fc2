// Windows that slide over one to three dimensions, of convolutions and pooling.
#pragma once

#include <array>
#include <cstdint>

#include "base/result.h"
#include "onnx/evaluate/call.h"

namespace mantissa::onnx {

// Depth, height, width; those that a value lacks have size 1.
using Three = std::array<int64_t, 3>;

struct Windows {
  int64_t rank = 2;  // dimensions that there are
  Three in, out, kernel;
  Three stride, dilation, before, after;

  int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  int64_t inputs() const { return in[0] * in[1] * in[2]; }
  int64_t outputs() const { return out[0] * out[1] * out[2]; }
  // Batch, channels and `sizes` without the dimensions that are not there.
  Dims dims(int64_t batch, int64_t channels, const Three& sizes) const;
};

// The windows of a node with attributes strides, pads, dilations, auto_pad, over input 0, without
// the output's sizes.
Result<Windows> read_windows(OpCall& call, const Dims& kernel);

// The same with sizes of outputs; rounded up with `ceil`, but the last window begins inside.
Result<Windows> windows_of(OpCall& call, const Dims& kernel, bool ceil);

// The outputs [first, last) along one dimension whose tap `k` lies inside the input.
struct Range {
  int64_t first;
  int64_t last;
};
Range inside(const Windows& windows, int d, int64_t k);

// For each tap, and each row of outputs whose windows hold it: use(tap, input, output, columns). At
// the output `output` + k, k in `columns`, the tap meets the input `input` + k * stride[2].
template <typename Use>
void for_each_row(const Windows& w, const Use& use) {
  for (int64_t tap = 0; tap < w.taps(); ++tap) {
    const int64_t x = tap % w.kernel[2];
    const int64_t y = tap / w.kernel[2] % w.kernel[1];
    const int64_t z = tap / w.kernel[2] / w.kernel[1];
    const Range depth = inside(w, 0, z);
    const Range rows = inside(w, 1, y);
    const Range columns = inside(w, 2, x);
    for (int64_t oz = depth.first; oz < depth.last; ++oz) {
      const int64_t iz = oz * w.stride[0] + z * w.dilation[0] - w.before[0];
      for (int64_t oy = rows.first; oy < rows.last; ++oy) {
        const int64_t iy = oy * w.stride[1] + y * w.dilation[1] - w.before[1];
        use(tap, (iz * w.in[1] + iy) * w.in[2] + x * w.dilation[2] - w.before[2],
            (oz * w.out[1] + oy) * w.out[2], columns);
      }
    }
  }
}

}  // namespace mantissa::onnx
