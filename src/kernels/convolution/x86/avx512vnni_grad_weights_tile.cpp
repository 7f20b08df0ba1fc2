#if defined(__x86_64__)
#include <utility>

#include "kernels/convolution/x86/avx512vnni_grad_weights_sums.h"

MANTISSA_TARGET_AVX512VNNI_BEGIN

namespace mantissa::kernels::convolution_bytes::avx512vnni {
namespace {

// Rows of a tile of output channels: as many as registers hold, with one or two vectors of sums
// each.
constexpr int kRowsOfTwo = 14, kRowsOfOne = 28;
// Tiles of inputs: vectors of 16 of a tap row, and output channels, by planes of grad_output.
constexpr int64_t kInputVectors = 3;
constexpr int64_t tile_outputs(int planes) { return planes == 2 ? 4 : 8; }
// Positions of a chunk whose panels fit the L1 cache.
constexpr int64_t kBlockPositions = 128;

struct ProductArguments {
  Positions positions;
  const uint8_t* input;
  const int8_t* grads[2];  // high and low plane of a block, or two blocks
  int64_t grad_step;
  bool pair;  // two blocks: does the second exist?
  Destination to;
};

MANTISSA_INLINE __m512i broadcast_dword(const void* from) {
  __m512i dword;
  asm("vpbroadcastd %1, %0" : "=v"(dword) : "m"(*static_cast<const uint32_t*>(from)));
  return dword;
}

// Products of one block in two planes, or of one or two blocks in one plane.
template <int kRows, int kPlanes, int kBlocks>
__attribute__((noinline)) void products(const ProductArguments& a) {
  constexpr bool kTwo = kPlanes * kBlocks == 2;
  __m512i first[kRows];
  __m512i second[kTwo ? kRows : 1];
  MANTISSA_UNROLL for (int r = 0; r < kRows; ++r) first[r] = _mm512_setzero_si512();
  MANTISSA_UNROLL for (__m512i& sum : second) sum = _mm512_setzero_si512();
  const uint8_t* input = a.input;
  const int8_t* first_grads = a.grads[0];
  const int8_t* second_grads = a.grads[1];
  const Positions& p = a.positions;
  const int64_t pixel_step = p.step[2];
  for (int64_t i = 0; i < p.count[0]; ++i, input += p.step[0]) {
    const uint8_t* row = input;
    for (int64_t j = 0; j < p.count[1]; ++j, row += p.step[1]) {
      const uint8_t* pixel = row;
      for (int64_t k = p.count[2]; k > 0; --k) {
        const __m512i g_first = _mm512_loadu_si512(first_grads);
        const __m512i g_second = _mm512_loadu_si512(kTwo ? second_grads : first_grads);
        MANTISSA_UNROLL for (int r = 0; r < kRows; ++r) {
          const __m512i x = broadcast_dword(pixel + 4 * r);
          multiply_add(first[r], x, g_first);
          if constexpr (kTwo) multiply_add(second[r], x, g_second);
        }
        pixel += pixel_step;
        first_grads += a.grad_step;
        second_grads += a.grad_step;
      }
    }
  }
  MANTISSA_UNROLL for (int r = 0; r < kRows; ++r) {
    if constexpr (kPlanes == 2) {
      flush_planes(a.to, r, first[r], second[r]);
    } else {
      flush_block(a.to, r, 0, first[r]);
      if (kTwo && a.pair) flush_block(a.to, r, 1, second[kTwo ? r : 0]);
    }
  }
}

struct InputArguments {
  Positions positions;                   // of a block of the chunk's
  const uint8_t* inputs[kInputVectors];  // of the first (kx, c) of each of the tile's vectors
  const int8_t* grads[2];                // high and low plane, or one, of the tile's first channel
  int64_t grad_step;
  // Sums of products of the chunk's blocks before, if there are any, and for those to come.
  __m512i* products;
  bool first_block, last_block;
  int64_t outputs;  // channels that exist
  __mmask16 last;   // the sums of the last vector that are stored
  Destination to;
};

template <int kPlanes, int kVectors>
__attribute__((noinline)) void input_products(const InputArguments& a) {
  constexpr auto kOutputs = static_cast<int>(tile_outputs(kPlanes));
  __m512i sums[kPlanes][kOutputs][kVectors];
  const auto kept = [&](int plane, int o, int v) {
    return a.products + (plane * kOutputs + o) * kVectors + v;
  };
  MANTISSA_UNROLL for (int plane = 0; plane < kPlanes; ++plane) {
    MANTISSA_UNROLL for (int o = 0; o < kOutputs; ++o) {
      MANTISSA_UNROLL for (int v = 0; v < kVectors; ++v) {
        sums[plane][o][v] = _mm512_setzero_si512();
        if (!a.first_block) sums[plane][o][v] = _mm512_load_si512(kept(plane, o, v));
      }
    }
  }
  const int8_t* grads[2] = {a.grads[0], a.grads[1]};
  const Positions& p = a.positions;
  const int64_t pixel_step = p.step[2];
  for (int64_t i = 0; i < p.count[0]; ++i) {
    for (int64_t j = 0; j < p.count[1]; ++j) {
      int64_t pixel = i * p.step[0] + j * p.step[1];
      for (int64_t k = p.count[2]; k > 0; --k) {
        __m512i x[kVectors];
        MANTISSA_UNROLL for (int v = 0; v < kVectors; ++v) {
          x[v] = _mm512_loadu_si512(a.inputs[v] + pixel);
        }
        MANTISSA_UNROLL for (int plane = 0; plane < kPlanes; ++plane) {
          MANTISSA_UNROLL for (int o = 0; o < kOutputs; ++o) {
            const __m512i g = broadcast_dword(grads[plane] + 4 * o);
            MANTISSA_UNROLL for (int v = 0; v < kVectors; ++v) {
              multiply_add(sums[plane][o][v], x[v], g);
            }
          }
          grads[plane] += a.grad_step;
        }
        pixel += pixel_step;
      }
    }
  }
  if (!a.last_block) {
    MANTISSA_UNROLL for (int plane = 0; plane < kPlanes; ++plane) {
      MANTISSA_UNROLL for (int o = 0; o < kOutputs; ++o) {
        MANTISSA_UNROLL for (int v = 0; v < kVectors; ++v) {
          _mm512_store_si512(kept(plane, o, v), sums[plane][o][v]);
        }
      }
    }
    return;
  }
  MANTISSA_UNROLL for (int o = 0; o < kOutputs; ++o) {
    if (o >= a.outputs) return;
    MANTISSA_UNROLL for (int v = 0; v < kVectors; ++v) {
      const __mmask16 mask = v == kVectors - 1 ? a.last : kAllSixteen;
      if constexpr (kPlanes == 2) {
        flush_inputs(a.to, o, v, mask, sums[0][o][v], sums[1][o][v]);
      } else {
        flush_plane_inputs(a.to, o, v, mask, sums[0][o][v]);
      }
    }
  }
}

using Products = void (*)(const ProductArguments&);

template <int kPlanes, int kBlocks, int... kIndices>
Products products_of_rows(int64_t rows, std::integer_sequence<int, kIndices...>) {
  static constexpr Products kProducts[] = {products<kIndices + 1, kPlanes, kBlocks>...};
  return kProducts[rows - 1];
}

Products find_products(const GradWeightsPlan& plan, int64_t rows) {
  constexpr std::make_integer_sequence<int, kRowsOfTwo> kOfTwoVectors;
  constexpr std::make_integer_sequence<int, kRowsOfOne> kOfOne;
  if (plan.planes == 2) return products_of_rows<2, 1>(rows, kOfTwoVectors);
  return plan.blocks_at_once() == 1 ? products_of_rows<1, 1>(rows, kOfOne)
                                    : products_of_rows<1, 2>(rows, kOfTwoVectors);
}

// Sums of one plane of a block of 16 columns over the chunk's positions.
__m512i sum_plane(const GradWeightsPlan& plan, const Chunk& chunk, const int8_t* grads) {
  const int64_t step = plan.position_bytes();
  const __m512i ones = _mm512_set1_epi8(1);
  __m512i sums[4];
  MANTISSA_UNROLL for (int i = 0; i < 4; ++i) sums[i] = _mm512_setzero_si512();
  int64_t positions = chunk.units * plan.unit_positions();
  for (; positions >= 4; positions -= 4) {
    MANTISSA_UNROLL for (int i = 0; i < 4; ++i, grads += step) {
      multiply_add(sums[i], ones, _mm512_loadu_si512(grads));
    }
  }
  for (; positions > 0; --positions, grads += step) {
    multiply_add(sums[0], ones, _mm512_loadu_si512(grads));
  }
  return _mm512_add_epi32(_mm512_add_epi32(sums[0], sums[1]), _mm512_add_epi32(sums[2], sums[3]));
}

}  // namespace

// Sums over rows first: a row of the window serves all ky.
void sum_inputs(const GradWeightsPlan& plan, const Chunk& chunk, int64_t first) {
  const int64_t kernel_height = plan.shape.kernel_height;
  const int64_t pitch = round_up(plan.run, 64);
  const int64_t pixel = plan.step * plan.pixel_bytes();
  const int64_t row_bytes = plan.window_columns * plan.pixel_bytes();
  int64_t offsets[4];
  for (int i = 0; i < 4; ++i) offsets[i] = plan.input_offset(first + 16 * i);
  const auto depth = static_cast<int>(4 * chunk.units * plan.unit_positions());
  const __m512i ones = _mm512_set1_epi8(1);
  for (int64_t ky = 0; ky < kernel_height; ++ky) {
    int32_t* to = chunk.input_sums + ky * pitch + first;
    for (int i = 0; i < 64; i += 16) _mm512_store_si512(to + i, _mm512_set1_epi32(-128 * depth));
  }
  for (int64_t unit = 0; unit < chunk.units; ++unit) {
    for (int64_t row = 0; row < plan.window_rows; ++row) {
      const uint8_t* x = chunk.input + unit * plan.input_bytes() + row * row_bytes;
      __m512i sums[4];
      MANTISSA_UNROLL for (int i = 0; i < 4; ++i) sums[i] = _mm512_setzero_si512();
      for (int64_t column = 0; column < plan.band_columns; ++column, x += pixel) {
        MANTISSA_UNROLL for (int i = 0; i < 4; ++i) {
          multiply_add(sums[i], _mm512_loadu_si512(x + offsets[i]), ones);
        }
      }
      for (int64_t ky = 0; ky < smaller(kernel_height, row + 1); ++ky) {
        if ((row - ky) % plan.step != 0 || (row - ky) / plan.step >= plan.band_rows) continue;
        int32_t* to = chunk.input_sums + ky * pitch + first;
        MANTISSA_UNROLL for (int i = 0; i < 4; ++i) {
          const __m512i old = _mm512_load_si512(to + 16 * i);
          _mm512_store_si512(to + 16 * i, _mm512_add_epi32(old, sums[i]));
        }
      }
    }
  }
}

void sum_grads(const GradWeightsPlan& plan, const Chunk& chunk, int64_t block) {
  const int8_t* grads = chunk.planes + plan.channel_offset(block * 16 - chunk.first_channel);
  __m512i high = _mm512_setzero_si512();
  __m512i low = sum_plane(plan, chunk, grads + (plan.planes - 1) * plan.plane_stride);
  if (plan.planes == 2) high = sum_plane(plan, chunk, grads);
  if (chunk.grad_sums.bits == 32) {
    return _mm512_store_si512(chunk.grad_sums.as<int32_t>() + block * 16,
                              join_planes_int32(high, low));
  }
  int64_t* to = chunk.grad_sums.as<int64_t>() + block * 16;
  _mm512_store_si512(to, join_planes(_mm512_castsi512_si256(high), _mm512_castsi512_si256(low)));
  _mm512_store_si512(
      to + 8, join_planes(_mm512_extracti64x4_epi64(high, 1), _mm512_extracti64x4_epi64(low, 1)));
}

namespace {

void sum_products(const GradWeightsPlan& plan, const Chunk& chunk, int64_t ky, int64_t row,
                  int64_t count, int64_t block, bool first, const GradientSums& sums,
                  int64_t pitch) {
  const bool pair = plan.planes == 1 && (block + 1) * 16 < plan.columns;
  const int8_t* grads = chunk.planes + plan.channel_offset(block * 16);
  const int64_t next =
      pair ? plan.channel_offset(block * 16 + 16) - plan.channel_offset(block * 16) : 0;
  const int64_t second = plan.planes == 2 ? static_cast<int64_t>(plan.plane_stride) : next;
  const ProductArguments arguments = {
      .positions = positions_of(plan, chunk.units),
      .input = chunk.input + ky * plan.window_columns * plan.pixel_bytes() + row * 4,
      .grads = {grads, grads + second},
      .grad_step = plan.position_bytes(),
      .pair = pair,
      .to = {.input_sums = chunk.input_sums + ky * round_up(plan.run, 64) + row,
             .grad_sums = chunk.grad_sums.from(block * 16),
             .sums = sums,
             .pitch = pitch,
             .first = first}};
  find_products(plan, count)(arguments);
}

void sum_shared(const GradWeightsPlan& plan, const ConvolutionGradWeights& args, const Chunk& chunk,
                int64_t ky, int64_t vector, int64_t vectors, int64_t first_output,
                int64_t last_output, bool first_chunk, int64_t* sums) {
  using InputProducts = void (*)(const InputArguments&);
  static_assert(kInputVectors == 3);
  static constexpr InputProducts kProducts[2][kInputVectors] = {
      {input_products<1, 1>, input_products<1, 2>, input_products<1, 3>},
      {input_products<2, 1>, input_products<2, 2>, input_products<2, 3>}};
  const InputProducts products = kProducts[plan.planes - 1][vectors - 1];
  const int64_t at_once = tile_outputs(plan.planes);
  static_assert(kOutputsPerTask % tile_outputs(1) == 0 && kOutputsPerTask % tile_outputs(2) == 0);
  alignas(64) int64_t tile[tile_outputs(1) * kInputVectors * 16];
  __m512i products_of_task[2 * kOutputsPerTask * kInputVectors];
  const SharedSums to = {plan, args, chunk, ky, vector * 16, vectors, first_chunk, sums, tile};
  InputArguments a = {};
  a.grad_step = plan.position_bytes();
  a.last = to.last();
  const int64_t block_units = larger(1, kBlockPositions / plan.unit_positions());
  for (int64_t unit = 0; unit < chunk.units; unit += block_units) {
    const int64_t units = smaller(block_units, chunk.units - unit);
    a.positions = positions_of(plan, units);
    a.first_block = unit == 0;
    a.last_block = unit + units == chunk.units;
    const uint8_t* input =
        chunk.input + unit * plan.input_bytes() + ky * plan.window_columns * plan.pixel_bytes();
    for (int64_t v = 0; v < vectors; ++v) a.inputs[v] = input + plan.input_offset(to.row + 16 * v);
    const int64_t at = unit * plan.unit_positions() * plan.position_bytes();
    for (int64_t output = first_output; output < last_output; output += at_once) {
      a.grads[0] = chunk.planes + plan.channel_offset(output - chunk.first_channel) + at;
      a.grads[1] = a.grads[0] + (plan.planes - 1) * plan.plane_stride;
      a.outputs = smaller(at_once, last_output - output);
      a.products = products_of_task + (output - first_output) * plan.planes * kInputVectors;
      a.to = to.of(output);
      products(a);
      if (a.last_block) to.finish(output, a.outputs);
    }
  }
}

}  // namespace

const GradWeightsTiles kAvx512VnniGradWeightsTiles = {
    .packing = kGradWeightsPacking,
    .most_rows = [](int vectors) { return int64_t{vectors == 2 ? kRowsOfTwo : kRowsOfOne}; },
    .row_unit = 1,
    .input_vectors = kInputVectors,
    .own_chunk_bytes = 384 * 1024,
    .transpose = nullptr,
    .transposed_plane_bytes = nullptr,
    .bytes_beyond_input = nullptr,
    .sum_products = sum_products,
    .sum_shared = sum_shared,
    .release = [] {}};

}  // namespace mantissa::kernels::convolution_bytes::avx512vnni

MANTISSA_TARGET_END
#endif
