// The drivers of byte products with an instruction set in plain C++: they need only tiles and
// packing. Rows of other architectures provide no more.
#include "kernels/convolution/bytes/bytes.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cstring>

#include "kernels/common/exact_sums.h"
#include "kernels/convolution/kernel_row.h"
#include "kernels/convolution/test_subject.h"
#include "numerics/rounding.h"

namespace mantissa::kernels {
namespace convolution_bytes {
namespace {

// The sum of one plane for one pixel and lane.
int64_t plane_sum(const TileArguments& t, const uint8_t* source, int lanes, int lane) {
  int64_t sum = 0;
  for (int64_t tap = 0; tap < t.taps_y; ++tap) {
    for (int64_t i = 0; i < 4 * t.dwords; ++i) {
      const int64_t weight = ((tap * t.dwords + i / 4) * lanes + lane) * 4 + i % 4;
      sum += source[tap * t.row_pitch + i] * t.weights[weight];
    }
  }
  return sum;
}

// Statistics have 16 lanes of 32 bits, or 8 of 64. The first lane is used.
void note(DotMode mode, uint64_t (&lanes)[8], uint64_t number, bool adds) {
  uint32_t first = 0;
  std::memcpy(&first, lanes, sizeof first);
  const bool is_int64 = mode == DotMode::kPlanesInt64;
  const uint64_t old = is_int64 ? lanes[0] : first;
  const uint64_t now = adds ? old + number : std::max(old, number);
  first = static_cast<uint32_t>(now);
  if (is_int64) lanes[0] = now;
  if (!is_int64) std::memcpy(lanes, &first, sizeof first);
}

template <DotMode kMode>
void write(TileArguments& t, int64_t sum, char* to) {
  note(kMode, t.maximum, magnitude(sum), false);
  if constexpr (kMode == DotMode::kSums) {
    const auto number = static_cast<int32_t>(sum);
    std::memcpy(to, &number, sizeof number);
  } else {
    const int64_t rounded = shift_right_rne(sum, t.shift);
    const int64_t clipped = saturate(rounded, t.limit);
    note(kMode, t.saturated, clipped != rounded ? 1 : 0, true);
    if (t.counts != nullptr) t.counts->add(magnitude(sum));
    // The lower bytes of a little-endian number.
    std::memcpy(to, &clipped, kMode == DotMode::kByte ? 1 : 2);
  }
}

template <DotMode kMode, int kVectors, int kBases>
void tile(TileArguments& t) {
  constexpr int kLanes = 16 * kVectors;
  constexpr int kBytes = kMode == DotMode::kSums ? 4 : kMode == DotMode::kByte ? 1 : 2;
  for (int base = 0; base < kBases; ++base) {
    for (int64_t pixel = 0; pixel < t.pixels; ++pixel) {
      const uint8_t* source = t.source[base] + pixel * t.source_step;
      for (int lane = 0; lane < kLanes; ++lane) {
        if (lane >= kLanes - 16 && (t.tail_mask >> lane % 16 & 1) == 0) continue;
        int64_t sum = t.init[lane] + plane_sum(t, source, kLanes, lane);
        if (has_two_planes(kMode)) {
          sum = 256 * sum + plane_sum(t, source + t.plane_bytes, kLanes, lane);
        }
        write<kMode>(t, sum, t.target[base] + pixel * t.target_step + lane * kBytes);
      }
    }
  }
}

template <DotMode kMode>
Tile tile_of(int vectors, int bases) {
  if (vectors == 2) return bases == 2 ? tile<kMode, 2, 2> : tile<kMode, 2, 1>;
  return bases == 2 ? tile<kMode, 1, 2> : tile<kMode, 1, 1>;
}

Tile find_tile(DotMode mode, int vectors, int bases, int64_t) {
  switch (mode) {
    case DotMode::kSums:
      return tile_of<DotMode::kSums>(vectors, bases);
    case DotMode::kByte:
      return tile_of<DotMode::kByte>(vectors, bases);
    case DotMode::kWord:
      return tile_of<DotMode::kWord>(vectors, bases);
    case DotMode::kPlanesInt32:
      return tile_of<DotMode::kPlanesInt32>(vectors, bases);
    case DotMode::kPlanesInt64:
      return tile_of<DotMode::kPlanesInt64>(vectors, bases);
  }
  return nullptr;
}

constexpr Tiles kTiles = {.pixels = 5,
                          .folded_width = 20,
                          .depth_dwords = 1,
                          .most_bases = [](DotMode, int) { return 2; },
                          .find = find_tile,
                          .release = [] {}};

// Packs `rows` tap rows of `run` weights at(row, i, channel) for 16 channels, and their sums.
template <typename At>
void pack_block(int64_t rows, int64_t run, int64_t channels, const int32_t* bias,
                const PackedBlock& packed, const At& at) {
  int32_t sums[16] = {}, magnitudes[16] = {};
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < 4 * packed.row_dwords; ++i) {
      for (int64_t channel = 0; channel < 16; ++channel) {
        const int weight = i < run && channel < channels ? at(row, i, channel) : 0;
        const int64_t dword = row * packed.row_dwords + i / 4;
        packed.weights[dword * packed.stride + channel * 4 + i % 4] = static_cast<int8_t>(weight);
        sums[channel] += weight;
        magnitudes[channel] += std::abs(weight);
      }
    }
  }
  for (int64_t channel = 0; channel < 16; ++channel) {
    const int32_t first = bias != nullptr && channel < channels ? bias[channel] : 0;
    packed.init[channel] = first - 128 * sums[channel];
  }
  if (packed.magnitude != nullptr) {
    *packed.magnitude = *std::max_element(magnitudes, magnitudes + 16);
  }
}

void forward_weights(const ConvolutionShape& s, const int8_t* weights, const int32_t* bias,
                     int64_t first, const PackedBlock& packed) {
  const int64_t run = s.kernel_width * s.in_channels;
  pack_block(s.kernel_height, run, s.out_channels - first, bias == nullptr ? nullptr : bias + first,
             packed, [&](int64_t ky, int64_t i, int64_t o) {
               return weights[((first + o) * s.kernel_height + ky) * run + i];
             });
}

void grad_input_weights(const ConvolutionShape& s, const int8_t* weights, const AxisPhase& y,
                        const AxisPhase& x, int64_t first, const PackedBlock& packed) {
  const auto at = [&](int64_t row, int64_t i, int64_t c) {
    const int64_t ky = y.first_kernel + row * y.kernel_step;
    const int64_t kx = x.first_kernel + i / s.out_channels * x.kernel_step;
    const int64_t o = i % s.out_channels;
    return weights[((o * s.kernel_height + ky) * s.kernel_width + kx) * s.in_channels + first + c];
  };
  pack_block(x.taps > 0 ? y.taps : 0, x.taps * s.out_channels, s.in_channels - first, nullptr,
             packed, at);
}

// Calls put(index, value) for each element of a window, value 0 outside of the image.
template <typename T, typename Put>
void for_each_in_window(const Dot& dot, const T* image, const Window& window, const Put& put) {
  const int64_t channels = dot.source_channels;
  for (int64_t row = 0; row < window.rows; ++row) {
    const RowParts parts = row_parts(dot, window, row);
    const int64_t line = (window.first_row + row) * dot.decimation * dot.source_width;
    for (int64_t i = 0; i < window.columns * channels; ++i) {
      const int64_t x = i / channels - parts.left;
      const bool inside = x >= 0 && x < parts.copied;
      const int64_t pixel = line + (parts.from + x) * dot.decimation;
      put(row * window.columns * channels + i,
          inside ? int{image[pixel * channels + i % channels]} : 0);
    }
  }
}

void pack_bytes(const Dot& dot, const int8_t* image, const Window& window, uint8_t* packed) {
  for_each_in_window(dot, image, window, [&](int64_t at, int value) {
    packed[at] = static_cast<uint8_t>(value + 128);
  });
}

void pack_planes(const Dot& dot, const int16_t* image, const Window& window, int64_t plane_bytes,
                 uint8_t* packed) {
  for_each_in_window(dot, image, window, [&](int64_t at, int value) {
    packed[at] = static_cast<uint8_t>((value >> 8) + 128);
    packed[plane_bytes + at] = static_cast<uint8_t>(value & 255);
  });
}

constexpr DotPacking kDot = {forward_weights, grad_input_weights, pack_bytes, pack_planes};

// The first image and output pixel of a unit.
struct Corner {
  int64_t image, y, x;
  Corner(const GradWeightsPlan& plan, int64_t unit)
      : image(unit / (plan.bands_y * plan.bands_x) * 4),
        y(unit / plan.bands_x % plan.bands_y * plan.band_rows),
        x(unit % plan.bands_x * plan.band_columns) {}
};

void pack_input(const GradWeightsPlan& plan, const int8_t* input, int64_t unit, uint8_t* to) {
  const ConvolutionShape& s = plan.shape;
  const Corner corner(plan, unit);
  for (int64_t pixel = 0; pixel < plan.window_rows * plan.window_columns; ++pixel) {
    const int64_t row = pixel / plan.window_columns, column = pixel % plan.window_columns;
    const int64_t y = (corner.y * plan.step + row) * plan.decimation - s.padding_height;
    const int64_t x = (corner.x * plan.step + column) * plan.decimation - s.padding_width;
    for (int64_t c = 0; c < s.in_channels; ++c) {
      uint8_t* bytes = to + c / plan.input_panel_channels * plan.input_panel_stride +
                       pixel * plan.pixel_bytes() + c % plan.input_panel_channels * 4;
      for (int64_t i = 0; i < 4; ++i) {
        const int64_t image = corner.image + i;
        const bool exists =
            image < s.batch && y >= 0 && y < s.in_height && x >= 0 && x < s.in_width;
        const int value =
            exists ? input[((image * s.in_height + y) * s.in_width + x) * s.in_channels + c] : 0;
        bytes[i] = static_cast<uint8_t>(value + 128);
      }
    }
  }
}

void pack_grads(const GradWeightsPlan& plan, const ConstMantissaSpan& grads, int64_t unit,
                int64_t first_channel, int8_t* to) {
  const ConvolutionShape& s = plan.shape;
  const Corner corner(plan, unit);
  const int64_t channels = smaller(plan.slice_channels(), s.out_channels - first_channel);
  for (int64_t position = 0; position < plan.unit_positions(); ++position) {
    const int64_t y = corner.y + position / plan.band_columns;
    const int64_t x = corner.x + position % plan.band_columns;
    for (int64_t i = 0; i < channels * 4; ++i) {
      const int64_t channel = i / 4, image = corner.image + i % 4;
      const int64_t at =
          ((image * s.out_height + y) * s.out_width + x) * s.out_channels + first_channel + channel;
      const bool exists = image < s.batch && y < s.out_height && x < s.out_width;
      int value = 0;
      if (exists) value = plan.planes == 1 ? grads.as<int8_t>()[at] : grads.as<int16_t>()[at];
      int8_t* byte = to + plan.channel_offset(channel) + position * plan.position_bytes() + i % 4;
      if (plan.planes == 1) {
        *byte = static_cast<int8_t>(value);
      } else {
        *byte = static_cast<int8_t>(value >> 8);
        byte[plan.plane_stride] = static_cast<int8_t>((value & 255) - 128);
      }
    }
  }
}

// The gradient of a channel of the slice, 256 * high + low: the low byte lacks 128.
int gradient_at(const GradWeightsPlan& plan, const Chunk& chunk, int64_t channel, int64_t position,
                int64_t image) {
  const int8_t* byte = chunk.planes + plan.channel_offset(channel - chunk.first_channel) +
                       position * plan.position_bytes() + image;
  return plan.planes == 1 ? *byte : 256 * *byte + byte[plan.plane_stride];
}

// The biased input of (kx, c) `row` of the tap row ky.
const uint8_t* input_at(const GradWeightsPlan& plan, const Chunk& chunk, int64_t ky, int64_t row,
                        int64_t position) {
  const int64_t unit = position / plan.unit_positions(), pixel = position % plan.unit_positions();
  const int64_t y = pixel / plan.band_columns * plan.step + ky;
  const int64_t x = pixel % plan.band_columns * plan.step;
  return chunk.input + unit * plan.input_bytes() +
         (y * plan.window_columns + x) * plan.pixel_bytes() + plan.input_offset(row);
}

int64_t positions(const GradWeightsPlan& plan, const Chunk& chunk) {
  return chunk.units * plan.unit_positions();
}

void sum_inputs(const GradWeightsPlan& plan, const Chunk& chunk, int64_t first) {
  for (int64_t ky = 0; ky < plan.shape.kernel_height; ++ky) {
    for (int64_t row = first; row < smaller(first + 64, plan.run); ++row) {
      int32_t& sum = chunk.input_sums[ky * round_up(plan.run, 64) + row];
      sum = 0;
      for (int64_t position = 0; position < positions(plan, chunk); ++position) {
        const uint8_t* x = input_at(plan, chunk, ky, row, position);
        for (int i = 0; i < 4; ++i) sum += x[i] - 128;
      }
    }
  }
}

void sum_grads(const GradWeightsPlan& plan, const Chunk& chunk, int64_t block) {
  for (int64_t channel = block * 16; channel < smaller(block * 16 + 16, plan.shape.out_channels);
       ++channel) {
    int64_t sum = 0;
    for (int64_t i = 0; i < positions(plan, chunk) * 4; ++i) {
      sum += gradient_at(plan, chunk, channel, i / 4, i % 4);
    }
    if (chunk.grad_sums.bits == 32) {
      chunk.grad_sums.as<int32_t>()[channel] = static_cast<int32_t>(sum);
    } else {
      chunk.grad_sums.as<int64_t>()[channel] = sum;
    }
  }
}

// The chunk's sum of products for one weight, corrected as grad_weights.h says.
int64_t weight_sum(const GradWeightsPlan& plan, const Chunk& chunk, int64_t channel, int64_t ky,
                   int64_t row) {
  int64_t sum = 0;
  for (int64_t position = 0; position < positions(plan, chunk); ++position) {
    const uint8_t* x = input_at(plan, chunk, ky, row, position);
    for (int i = 0; i < 4; ++i)
      sum += gradient_at(plan, chunk, channel, position, i) * int64_t{x[i]};
  }
  const int64_t grads = chunk.grad_sums.bits == 32 ? chunk.grad_sums.as<int32_t>()[channel]
                                                   : chunk.grad_sums.as<int64_t>()[channel];
  const int64_t inputs = plan.planes == 2 ? chunk.input_sums[ky * round_up(plan.run, 64) + row] : 0;
  return sum + 128 * (inputs - grads);
}

template <typename Sum>
void put(Sum* to, int64_t sum, bool first) {
  *to = static_cast<Sum>(first ? sum : *to + sum);
}

void sum_products(const GradWeightsPlan& plan, const Chunk& chunk, int64_t ky, int64_t row,
                  int64_t count, int64_t block, bool first, const GradientSums& sums,
                  int64_t pitch) {
  const int64_t end = smaller((block + plan.blocks_at_once()) * 16, plan.columns);
  for (int64_t r = 0; r < count; ++r) {
    for (int64_t column = block * 16; column < end; ++column) {
      const bool exists = column < plan.shape.out_channels;
      const int64_t sum = exists ? weight_sum(plan, chunk, column, ky, row + r) : 0;
      const int64_t at = r * pitch + column - block * 16;
      with_sum_type(sums.bits, [&](auto type) { put(sums.as<decltype(type)>() + at, sum, first); });
    }
  }
}

void sum_shared(const GradWeightsPlan& plan, const ConvolutionGradWeights& args, const Chunk& chunk,
                int64_t ky, int64_t vector, int64_t vectors, int64_t first_output,
                int64_t last_output, bool first_chunk, int64_t* sums) {
  for (int64_t output = first_output; output < last_output; ++output) {
    for (int64_t row = vector * 16; row < smaller((vector + vectors) * 16, plan.run); ++row) {
      const int64_t sum = weight_sum(plan, chunk, output, ky, row);
      const int64_t weight = output * plan.rows + ky * plan.run + row;
      if (plan.sum_bits == 32) {
        put(args.totals.as<int32_t>() + weight, sum, first_chunk);
      } else if (plan.keeps_sums()) {
        put(sums + plan.shared_sums_at(output, ky) + row, sum, first_chunk);
      } else {
        add_sum(sum, args.shift, args.adds, args.totals, weight);
      }
    }
  }
}

void finish_row(const GradWeightsPlan& plan, const int64_t* sums, int64_t output, int64_t row,
                int64_t count, const ConvolutionGradWeights& args) {
  for (int64_t i = 0; i < count; ++i) {
    add_sum(sums[i], args.shift, args.adds, args.totals, output * plan.rows + row + i);
  }
}

void finish_sums(const GradWeightsPlan& plan, const SumsView& sums, int64_t row, int64_t rows,
                 const ConvolutionGradWeights& args) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t o = 0; o < plan.shape.out_channels; ++o) {
      int64_t sum = 0;
      for (int part = 0; part < sums.part_count; ++part) {
        const int64_t at = r * sums.pitch + o;
        with_sum_type(plan.sum_bits,
                      [&](auto type) { sum += sums.parts[part].as<decltype(type)>()[at]; });
      }
      add_sum(sum, args.shift, args.adds, args.totals, o * plan.rows + row + r);
    }
  }
}

