// The drivers of int16 products with an instruction set in plain C++: they need only tiles, packing
// and rounding. Rows of other architectures provide no more.
#include "kernels/convolution/words/words.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cstring>

#include "kernels/common/exact_sums.h"
#include "kernels/convolution/kernel_row.h"
#include "kernels/convolution/test_subject.h"
#include "numerics/rounding.h"

namespace mantissa::kernels {
namespace convolution_words {
namespace {

template <int kVectors, int kPixels>
void tile(const TileArguments& t) {
  const auto* vectors = reinterpret_cast<const int16_t*>(t.vectors);
  for (int64_t i = 0; i < t.count[0]; ++i) {
    for (int64_t j = 0; j < t.count[1]; ++j) {
      for (int64_t k = 0; k < t.count[2]; ++k, vectors += 2 * kLanes * kVectors) {
        const char* source = t.source + i * t.step[0] + j * t.step[1] + k * t.step[2];
        for (int p = 0; p < kPixels; ++p) {
          int16_t pair[2];
          std::memcpy(pair, source + p * t.pixel_step, sizeof pair);
          int32_t* sums = t.sums + p * kLanes * kVectors;
          for (int lane = 0; lane < kLanes * kVectors; ++lane) {
            sums[lane] += pair[0] * vectors[2 * lane] + pair[1] * vectors[2 * lane + 1];
          }
        }
      }
    }
  }
}

constexpr Tiles kTiles = {
    {{tile<1, 1>, tile<1, 2>, tile<1, 3>, tile<1, 4>, tile<1, 5>, tile<1, 6>},
     {tile<2, 1>, tile<2, 2>, tile<2, 3>, tile<2, 4>, tile<2, 5>, tile<2, 6>}}};

// Pairs of words, [pair][lanes][2]: word i of lane l is at(i, l), or 0 if it does not exist.
template <typename At>
void write_pairs(int64_t words, int64_t lanes, int64_t channels, int16_t*& to, const At& at) {
  for (int64_t i = 0; i < round_up(words, 2); ++i) {
    for (int64_t lane = 0; lane < lanes; ++lane) {
      const bool exists = i < words && lane < channels;
      to[(i / 2 * lanes + lane) * 2 + i % 2] = exists ? static_cast<int16_t>(at(i, lane)) : 0;
    }
  }
  to += round_up(words, 2) * lanes;
}

void forward_weights(const ConvolutionShape& s, const int8_t* weights, int64_t first,
                     int16_t* packed) {
  const int64_t channels = smaller(kGroupChannels, s.out_channels - first);
  const int64_t run = s.kernel_width * s.in_channels;
  for (int64_t ky = 0; ky < s.kernel_height; ++ky) {
    write_pairs(run, vectors_for(channels) * kLanes, channels, packed, [&](int64_t i, int64_t o) {
      return weights[((first + o) * s.kernel_height + ky) * run + i];
    });
  }
}

int32_t grad_input_weights(const ConvolutionShape& s, const int8_t* weights, const AxisPhase& y,
                           const AxisPhase& x, int64_t first, int16_t* packed) {
  const int64_t channels = smaller(kGroupChannels, s.in_channels - first);
  int32_t magnitudes[kGroupChannels] = {};
  for (int64_t tap = 0; tap < y.taps; ++tap) {
    const int64_t ky = y.first_kernel + tap * y.kernel_step;
    write_pairs(x.taps * s.out_channels, vectors_for(channels) * kLanes, channels, packed,
                [&](int64_t i, int64_t c) {
                  const int64_t kx = x.first_kernel + i / s.out_channels * x.kernel_step;
                  const int64_t o = i % s.out_channels;
                  const int weight =
                      weights[((o * s.kernel_height + ky) * s.kernel_width + kx) * s.in_channels +
                              first + c];
                  magnitudes[c] += std::abs(weight);
                  return weight;
                });
  }
  return *std::max_element(magnitudes, magnitudes + kGroupChannels);
}

template <typename T>
void window(const Dot& dot, const T* image, const Window& window, int16_t* packed) {
  const int64_t channels = dot.source_channels;
  std::fill_n(packed, window.rows * window.columns * channels, int16_t{0});
  for (int64_t row = 0; row < window.rows; ++row) {
    const RowParts parts = row_parts(dot, window, row);
    const int64_t line = (window.first_row + row) * dot.decimation * dot.source_width;
    for (int64_t x = 0; x < parts.copied; ++x) {
      std::copy_n(image + (line + (parts.from + x) * dot.decimation) * channels, channels,
                  packed + (row * window.columns + parts.left + x) * channels);
    }
  }
}

template <typename Sum>
void write(Store& store, const PixelBlock& block, const Sum* sums, uint64_t& maximum) {
  for (int64_t i = 0; i < block.sum_count(); ++i) {
    const int64_t lane = i % (block.vectors * kLanes), pixel = i / (block.vectors * kLanes);
    maximum = std::max(maximum, magnitude(sums[i]));
    if (lane >= block.channels) continue;
    char* to = block.target + pixel / block.columns * block.row_step +
               pixel % block.columns * block.column_step + lane * target_bytes(store.type);
    const int64_t rounded = shift_right_rne(sums[i], store.shift);
    const int64_t clipped =
        store.type == TargetType::kInt32 ? rounded : saturate(rounded, store.limit);
    store.saturated += clipped != rounded;
    const auto bytes = static_cast<size_t>(target_bytes(store.type));
    std::memcpy(to, &clipped, bytes);  // the lower ones, of little-endian numbers
  }
}

void block(Store& store, const PixelBlock& block) {
  uint64_t maximum = store.maximum[0];
  write(store, block, block.sums, maximum);
  store.maximum[0] = static_cast<uint32_t>(maximum);
}

void int64_block(Store& store, const PixelBlock& block, const int64_t* sums) {
  auto maximum = static_cast<uint64_t>(store.int64_maximum[0]);
  write(store, block, sums, maximum);
  store.int64_maximum[0] = static_cast<int64_t>(maximum);
}

template <typename To>
void add(int32_t* sums, int64_t count, bool first, To* to) {
  for (int64_t i = 0; i < count; ++i) {
    using Unsigned = std::make_unsigned_t<To>;  // wraps around
    to[i] = static_cast<To>((first ? Unsigned{0} : static_cast<Unsigned>(to[i])) +
                            static_cast<Unsigned>(sums[i]));
    sums[i] = 0;
  }
}

void input(const GradWeightsPlan& plan, const int8_t* all, const Unit& unit, const Slice& slice,
           int16_t* to) {
  const ConvolutionShape& s = plan.shape;
  const int64_t words = pixel_words(plan, slice.inputs);
  const int64_t rows = window_rows(plan, unit.rows), columns = window_columns(plan, unit.columns);
  std::fill_n(to, unit.pairs * rows * columns * words, int16_t{0});
  for (int64_t i = 0; i < unit.pairs * rows * columns * slice.inputs * 2; ++i) {
    const int64_t second = i % 2, c = i / 2 % slice.inputs, pixel = i / 2 / slice.inputs;
    const int64_t image = (unit.pair + pixel / columns / rows) * 2 + second;
    const int64_t row = pixel / columns % rows, column = pixel % columns;
    const int64_t y = (unit.y * plan.step + row) * plan.decimation - s.padding_height;
    const int64_t x = (unit.x * plan.step + column) * plan.decimation - s.padding_width;
    if (image >= s.batch || y < 0 || y >= s.in_height || x < 0 || x >= s.in_width) continue;
    to[pixel * words + 2 * c + second] =
        all[((image * s.in_height + y) * s.in_width + x) * s.in_channels + slice.first_input + c];
  }
}

template <typename T>
void grads(const GradWeightsPlan& plan, const T* all, const Unit& unit, const Slice& slice,
           int16_t* to) {
  const ConvolutionShape& s = plan.shape;
  for (int64_t group = 0; group < slice.groups(); ++group) {
    const int64_t lanes = slice.group_vectors(group) * kLanes;
    for (int64_t i = 0; i < unit.pairs * unit.rows * unit.columns * lanes * 2; ++i) {
      const int64_t second = i % 2, lane = i / 2 % lanes, position = i / 2 / lanes;
      const int64_t image = (unit.pair + position / unit.columns / unit.rows) * 2 + second;
      const int64_t y = unit.y + position / unit.columns % unit.rows;
      const int64_t x = unit.x + position % unit.columns;
      const bool exists = image < s.batch && lane < slice.group_channels(group);
      to[group * unit.group_words() + i] =
          exists ? all[((image * s.out_height + y) * s.out_width + x) * s.out_channels +
                       slice.first_output + group * kGroupChannels + lane]
                 : T{0};
    }
  }
}

void finish(const GradWeightsPlan& plan, const Slice& slice, int64_t group, int64_t tap,
            const void* const* parts, int part_count, const ConvolutionGradWeights& args) {
  const ConvolutionShape& s = plan.shape;
  const int64_t taps = s.kernel_height * s.kernel_width;
  const int64_t lanes = slice.group_vectors(group) * kLanes;
  const int64_t begin = slice.sums_at(taps, group) + tap * slice.inputs * lanes;
  for (int64_t o = 0; o < slice.group_channels(group); ++o) {
    for (int64_t c = 0; c < slice.inputs; ++c) {
      int64_t sum = 0;
      for (int part = 0; part < part_count; ++part) {
        const int64_t at = begin + c * lanes + o;
        sum += plan.sum_bits == 32 ? static_cast<const int32_t*>(parts[part])[at]
                                   : static_cast<const int64_t*>(parts[part])[at];
      }
      const int64_t output = slice.first_output + group * kGroupChannels + o;
      add_sum(sum, args.shift, args.adds, args.totals,
              (output * taps + tap) * s.in_channels + slice.first_input + c);
    }
  }
}

constexpr DotPacking kDot = {forward_weights, grad_input_weights, window<int8_t>, window<int16_t>};
constexpr Stores kStores = {block, int64_block, add<int64_t>, add<int32_t>};
constexpr GradWeightsPacking kGradWeights = {input, grads<int8_t>, grads<int16_t>, finish};
constexpr InstructionSet kPlain = {kTiles, kDot, kStores, kGradWeights};

}  // namespace
}  // namespace convolution_words

namespace {

using test::Operands;

const ConvolutionKernels kPlainRow = kernels_of<convolution_words::kPlain>(
    "convolution_plain", kNeedsNothing, declines_all_but_dense);

std::vector<test::Subject> subjects() { return {test::subject_of(kPlainRow)}; }

const ConvolutionShape kWordShapes[] = {
    test::shape_of(1, 1, 1, 1, 1, 1, 1, 0),     test::shape_of(33, 1, 1, 120, 84, 1, 1, 0),
    test::shape_of(3, 14, 14, 6, 16, 5, 1, 0),  test::shape_of(2, 9, 8, 20, 24, 3, 1, 1),
    test::shape_of(3, 9, 10, 17, 33, 3, 2, 1),  test::shape_of(5, 7, 7, 16, 8, 1, 2, 0),
    test::shape_of(2, 12, 12, 70, 40, 3, 1, 1), test::shape_of(2, 5, 5, 4, 4, 2, 3, 1)};

TEST(ConvolutionOfWords, WithPlainTilesEqualsTheReference) {
  test::check_shapes(subjects(), kWordShapes);
}

TEST(ConvolutionOfWords, WithPlainTilesEqualsTheReferenceOnRandomShapes) {
  test::check_random_shapes(subjects());
}

}  // namespace
}  // namespace mantissa::kernels
