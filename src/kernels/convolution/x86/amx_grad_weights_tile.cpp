// The products of grad_weights on AMX. Depth is cut into lines of positions whose packed inputs lie
// at one distance: rows of output pixels, or the rows of a unit with the pixels between them, whose
// gradients are zeros then. A line is tiles of 16 positions, the last filled up with zeros.
#if defined(__x86_64__)
#include "kernels/convolution/x86/avx512vnni_grad_weights_sums.h"
#include "kernels/lanes/amx.h"

MANTISSA_TARGET_AVX512VNNI_BEGIN

namespace mantissa::kernels::convolution_bytes::avx512vnni {
namespace {

constexpr int64_t kPositions = 16;  // of a tile
constexpr int64_t kInputVectors = 2;
constexpr int64_t kTilesPerBlock = 8;  // of b, which stay in the L1 cache

struct Lines {
  int64_t outer = 1, inner = 1;                      // outer * inner lines
  int64_t outer_step = 0, inner_step = 0, step = 0;  // bytes of input: of lines, of positions
  int64_t length = 0;                                // positions of a line
  int64_t pitch = 1, columns = 1;                    // the first `columns` of every `pitch` exist

  int64_t tiles_per_line() const { return ceil_div(length, kPositions); }
  int64_t tiles() const { return outer * inner * tiles_per_line(); }
};

Lines lines_of(const GradWeightsPlan& plan, int64_t units) {
  const Positions p = positions_of(plan, units);
  Lines rows = {.outer = p.count[0],
                .inner = p.count[1],
                .outer_step = p.step[0],
                .inner_step = p.step[1],
                .step = p.step[2],
                .length = p.count[2],
                .pitch = p.count[2],
                .columns = p.count[2]};
  if (p.count[1] == 1 || p.step[1] % p.step[2] != 0) return rows;
  const int64_t pitch = p.step[1] / p.step[2];
  Lines joined = rows;
  joined.inner = 1;
  joined.length = (p.count[1] - 1) * pitch + p.count[2];
  joined.pitch = pitch;
  return joined.tiles() < rows.tiles() ? joined : rows;
}

// Goes over the tiles of lines, and knows the start of each one's input.
class TilePlace {
 public:
  TilePlace(const Lines& lines, int64_t tile) : lines_(lines) {
    const int64_t per_line = lines.tiles_per_line();
    const int64_t line = tile / per_line;
    inner_left_ = lines.inner - line % lines.inner;
    tiles_left_ = per_line - tile % per_line;
    outer_at_ = line / lines.inner * lines.outer_step;
    line_at_ = outer_at_ + line % lines.inner * lines.inner_step;
    at_ = line_at_ + tile % per_line * kPositions * lines.step;
  }
  int64_t operator()() const { return at_; }
  void advance() {
    at_ += kPositions * lines_.step;
    if (--tiles_left_ > 0) return;
    tiles_left_ = lines_.tiles_per_line();
    line_at_ += lines_.inner_step;
    if (--inner_left_ == 0) {
      inner_left_ = lines_.inner;
      outer_at_ += lines_.outer_step;
      line_at_ = outer_at_;
    }
    at_ = line_at_;
  }