constexpr GradWeightsPacking kPacking = {pack_input, pack_grads, sum_inputs,
                                         sum_grads,  finish_row, finish_sums};
constexpr GradWeightsTiles kGradWeights = {.packing = kPacking,
                                           .most_rows = [](int) { return int64_t{6}; },
                                           .row_unit = 1,
                                           .input_vectors = 2,
                                           .own_chunk_bytes = 64 * 1024,
                                           .transpose = nullptr,
                                           .transposed_plane_bytes = nullptr,
                                           .bytes_beyond_input = nullptr,
                                           .sum_products = sum_products,
                                           .sum_shared = sum_shared,
                                           .release = [] {}};
constexpr InstructionSet kPlain = {kTiles, kDot, kGradWeights};

}  // namespace
}  // namespace convolution_bytes

namespace {

const ConvolutionKernels kPlainRow = kernels_of<convolution_bytes::kPlain>(
    "convolution_plain", kNeedsNothing, declines_all_but_dense);

std::vector<test::Subject> subjects() { return {test::subject_of(kPlainRow)}; }

const ConvolutionShape kShapes[] = {
    test::shape_of(1, 1, 1, 1, 1, 1, 1, 0),    test::shape_of(33, 1, 1, 120, 84, 1, 1, 0),
    test::shape_of(3, 14, 14, 6, 16, 5, 1, 0), test::shape_of(2, 9, 8, 20, 24, 3, 1, 1),
    test::shape_of(3, 9, 10, 17, 33, 3, 2, 1), test::shape_of(5, 7, 7, 16, 8, 1, 2, 0),
    test::shape_of(9, 2, 2, 40, 160, 2, 1, 1), test::shape_of(2, 5, 5, 4, 4, 2, 3, 1),
    test::shape_of(5, 1, 1, 300, 256, 1, 1, 0)};

TEST(ConvolutionOfBytes, WithPlainTilesEqualsTheReference) {
  test::check_shapes(subjects(), kShapes);
}

TEST(ConvolutionOfBytes, WithPlainTilesEqualsTheReferenceOnRandomShapes) {
  test::check_random_shapes(subjects());
}

}  // namespace
}  // namespace mantissa::kernels
