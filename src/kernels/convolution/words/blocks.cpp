#include "kernels/convolution/words/blocks.h"

#include <cstring>

#include "kernels/convolution/geometry.h"

namespace mantissa::kernels::convolution_words {

using namespace convolution_geometry;

namespace {

// Dwords of a piece of the weights: at most 512 products of int16 and int8, whose sum int32 holds.
constexpr int64_t kPieceDwords = 256;

// Adds the products of dwords [first, first + count) of `rows` tap rows from `tap`.
void run_piece(const Depth& depth, const char* source, const PixelBlock& block, int64_t tap,
               int64_t rows, int64_t first, int64_t count) {
  TileArguments tile{
      .pixel_step = depth.pixel_step, .count = {1, rows, count}, .step = {0, depth.row_pitch, 4}};
  tile.vectors = depth.vectors + (tap * depth.dwords + first) * 32 * depth.vector_count;
  tile.sums = block.sums;
  source += tap * depth.row_pitch + first * 4;
  const int columns = static_cast<int>(block.columns);
  const int segments = (columns + kTilePixels - 1) / kTilePixels;
  const int shorter = columns / segments, longer_count = columns % segments;
  for (int64_t y = 0; y < block.rows; ++y, source += depth.pixel_row_step) {
    tile.source = source;
    for (int segment = 0; segment < segments; ++segment) {
      const int pixels = shorter + (segment < longer_count ? 1 : 0);
      depth.own->tiles.of[depth.vector_count - 1][pixels - 1](tile);
      tile.source += pixels * depth.pixel_step;
      tile.sums += pixels * kLanes * depth.vector_count;
    }
  }
}

// Calls visit(tap, rows, first, count) for pieces of at most kPieceDwords.
template <typename Visit>
void for_each_piece(const Depth& depth, Visit&& visit) {
  if (depth.taps_y * depth.dwords <= kPieceDwords) {
    return visit(int64_t{0}, depth.taps_y, int64_t{0}, depth.dwords);
  }
  const int64_t rows_at_once = larger(1, kPieceDwords / depth.dwords);
  const int64_t cuts = ceil_div(depth.dwords, kPieceDwords);
  for (int64_t tap = 0; tap < depth.taps_y; tap += rows_at_once) {
    const int64_t rows = smaller(rows_at_once, depth.taps_y - tap);
    int64_t first = 0;
    for (int64_t cut = cuts; cut > 0; --cut) {
      const int64_t count = ceil_div(depth.dwords - first, cut);
      visit(tap, rows, first, count);
      first += count;
    }
  }
}

// Sums start from the bias, or from 0.
void start_sums(const int32_t* bias, int64_t pixels, int64_t lanes, int32_t* sums) {
  if (bias == nullptr) {
    std::memset(sums, 0, static_cast<size_t>(pixels * lanes) * sizeof(int32_t));
    return;
  }
  for (int64_t i = 0; i < pixels; ++i) {
    std::memcpy(sums + i * lanes, bias, static_cast<size_t>(lanes) * sizeof(int32_t));
  }
}

// write(store), which stores a block of `count` sums. If they are to be counted and some are large
// enough, counts them.
template <typename Sum, typename Write>
void count_and_write(Store& store, const Sum* sums, int64_t count, const Write& write) {
  if (store.counts == nullptr) return write(store);
  Store own(store.type, store.shift, store.limit);
  write(own);
  const WideStatistics found = own.statistics();
  if (store.counts->wants(found)) store.counts->add(sums, count);
  store.add(found);
}

// At most kBlockPixels pixels of one group.
void run_block(const Depth& depth, const char* source, PixelBlock block, Workplace& place) {
  block.sums = place.sums;
  start_sums(depth.bias, block.rows * block.columns, block.vectors * kLanes, block.sums);
  const int64_t count = block.sum_count();
  for_each_piece(depth, [&](int64_t tap, int64_t rows, int64_t first, int64_t dwords) {
    run_piece(depth, source, block, tap, rows, first, dwords);
    if (!depth.int32_sums) {
      depth.own->stores.add_to_int64(block.sums, count, tap == 0 && first == 0, place.int64_sums);
    }
  });
  if (depth.int32_sums) {
    count_and_write(place.store, block.sums, count,
                    [&](Store& store) { depth.own->stores.block(store, block); });
  } else {
    count_and_write(place.store, place.int64_sums, count, [&](Store& store) {
      depth.own->stores.int64_block(store, block, place.int64_sums);
    });
  }
}

}  // namespace

// Cuts a block to kBlockPixels: several rows, or parts of a row. Rows that follow each other
// without a gap are one.
void run_blocks(const Depth& depth, const char* source, PixelBlock block, Workplace& place) {
  if (block.rows > 1 && depth.pixel_row_step == block.columns * depth.pixel_step &&
      block.row_step == block.columns * block.column_step) {
    block.columns *= block.rows;
    block.rows = 1;
  }
  const int64_t rows_at_once = larger(1, kBlockPixels / block.columns);
  const int64_t parts = ceil_div(block.columns, kBlockPixels);
  for (int64_t y = 0; y < block.rows; y += rows_at_once) {
    for (int64_t part = parts, x = 0; part > 0; --part) {
      PixelBlock piece = block;
      piece.rows = smaller(rows_at_once, block.rows - y);
      // Whole tiles, except the last part.
      piece.columns =
          smaller(block.columns - x, round_up(ceil_div(block.columns - x, part), kTilePixels));
      piece.target += y * block.row_step + x * block.column_step;
      run_block(depth, source + y * depth.pixel_row_step + x * depth.pixel_step, piece, place);
      x += piece.columns;
    }
  }
}

}  // namespace mantissa::kernels::convolution_words
