// grad_weights on products of bytes: sums over (image, y, x), four images per dword.
//
// Depth is packed in units: a band of output pixels of a group of four images, holding the input it
// needs as biased bytes xu = x + 128, [panel][unit][row][column][channel][4], and grad_output g as
// two signed byte planes high = g >> 8 and low = (g & 255) - 128, [panel][unit][y][x][channel][4].
// Panels are of all channels or, where these are many, of 16, which lie together then. With DH =
// sum of high * xu and DL = sum of low * xu,
//   sum of g * x = 256 * DH + DL + 128 * (sum of (xu - 128) - sum of (256 * high + low)).
// Images and rows that do not exist have g = 0 and whatever x. Gradients of up to 8 bits are one
// plane:
//   sum of g * x = sum of g * xu - 128 * sum of g.
//
// With few weights each thread sums chunks of its own, in vectors of 16 output channels; the
// threads' sums are added and transposed at the end. With many weights all threads share the tiles
// of a chunk, in vectors of 16 inputs, the (kx, c) of a tap row: their sums lie like the
// weights. They pack its gradients a slice of the channels at a time, so that scratch holds no
// second copy of a large layer's.
//
// AMX multiplies tiles of 16 channels by 16 positions of four images of gradients (a) by as many
// positions of 16 (kx, c) (b). b is the packed input as it lies, a row per position; a is a second
// copy of the packed planes, transposed (amx_grad_weights_tile.cpp).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/convolution/bytes/plan.h"

namespace mantissa::kernels::convolution_bytes {

// 255 * 128 * depth stays below 2^31.
constexpr int64_t kGradWeightsDepth = 65536;
// Output channels that one call of sum_shared goes over: their gradients stay in the L2 cache.
constexpr int64_t kOutputsPerTask = 64;
// Packed buffers may be read this far beyond their end, the input also as far as tiles say.
constexpr int64_t kGradWeightsSlack = 320;

// Threads that may keep sums of their own.
constexpr int kMostOwnSums = 256;

struct GradWeightsTiles;

struct GradWeightsPlan {
  const GradWeightsTiles& tiles;
  ConvolutionShape shape;
  int planes = 2;                    // of grad_output
  int sum_bits = 64;                 // of the totals, and of the sums on the way to them
  int64_t step = 1, decimation = 1;  // packed pixels between outputs; source pixels between packed
  int64_t band_rows = 1, band_columns = 1;  // output pixels of a unit
  int64_t bands_y = 1, bands_x = 1, units = 1;
  int64_t window_rows = 1, window_columns = 1;
  int64_t panel_channels = 1, panels = 1;  // of grad_output
  int64_t slice_panels = 1;                // of them, packed at once
  int64_t input_panel_channels = 1, input_panels = 1;
  int64_t run = 0, rows = 0, columns = 0;  // KW*C; KH*KW*C; O rounded up to 16
  bool shared_chunks = false;              // all threads work on one chunk, else each on its own
  int64_t chunk_units = 1;
  // Scratch: sums, room for int64, then the chunk's parts. For each thread [row][column]; for
  // shared chunks [O][KH][run_pitch()], and none if there is one chunk.
  size_t sums_bytes = 0, used_offset = 0, chunks_offset = 0;
  size_t planes_offset = 0, plane_stride = 0, transposed_offset = 0;
  int64_t transposed_plane_bytes = 0;  // of a block of 16 channels, with all units
  size_t input_sums_offset = 0, grad_sums_offset = 0;
  int64_t panel_stride = 0, input_panel_stride = 0;
  size_t chunk_bytes = 0, total_bytes = 0;

