// grad_weights on pairs of images: sums over (image, y, x) of int16 products.
//
// Depth is packed in units of two images' positions: the input window as int16
// [pair][row][column][C][2], grad_output as [group of 16 channels][pair][y][x][16][2]. A tile sums
// some of a tap row's (kx, c) for one group. Work is cut by units (each thread has its own sums)
// or, where there are many weights or few units, by slices of channels, which need no combining.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/convolution/geometry.h"
#include "kernels/convolution/words/tile.h"

namespace mantissa::kernels::convolution_words {

using namespace convolution_geometry;

// Positions of a unit: 512 products of int16 and int8 fit int32, be they of -128.
constexpr int64_t kUnitPositions = 256;

struct GradWeightsPlan {
  ConvolutionShape shape;
  int64_t step = 1, decimation = 1;  // packed pixels between outputs; source pixels between packed
  int64_t unit_pairs = 1, band_rows = 1, band_columns = 1;  // of a unit
  int64_t bands_y = 1, bands_x = 1, units = 1;
  int64_t slice_inputs = 0, slice_outputs = 0;  // channels of a slice
  int64_t input_slices = 1, output_slices = 1;
  int64_t units_per_task = 1;
  int sum_bits = 64;  // of the totals, and of the sums on the way to them
  // Scratch of each thread: sums of a slice, room for int64, packed input, packed grad_output.
  size_t input_offset = 0, grads_offset = 0, thread_bytes = 0, used_offset = 0, total_bytes = 0;

  int64_t slices() const { return input_slices * output_slices; }
  bool combines() const { return slices() == 1; }
};

GradWeightsPlan plan_grad_weights(const ConvolutionShape& shape, int sum_bits, int threads);

// Channels [first_input, first_input + inputs) and [first_output, first_output + outputs).
struct Slice {
  int64_t first_input = 0, inputs = 0;
  int64_t first_output = 0, outputs = 0;

  // Sums lie as [group][KH][KW][inputs][vectors * 8]: the start of group `group`, for KH * KW taps.
  int64_t sums_at(int64_t taps, int64_t group) const {
    return group * kGroupChannels * taps * inputs;
  }
  int64_t groups() const { return ceil_div(outputs, kGroupChannels); }
  int64_t group_channels(int64_t group) const {
    return smaller(kGroupChannels, outputs - group * kGroupChannels);
  }
  int group_vectors(int64_t group) const { return vectors_for(group_channels(group)); }
};

// The part of the work in a unit: pairs from image 2 * pair, output pixels from (y, x).
struct Unit {
  int64_t pair = 0, pairs = 0;
  int64_t y = 0, rows = 0;
  int64_t x = 0, columns = 0;

  // Packed gradients of one group; a position more, lest groups lie a power of two apart.
  int64_t group_words() const { return (pairs * rows * columns + 1) * kGroupChannels * 2; }
};

// Packed pixels of a unit's input window.
inline int64_t window_rows(const GradWeightsPlan& plan, int64_t rows) {
  return (rows - 1) * plan.step + plan.shape.kernel_height;
}
inline int64_t window_columns(const GradWeightsPlan& plan, int64_t columns) {
  return (columns - 1) * plan.step + plan.shape.kernel_width;
}

// Words of one packed pixel of `inputs` channels. If tap rows do not span pixels it is padded to an
// odd number of cache lines, so that a tile's pixels do not compete for few places in the L1 cache.
inline int64_t pixel_words(const GradWeightsPlan& plan, int64_t inputs) {
  if (plan.shape.kernel_width > 1 || inputs < 32) return 2 * inputs;
  return (ceil_div(2 * inputs, 32) | 1) * 32;
}

// How one instruction set packs a unit, and rescales sums.
struct GradWeightsPacking {
  void (*input)(const GradWeightsPlan& plan, const int8_t* input, const Unit& unit,
                const Slice& slice, int16_t* to);
  void (*int8_grads)(const GradWeightsPlan& plan, const int8_t* grads, const Unit& unit,
                     const Slice& slice, int16_t* to);
  void (*int16_grads)(const GradWeightsPlan& plan, const int16_t* grads, const Unit& unit,
                      const Slice& slice, int16_t* to);
  // Rescales sums into args.totals for one group of a slice and tap (ky * KW + kx). They are the
  // sums of all parts added up.
  void (*finish)(const GradWeightsPlan& plan, const Slice& slice, int64_t group, int64_t tap,
                 const void* const* parts, int part_count, const ConvolutionGradWeights& args);
};

}  // namespace mantissa::kernels::convolution_words
