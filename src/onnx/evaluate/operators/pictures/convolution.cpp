// Conv and ConvTranspose over one to three dimensions.
#include <algorithm>
#include <vector>

#include "base/checked.h"
#include "onnx/evaluate/gemm/gemm.h"
#include "onnx/evaluate/op_table.h"
#include "onnx/evaluate/operators/pictures/windows.h"

namespace mantissa::onnx {
namespace {

struct Convolution {
  Windows windows;
  int64_t batch;
  int64_t groups;
  int64_t in_channels;   // of a group
  int64_t out_channels;  // of a group
  const float* in;
  const float* weights;
  const float* bias;  // or null
  float* out;
};

// Fewer output channels in a group do not pay for packing the input.
constexpr int64_t kLeastPackedChannels = 4;

// One output channel of one image, tap by tap: for depthwise convolutions, and convolutions of few
// channels.
void convolve_channel(const Convolution& c, int64_t n, int64_t channel) {
  const Windows& w = c.windows;
  const int64_t group = channel / c.out_channels;
  float* out = c.out + (n * c.groups * c.out_channels + channel) * w.outputs();
  std::fill_n(out, w.outputs(), c.bias == nullptr ? 0.0f : c.bias[channel]);
  const float* weight = c.weights + channel * c.in_channels * w.taps();
  for (int64_t i = 0; i < c.in_channels; ++i) {
    const float* in = c.in + ((n * c.groups + group) * c.in_channels + i) * w.inputs();
    for_each_row(w, [&](int64_t tap, int64_t input, int64_t output, Range columns) {
      const float factor = weight[tap];
      const float* row = in + input;
      float* sums = out + output;
      if (w.stride[2] == 1) {
        for (int64_t k = columns.first; k < columns.last; ++k) sums[k] += factor * row[k];
      } else {
        for (int64_t k = columns.first; k < columns.last; ++k) {
          sums[k] += factor * row[k * w.stride[2]];
        }
      }
    });
    weight += w.taps();
  }
}

// The inputs that kTileColumns outputs of a group's image meet, from output `first` on: a panel of
// gemm.h, whose depth is input channels times taps.
void pack_panel(const Convolution& c, const float* image, int64_t first, int64_t count,
                float* panel) {
  const Windows& w = c.windows;
  // The input place of each output's first tap.
  int64_t z[kTileColumns];
  int64_t y[kTileColumns];
  int64_t x[kTileColumns];
  for (int64_t j = 0; j < count; ++j) {
    const int64_t o = first + j;
    x[j] = o % w.out[2] * w.stride[2] - w.before[2];
    y[j] = o / w.out[2] % w.out[1] * w.stride[1] - w.before[1];
    z[j] = o / w.out[2] / w.out[1] * w.stride[0] - w.before[0];
  }
  const bool one_run = count == kTileColumns && w.stride[2] == 1 && y[0] == y[count - 1] &&
                       z[0] == z[count - 1] && x[count - 1] - x[0] == count - 1;
  for (int64_t i = 0; i < c.in_channels; ++i, image += w.inputs()) {
    for (int64_t tap = 0; tap < w.taps(); ++tap, panel += kTileColumns) {
      const int64_t dx = tap % w.kernel[2] * w.dilation[2];
      const int64_t dy = tap / w.kernel[2] % w.kernel[1] * w.dilation[1];
      const int64_t dz = tap / w.kernel[2] / w.kernel[1] * w.dilation[0];
      if (one_run && x[0] + dx >= 0 && x[count - 1] + dx < w.in[2] && y[0] + dy >= 0 &&
          y[0] + dy < w.in[1] && z[0] + dz >= 0 && z[0] + dz < w.in[0]) {
        std::copy_n(image + ((z[0] + dz) * w.in[1] + y[0] + dy) * w.in[2] + x[0] + dx, kTileColumns,
                    panel);
        continue;
      }
      for (int64_t j = 0; j < count; ++j) {
        const int64_t iz = z[j] + dz;
        const int64_t iy = y[j] + dy;
        const int64_t ix = x[j] + dx;
        const bool there =
            iz >= 0 && iz < w.in[0] && iy >= 0 && iy < w.in[1] && ix >= 0 && ix < w.in[2];
        panel[j] = there ? image[(iz * w.in[1] + iy) * w.in[2] + ix] : 0.0f;
      }
      std::fill(panel + count, panel + kTileColumns, 0.0f);
    }
  }
}

void convolve_group(const Convolution& c, int64_t group, ThreadPool& pool) {
  const Windows& w = c.windows;
  const int64_t depth = c.in_channels * w.taps();
  const int64_t outputs = w.outputs();
  std::vector<float> packed(packed_size(c.out_channels, depth));
  pack_rows(c.weights + group * c.out_channels * depth, c.out_channels, depth, depth, 1,
            packed.data());
  std::vector<std::vector<float>> panels(pool.size());
  const int64_t tiles = divide_up(outputs, kTileColumns);
  pool.parallel_for(c.batch * tiles, [&](int64_t task, int worker) {
    std::vector<float>& panel = panels[worker];
    panel.resize(kTileColumns * depth);
    const int64_t image = task / tiles * c.groups + group;
    const int64_t first = task % tiles * kTileColumns;
    const int64_t count = std::min(kTileColumns, outputs - first);
    pack_panel(c, c.in + image * c.in_channels * w.inputs(), first, count, panel.data());
    multiply_panel(packed.data(), c.out_channels, depth, panel.data(),
                   c.bias == nullptr ? nullptr : c.bias + group * c.out_channels,
                   c.out + image * c.out_channels * outputs + first, outputs, count);
  });
}

Dims kernel_dims(OpCall& call) {
  const Dims& weights = call.dims(1);
  return {weights.begin() + std::min<size_t>(2, weights.size()), weights.end()};
}

// Checks for both Conv and ConvTranspose.
Status check_operands(OpCall& call, int64_t groups, int64_t in_channels, int64_t out_channels) {
  MANTISSA_RETURN_IF_ERROR(call.check_float(3));
  const Dims& dims = call.dims(0);
  if (groups < 1 || dims.size() < 3 || dims[1] != in_channels || out_channels % groups != 0 ||
      in_channels % groups != 0) {
    return invalid_input("weights of dims " + to_text(call.dims(1)) + " and group " +
                         std::to_string(groups) + " for a value of dims " + to_text(dims));
  }
  const std::vector<int64_t> kernel = call.integers("kernel_shape");
  if (!kernel.empty() && kernel != kernel_dims(call)) {
    return invalid_input("a kernel_shape other than the weights'");
  }
  if (call.has(2) && call.dims(2) != Dims{out_channels}) {
    return invalid_input("a bias of dims " + to_text(call.dims(2)));
  }
  return {};
}

Status conv(OpCall& call) {
  const int64_t groups = call.integer("group", 1);
  if (call.rank(1) < 3 || groups < 1 || groups > INT32_MAX) {
    return invalid_input("weights of dims " + to_text(call.dims(1)) + " in " +
                         std::to_string(groups) + " groups");
  }
  const int64_t in_channels = call.dims(1)[1];
  const int64_t out_channels = call.dims(1)[0];
  MANTISSA_RETURN_IF_ERROR(check_operands(call, groups, in_channels * groups, out_channels));
  MANTISSA_ASSIGN(const Windows windows, windows_of(call, kernel_dims(call), false));
  const int64_t batch = call.dims(0)[0];
  MANTISSA_RETURN_IF_ERROR(
      call.make(0, ElementType::kFloat, windows.dims(batch, out_channels, windows.out)));
  if (call.shapes_only()) return {};
  const Convolution c{windows,
                      batch,
                      groups,
                      in_channels,
                      out_channels / groups,
                      call.data<float>(0),
                      call.data<float>(1),
                      call.has(2) ? call.data<float>(2) : nullptr,
                      call.out<float>(0)};
  if (c.out_channels < kLeastPackedChannels) {
    call.pool().parallel_for(batch * out_channels, [&](int64_t task, int) {
      convolve_channel(c, task / out_channels, task % out_channels);
    });
  } else {
    for (int64_t group = 0; group < groups; ++group) convolve_group(c, group, call.pool());
  }
  return {};
}

// Sizes and pads of a transposed convolution. They belong to the convolution whose gradient it is.
Result<Windows> transposed_windows(OpCall& call) {
  MANTISSA_ASSIGN(Windows windows, read_windows(call, kernel_dims(call)));
  const std::string mode = call.text("auto_pad", "NOTSET");
  const std::vector<int64_t> shape = call.integers("output_shape");
  const std::vector<int64_t> extra = call.integers("output_padding");
  const auto rank = static_cast<size_t>(windows.rank);
  if ((!shape.empty() && shape.size() != rank) || (!extra.empty() && extra.size() != rank)) {
    return invalid_input("output_shape or output_padding for another rank");
  }
  const bool same = mode == "SAME_UPPER" || mode == "SAME_LOWER";
  if (!same && mode != "NOTSET" && mode != "VALID") return invalid_input("auto_pad '" + mode + "'");
  if (mode == "VALID") windows.before = windows.after = {0, 0, 0};
  for (const int64_t size : shape) {
    if (size < 0 || size > INT32_MAX) return invalid_input("output_shape " + to_text(shape));
  }
  for (size_t d = 0; d < 3; ++d) {
    const bool there = d >= 3 - rank;
    const size_t i = d - (3 - rank);
    const int64_t padding = there && !extra.empty() ? extra[i] : 0;
    if (padding < 0 || padding > 1 << 20) return invalid_input("output_padding");
    const int64_t whole = windows.stride[d] * (windows.in[d] - 1) + padding +
                          (windows.kernel[d] - 1) * windows.dilation[d] + 1;
    if (there && (!shape.empty() || same)) {
      windows.out[d] = shape.empty() ? windows.in[d] * windows.stride[d] : shape[i];
      const int64_t total = std::max<int64_t>(whole - windows.out[d], 0);
      windows.before[d] = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
    } else {
      windows.out[d] = whole - windows.before[d] - windows.after[d];
    }
    if (windows.out[d] < 0 || windows.out[d] > INT32_MAX) {
      return invalid_input("an output of size " + std::to_string(windows.out[d]));
    }
  }
  return windows;
}

// One output channel of one image. Inputs and outputs have changed places: a tap of an input lands
// at input * stride + tap * dilation - pad.
void transpose_channel(const Convolution& c, const Windows& swapped, int64_t n, int64_t channel) {
  const int64_t group = channel / c.out_channels;
  const int64_t within = channel % c.out_channels;
  float* out = c.out + (n * c.groups * c.out_channels + channel) * swapped.inputs();
  std::fill_n(out, swapped.inputs(), c.bias == nullptr ? 0.0f : c.bias[channel]);
  for (int64_t i = 0; i < c.in_channels; ++i) {
    const int64_t in_channel = group * c.in_channels + i;
    const float* in = c.in + (n * c.groups * c.in_channels + in_channel) * swapped.outputs();
    const float* weight = c.weights + (in_channel * c.out_channels + within) * swapped.taps();
    for_each_row(swapped, [&](int64_t tap, int64_t output, int64_t input, Range columns) {
      const float* row = in + input;
      float* sums = out + output;
      for (int64_t k = columns.first; k < columns.last; ++k) {
        sums[k * swapped.stride[2]] += weight[tap] * row[k];
      }
    });
  }
}

Status conv_transpose(OpCall& call) {
  const int64_t groups = call.integer("group", 1);
  if (call.rank(1) < 3 || groups < 1 || groups > INT32_MAX) {
    return invalid_input("weights of dims " + to_text(call.dims(1)) + " in " +
                         std::to_string(groups) + " groups");
  }
  const int64_t in_channels = call.dims(1)[0];
  const int64_t out_channels = call.dims(1)[1] * groups;
  MANTISSA_RETURN_IF_ERROR(check_operands(call, groups, in_channels, out_channels));
  MANTISSA_ASSIGN(const Windows windows, transposed_windows(call));
  const int64_t batch = call.dims(0)[0];
  MANTISSA_RETURN_IF_ERROR(
      call.make(0, ElementType::kFloat, windows.dims(batch, out_channels, windows.out)));
  if (call.shapes_only()) return {};
  Windows swapped = windows;
  std::swap(swapped.in, swapped.out);
  const Convolution c{windows,
                      batch,
                      groups,
                      in_channels / groups,
                      out_channels / groups,
                      call.data<float>(0),
                      call.data<float>(1),
                      call.has(2) ? call.data<float>(2) : nullptr,
                      call.out<float>(0)};
  call.pool().parallel_for(batch * out_channels, [&](int64_t task, int) {
    transpose_channel(c, swapped, task / out_channels, task % out_channels);
  });
  return {};
}

constexpr OpRow kConvolutionRows[] = {
    {"Conv", 1, conv, {2, 3}, "auto_pad dilations group kernel_shape pads strides"},
    {"ConvTranspose",
     1,
     conv_transpose,
     {2, 3},
     "auto_pad dilations group kernel_shape output_padding output_shape pads strides"},
};

}  // namespace

std::span<const OpRow> convolution_operators() { return kConvolutionRows; }

}  // namespace mantissa::onnx