 private:
  Lines lines_;
  int64_t inner_left_, tiles_left_, outer_at_, line_at_, at_;
};

// Bytes of the transposed copy, [tile][16 channels][16 positions][4].
int64_t transposed_plane_bytes(const GradWeightsPlan& plan, int64_t units) {
  return lines_of(plan, units).tiles() * amx::kTileBytes;
}

// The last tile of the last line has positions that do not exist.
int64_t bytes_beyond_input(const GradWeightsPlan& plan) {
  const Lines lines = lines_of(plan, plan.chunk_units);
  return (lines.tiles_per_line() * kPositions - lines.length) * lines.step;
}

// The copy of the high plane, or of the only one, for the block that begins at a channel. Planes
// are as far apart in a chunk of fewer units.
int8_t* transposed_at(const GradWeightsPlan& plan, const Chunk& chunk, int64_t channel) {
  return chunk.transposed +
         (channel - chunk.first_channel) / 16 * plan.planes * plan.transposed_plane_bytes;
}

void transpose_plane(const GradWeightsPlan& plan, const Lines& lines, const int8_t* grads,
                     int8_t* to) {
  const int64_t step = plan.position_bytes();
  for (int64_t line = 0; line < lines.outer * lines.inner; ++line) {
    int64_t column = 0;
    for (int64_t left = lines.length; left > 0; left -= kPositions, to += amx::kTileBytes) {
      __m512i r[kPositions];
      for (int i = 0; i < kPositions; ++i) {
        if (i < left && column < lines.columns) {
          r[i] = _mm512_loadu_si512(grads);
          grads += step;
        } else {
          r[i] = _mm512_setzero_si512();
        }
        if (++column == lines.pitch) column = 0;
      }
      transpose_dwords(r);
      for (int i = 0; i < kPositions; ++i) _mm512_store_si512(to + i * amx::kRowBytes, r[i]);
    }
  }
}

void transpose(const GradWeightsPlan& plan, const Chunk& chunk, int64_t block) {
  const Lines lines = lines_of(plan, chunk.units);
  const int64_t channel = block * 16;
  const int8_t* grads = chunk.planes + plan.channel_offset(channel - chunk.first_channel);
  int8_t* to = transposed_at(plan, chunk, channel);
  for (int plane = 0; plane < plan.planes; ++plane) {
    transpose_plane(plan, lines, grads + plane * static_cast<int64_t>(plan.plane_stride),
                    to + plane * plan.transposed_plane_bytes);
  }
}

// Tiles of sums, [kGrads][kVectors]: of two planes or two blocks, if kGrads is 2, and of one or two
// vectors of (kx, c).
template <int kGrads, int kVectors>
MANTISSA_INLINE void clear_sums() {
  amx::for_each_index<kGrads * kVectors>(
      [](auto i) __attribute__((always_inline)) { amx::clear<amx::kSums + i>(); });
}
template <int kGrads, int kVectors>
MANTISSA_INLINE void load_sums(const __m512i* from) {
  amx::for_each_index<kGrads * kVectors>([&](auto i) __attribute__((always_inline)) {
    amx::load<amx::kSums + i>(from + i * amx::kRows, amx::kRowBytes);
  });
}
template <int kGrads, int kVectors>
MANTISSA_INLINE void store_sums(__m512i* to) {
  amx::for_each_index<kGrads * kVectors>([&](auto i) __attribute__((always_inline)) {
    amx::store<amx::kSums + i>(to + i * amx::kRows, amx::kRowBytes);
  });
}

// Adds the products of `tiles` tiles.
template <int kGrads, int kVectors>
MANTISSA_INLINE void add_products(const int8_t* const (&grads)[2],
                                  const uint8_t* const (&inputs)[2], TilePlace place, int64_t step,
                                  int64_t tiles) {
  const int8_t* first = grads[0];
  const int64_t second = grads[1] - grads[0];
  for (; tiles > 0; --tiles, first += amx::kTileBytes, place.advance()) {
    amx::for_each_index<kVectors>([&](auto v) __attribute__((always_inline)) {
      amx::load<amx::kB + v>(inputs[v] + place(), step);
    });
    amx::for_each_index<kGrads>([&](auto g) __attribute__((always_inline)) {
      amx::load<amx::kA + g>(first + g * second, amx::kRowBytes);
      amx::for_each_index<kVectors>([&](auto v) __attribute__((always_inline)) {
        amx::multiply_signed_unsigned<amx::kSums + g * kVectors + v, amx::kA + g, amx::kB + v>();
      });
    });
  }
}

struct ProductArguments {
  Lines lines;
  const uint8_t* inputs[2] = {};  // of the first (kx, c) of each vector
  const int8_t* grads[2] = {};    // high and low plane of a block, or two blocks
  int64_t rows = 0;               // (kx, c)
  bool planes = true;             // two planes, else one or two blocks
  Destination to;
};

template <int kGrads, int kVectors>
__attribute__((noinline)) void products(const ProductArguments& a) {
  clear_sums<kGrads, kVectors>();
  add_products<kGrads, kVectors>(a.grads, a.inputs, TilePlace(a.lines, 0), a.lines.step,
                                 a.lines.tiles());
  __m512i sums[kGrads][kVectors][amx::kRows];
  store_sums<kGrads, kVectors>(sums[0][0]);
  for (int v = 0; v < kVectors; ++v) {
    for (int g = 0; g < kGrads; ++g) transpose_dwords(sums[g][v]);
    for (int i = 0; i < smaller(amx::kRows, a.rows - amx::kRows * v); ++i) {
      const int row = amx::kRows * v + i;
      if (kGrads == 2 && a.planes) {
        flush_planes(a.to, row, sums[0][v][i], sums[kGrads - 1][v][i]);
      } else {
        for (int g = 0; g < kGrads; ++g) flush_block(a.to, row, g, sums[g][v][i]);
      }
    }
  }
}

void sum_products(const GradWeightsPlan& plan, const Chunk& chunk, int64_t ky, int64_t row,
                  int64_t count, int64_t block, bool first, const GradientSums& sums,
                  int64_t pitch) {
  const bool pair = plan.planes == 1 && (block + 1) * 16 < plan.columns;
  const Lines lines = lines_of(plan, chunk.units);
  const uint8_t* input =
      chunk.input + ky * plan.window_columns * plan.pixel_bytes() + plan.input_offset(row);
  const int8_t* grads = transposed_at(plan, chunk, block * 16);
  const ProductArguments arguments = {
      .lines = lines,
      .inputs = {input, input + 64},
      .grads = {grads, grads + plan.transposed_plane_bytes},
      .rows = count,
      .planes = plan.planes == 2,
      .to = {.input_sums = chunk.input_sums + ky * round_up(plan.run, 64) + row,
             .grad_sums = chunk.grad_sums.from(block * 16),
             .sums = sums,
             .pitch = pitch,
             .first = first}};
  amx::configure(amx::kRows, amx::kRows);
  const bool two = plan.planes == 2 || pair;
  if (count > amx::kRows) {
    (two ? products<2, 2> : products<1, 2>)(arguments);
  } else {
    (two ? products<2, 1> : products<1, 1>)(arguments);
  }
}

// Sums of two planes of 16 output channels or, of one plane, of two blocks of 16.
template <int kPlanes, int kVectors>
void shared_products(const GradWeightsPlan& plan, const SharedSums& to, int64_t first_output,
                     int64_t last_output) {
  constexpr int64_t kOutputs = 32 / kPlanes;
  constexpr int64_t kSumsOfTile = 2 * kVectors * amx::kRows;
  __m512i sums_of_task[kOutputsPerTask / kOutputs * kSumsOfTile];
  const Chunk& chunk = to.chunk;
  const Lines lines = lines_of(plan, chunk.units);
  const uint8_t* input = chunk.input + to.ky * plan.window_columns * plan.pixel_bytes();
  const uint8_t* inputs[2] = {input + plan.input_offset(to.row), input};
  if (kVectors == 2) inputs[1] += plan.input_offset(to.row + 16);
  const int64_t plane = plan.transposed_plane_bytes;
  amx::configure(amx::kRows, amx::kRows);
  const int64_t all = lines.tiles();
  for (int64_t begin = 0; begin < all; begin += kTilesPerBlock) {
    const int64_t tiles = smaller(kTilesPerBlock, all - begin);
    const TilePlace place(lines, begin);
    for (int64_t output = first_output; output < last_output; output += kOutputs) {
      const int64_t outputs = smaller(kOutputs, last_output - output);
      const int8_t* first = transposed_at(plan, chunk, output) + begin * amx::kTileBytes;
      // One block alone is multiplied twice.
      const int8_t* const grads[2] = {first, first + (kPlanes == 2 || outputs > 16 ? plane : 0)};
      __m512i* sums = sums_of_task + (output - first_output) / kOutputs * kSumsOfTile;
      begin == 0 ? clear_sums<2, kVectors>() : load_sums<2, kVectors>(sums);
      add_products<2, kVectors>(grads, inputs, place, lines.step, tiles);
      store_sums<2, kVectors>(sums);
      if (begin + tiles < all) continue;
      const Destination destination = to.of(output);
      for (int64_t o = 0; o < outputs; ++o) {
        for (int v = 0; v < kVectors; ++v) {
          const __mmask16 mask = v == kVectors - 1 ? to.last() : kAllSixteen;
          const __m512i* row = sums + v * amx::kRows + o % 16;
          if constexpr (kPlanes == 2) {
            flush_inputs(destination, o, v, mask, row[0], row[kVectors * amx::kRows]);
          } else {
            flush_plane_inputs(destination, o, v, mask, row[o / 16 * kVectors * amx::kRows]);
          }
        }
      }
      to.finish(output, outputs);
    }
  }
}

void sum_shared(const GradWeightsPlan& plan, const ConvolutionGradWeights& args, const Chunk& chunk,
                int64_t ky, int64_t vector, int64_t vectors, int64_t first_output,
                int64_t last_output, bool first_chunk, int64_t* sums) {
  alignas(64) int64_t tile[32 * kInputVectors * 16];
  const SharedSums to = {plan, args, chunk, ky, vector * 16, vectors, first_chunk, sums, tile};
  if (plan.planes == 2) {
    (vectors == 2 ? shared_products<2, 2> : shared_products<2, 1>)(plan, to, first_output,
                                                                   last_output);
  } else {
    (vectors == 2 ? shared_products<1, 2> : shared_products<1, 1>)(plan, to, first_output,
                                                                   last_output);
  }
}

}  // namespace

const GradWeightsTiles kAmxGradWeightsTiles = {
    .packing = kGradWeightsPacking,
    .most_rows = [](int) { return kInputVectors * amx::kRows; },
    .row_unit = amx::kRows,
    .input_vectors = kInputVectors,
    .own_chunk_bytes = 768 * 1024,  // these CPUs have 2 MiB
    .transpose = transpose,
    .transposed_plane_bytes = transposed_plane_bytes,
    .bytes_beyond_input = bytes_beyond_input,
    .sum_products = sum_products,
    .sum_shared = sum_shared,
    .release = amx::release};

}  // namespace mantissa::kernels::convolution_bytes::avx512vnni

MANTISSA_TARGET_END
#endif