  int64_t unit_positions() const { return band_rows * band_columns; }
  int64_t position_bytes() const { return panel_channels * 4; }  // of one panel and plane
  // In one panel of the input: a pixel, and a unit.
  int64_t pixel_bytes() const { return input_panel_channels * 4; }
  int64_t input_bytes() const { return window_rows * window_columns * pixel_bytes(); }
  // From the first gradient of a unit, or of a chunk's slice, to the first of one of its channels.
  int64_t channel_offset(int64_t channel) const {
    return channel / panel_channels * panel_stride + channel % panel_channels * 4;
  }
  // From the input of the first (kx, c) of a tap row to the input of (kx, c) `row`, the first of 16
  // adjacent ones.
  int64_t input_offset(int64_t row) const {
    const int64_t kx = row / shape.in_channels, c = row % shape.in_channels;
    return kx * pixel_bytes() + c / input_panel_channels * input_panel_stride +
           c % input_panel_channels * 4;
  }
  int64_t run_pitch() const { return round_up(run, 16); }
  // The place in scratch at which the sums of a tap row of one channel begin.
  int64_t shared_sums_at(int64_t output, int64_t ky) const {
    return (output * shape.kernel_height + ky) * run_pitch();
  }
  int64_t chunks() const { return ceil_div(units, chunk_units); }
  int64_t slices() const { return ceil_div(panels, slice_panels); }
  int64_t slice_channels() const { return slice_panels * panel_channels; }
  // Whether sums of shared chunks wait in scratch for the last chunk.
  bool keeps_sums() const { return sum_bits == 64 && chunks() > 1; }
  // Blocks of 16 columns whose products are summed at once: two vectors of gradients, or one if
  // there is only one.
  int64_t blocks_at_once() const { return planes == 1 && columns > 16 ? 2 : 1; }
};

GradWeightsPlan plan_grad_weights(const GradWeightsTiles& tiles, const ConvolutionShape& shape,
                                  int bits, int sum_bits, int threads);

// The positions of some units: three nested loops (outermost first) over the packed input; the
// gradient's positions are adjacent.
struct Positions {
  int64_t count[3];
  int64_t step[3];  // bytes in the packed input
};
Positions positions_of(const GradWeightsPlan& plan, int64_t units);

// One chunk's buffers.
struct Chunk {
  uint8_t* input = nullptr;       // [unit]
  int8_t* planes = nullptr;       // of a slice: high, plane_stride later low; or the only one
  int8_t* transposed = nullptr;   // of the slice, if tiles want it
  int64_t first_channel = 0;      // of the slice
  int32_t* input_sums = nullptr;  // [KH][run rounded up to 64]: sum of (xu - 128)
  GradientSums grad_sums;         // [columns]: sum of 256 * high + low
  int64_t units = 0;
};

// Sums of some rows, int64 or, modulo 2^32, int32: [row][pitch], one copy per thread that has any.
struct SumsView {
  const GradientSums* parts = nullptr;
  int part_count = 0;
  int64_t pitch = 0;
};

// How one instruction set packs a unit, sums its operands and rescales sums.
struct GradWeightsPacking {
  void (*input)(const GradWeightsPlan& plan, const int8_t* input, int64_t unit, uint8_t* to);
  // The slice's gradients from first_channel on, to the high plane, or the only one.
  void (*grads)(const GradWeightsPlan& plan, const ConstMantissaSpan& grads, int64_t unit,
                int64_t first_channel, int8_t* to);
  // input_sums of 64 positions of the run, for each ky.
  void (*sum_inputs)(const GradWeightsPlan& plan, const Chunk& chunk, int64_t first);
  void (*sum_grads)(const GradWeightsPlan& plan, const Chunk& chunk, int64_t block);
  // Rescales `count` sums of an output channel, which begin at row `row`, into totals of 64 bits.
  void (*finish_row)(const GradWeightsPlan& plan, const int64_t* sums, int64_t output, int64_t row,
                     int64_t count, const ConvolutionGradWeights& args);
  // Rescales sums into args.totals for all output channels of `rows` rows, which begin at `row`;
  // the view's parts begin there too.
  void (*finish_sums)(const GradWeightsPlan& plan, const SumsView& sums, int64_t row, int64_t rows,
                      const ConvolutionGradWeights& args);
};

// How one instruction set multiplies.
struct GradWeightsTiles {
  const GradWeightsPacking& packing;
  // (kx, c) of a tap row that sum_products takes at once, by the vectors of 16 output channels; the
  // first is a multiple of row_unit.
  int64_t (*most_rows)(int vectors);
  int64_t row_unit;
  int64_t input_vectors;    // the most that sum_shared takes
  int64_t own_chunk_bytes;  // of a thread's own, which stay in the L2 cache
  // Makes a transposed copy of a block of 16 channels, from the packed planes; null if none is
  // wanted, and then the next two, too.
  void (*transpose)(const GradWeightsPlan& plan, const Chunk& chunk, int64_t block);
  int64_t (*transposed_plane_bytes)(const GradWeightsPlan& plan, int64_t units);  // of such a block
  int64_t (*bytes_beyond_input)(const GradWeightsPlan& plan);  // that a chunk's products read
  // Adds (stores if `first`) the chunk's sums for `count` rows from (ky, row) and the blocks of 16
  // columns from `block` on, blocks_at_once() as far as they exist, to sums [count][pitch].
  void (*sum_products)(const GradWeightsPlan& plan, const Chunk& chunk, int64_t ky, int64_t row,
                       int64_t count, int64_t block, bool first, const GradientSums& sums,
                       int64_t pitch);
  // Sums `vectors` of 16 inputs of the tap row ky, from `vector` on, for the output channels
  // [first_output, last_output). Totals of 32 bits take them at once, stored if it is the first
  // chunk, else added. Sums for totals of 64 bits are rescaled into these if there is one chunk;
  // the sums of several chunks wait in `sums`.
  void (*sum_shared)(const GradWeightsPlan& plan, const ConvolutionGradWeights& args,
                     const Chunk& chunk, int64_t ky, int64_t vector, int64_t vectors,
                     int64_t first_output, int64_t last_output, bool first_chunk, int64_t* sums);
  void (*release)();  // called when a thread's task is done
};

}  // namespace mantissa::kernels::convolution_bytes
