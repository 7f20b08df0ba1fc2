// Operators that put numbers of windows back into pictures.
#include <algorithm>

#include "onnx/evaluate/op_table.h"
#include "onnx/evaluate/operators/pictures/windows.h"

namespace mantissa::onnx {
namespace {

// The sizes that the pooled picture had, as far as strides and pads tell them.
Dims unpooled_dims(const Windows& w, int64_t batch, int64_t channels) {
  Three sizes;
  for (int d = 0; d < 3; ++d) {
    sizes[d] = (w.in[d] - 1) * w.stride[d] + w.kernel[d] - w.before[d] - w.after[d];
  }
  return w.dims(batch, channels, sizes);
}

// Places count in the sizes that follow from the windows, even if output_shape gives larger ones.
Status max_unpool(OpCall& call) {
  MANTISSA_ASSIGN(const Windows w, read_windows(call, call.integers("kernel_shape")));
  if (call.dims(1) != call.dims(0) || call.type(1) != ElementType::kInt64) {
    return invalid_input("places of dims " + to_text(call.dims(1)) + " for a value of dims " +
                         to_text(call.dims(0)));
  }
  const Dims implied = unpooled_dims(w, call.dims(0)[0], call.dims(0)[1]);
  Dims dims = implied;
  if (call.has(2)) {
    MANTISSA_ASSIGN(dims, call.whole(2));
  }
  bool fits = dims.size() == implied.size();
  for (size_t d = 0; fits && d < dims.size(); ++d) {
    fits = d < 2 ? dims[d] == implied[d] : dims[d] >= implied[d] && implied[d] >= 0;
  }
  if (!fits) return invalid_input("an output of dims " + to_text(dims));
  return with_type(Types<float, double, int8_t, uint8_t>(), call.type(0),
                   [&]<typename T>() -> Status {
                     MANTISSA_RETURN_IF_ERROR(call.make(0, call.type(0), dims));
                     if (call.shapes_only()) return {};
                     const int64_t count = count_of(implied);
                     for (int64_t i = 0; i < count_of(call.dims(0)); ++i) {
                       int64_t rest = call.data<int64_t>(1)[i];
                       if (rest < 0 || rest >= count)
                         return invalid_input("place " + std::to_string(rest));
                       int64_t place = 0;
                       int64_t step = 1;
                       for (size_t d = dims.size(); d-- > 0;) {
                         place += rest % implied[d] * step;
                         rest /= implied[d];
                         step *= dims[d];
                       }
                       call.out<T>(0)[place] = call.data<T>(0)[i];
                     }
                     return {};
                   });
}

// The windows of a picture of `image` sizes, as input 0 of Col2Im has them, one for each column.
struct Columns {
  Dims image, block, dilation, stride, before, blocks;
};

Result<Columns> columns_of(OpCall& call) {
  Columns c;
  MANTISSA_ASSIGN(c.image, call.whole(1));
  MANTISSA_ASSIGN(c.block, call.whole(2));
  const size_t rank = c.image.size();
  const auto list = [&](const char* name, size_t size, int64_t otherwise) {
    Dims given = call.integers(name);
    return given.empty() ? Dims(size, otherwise) : given;
  };
  c.dilation = list("dilations", rank, 1);
  c.stride = list("strides", rank, 1);
  const Dims pads = list("pads", 2 * rank, 0);
  if (rank < 1 || rank > 6 || c.block.size() != rank || c.dilation.size() != rank ||
      c.stride.size() != rank || pads.size() != 2 * rank) {
    return invalid_input("an image, blocks, strides, dilations or pads of different ranks");
  }
  c.before.assign(pads.begin(), pads.begin() + static_cast<int64_t>(rank));
  for (size_t d = 0; d < rank; ++d) {
    constexpr int64_t kMost = 1 << 20;
    for (const int64_t size : {c.image[d], c.block[d], c.dilation[d], c.stride[d]}) {
      if (size < 1 || size > kMost) return invalid_input("a size of " + std::to_string(size));
    }
    for (const int64_t pad : {pads[d], pads[d + rank]}) {
      if (pad < 0 || pad > kMost) return invalid_input("a pad of " + std::to_string(pad));
    }
    const int64_t span =
        c.image[d] + pads[d] + pads[d + rank] - (c.block[d] - 1) * c.dilation[d] - 1;
    if (span < 0) return invalid_input("a block larger than the image");
    c.blocks.push_back(span / c.stride[d] + 1);
  }
  return c;
}

// The place of a tap of a window in the picture, or -1.
int64_t image_place(const Columns& c, int64_t tap, int64_t window) {
  int64_t place = 0;
  int64_t step = 1;
  for (size_t d = c.image.size(); d-- > 0;) {
    const int64_t at =
        window % c.blocks[d] * c.stride[d] + tap % c.block[d] * c.dilation[d] - c.before[d];
    if (at < 0 || at >= c.image[d]) return -1;
    place += at * step;
    step *= c.image[d];
    window /= c.blocks[d];
    tap /= c.block[d];
  }
  return place;
}

Status col2im(OpCall& call) {
  MANTISSA_ASSIGN(const Columns c, columns_of(call));
  const Dims& from = call.dims(0);
  const int64_t taps = count_of(c.block);
  const int64_t windows = count_of(c.blocks);
  if (from.size() != 3 || from[1] % taps != 0 || from[2] != windows) {
    return invalid_input("a value of dims " + to_text(from) + ", where there are " +
                         std::to_string(windows) + " windows of " + std::to_string(taps));
  }
  const int64_t channels = from[1] / taps;
  Dims dims = {from[0], channels};
  dims.insert(dims.end(), c.image.begin(), c.image.end());
  return with_type(Numbers(), call.type(0), [&]<typename T>() -> Status {
    MANTISSA_RETURN_IF_ERROR(call.make(0, call.type(0), dims));
    if (call.shapes_only()) return {};
    const int64_t size = count_of(c.image);
    const T* in = call.data<T>(0);
    for (int64_t row = 0; row < from[0] * from[1]; ++row) {
      T* out = call.out<T>(0) + row / taps * size;
      for (int64_t window = 0; window < windows; ++window, ++in) {
        const int64_t place = image_place(c, row % taps, window);
        if (place >= 0) out[place] = static_cast<T>(out[place] + *in);
      }
    }
    return {};
  });
}

constexpr OpRow kUnpoolRows[] = {
    {"MaxUnpool", 9, max_unpool, {2, 3}, "kernel_shape pads strides"},
    {"Col2Im", 18, col2im, 3, "dilations pads strides"},
};

}  // namespace

std::span<const OpRow> unpool_operators() { return kUnpoolRows; }

}  // namespace mantissa::onnx
