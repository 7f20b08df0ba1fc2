// The tile registers of AMX: eight, of up to 16 rows of 64 bytes. Products and sums are
//   c[m][n] += sum over k < 16, j < 4 of a[m][4 * k + j] * b[k][4 * n + j],
// c being int32 [16][16], a and b bytes; they wrap around as those of vpdpbusd do. Include it
// outside of any region.
//
// Assembly, since the intrinsics of g++ 12 do not say which memory they read and write.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "base/system/target.h"

MANTISSA_TARGET_AVX512VNNI_BEGIN

namespace mantissa::kernels::amx {
namespace {

constexpr int kRows = 16;
constexpr int64_t kRowBytes = 64;
constexpr int64_t kTileBytes = kRows * kRowBytes;

// The contents of each register: sums, rows of a, and b.
constexpr int kSums = 0, kA = 4, kB = 6;

// Calls visit(0), visit(1), ... with constants: tile registers have no other names.
template <int kCount, typename Visit>
MANTISSA_INLINE void for_each_index(Visit&& visit) {
  [&]<int... kIndices>(std::integer_sequence<int, kIndices...>) __attribute__((always_inline)) {
    (visit(std::integral_constant<int, kIndices>()), ...);
  }
  (std::make_integer_sequence<int, kCount>());
}

// Configures the tiles: those of sums and of a with `rows` rows, those of b with `depth` rows. Each
// row of b meets four bytes of a row of a. The tiles lose their contents.
inline void configure(int rows, int depth) {
  struct {
    uint8_t palette = 1, start_row = 0;
    uint8_t reserved[14] = {};
    uint16_t row_bytes[16] = {};
    uint8_t rows[16] = {};
  } config;
  static_assert(sizeof(config) == 64);
  for (int tile = 0; tile < 8; ++tile) {
    const bool is_a = tile >= kA && tile < kB;
    config.row_bytes[tile] = static_cast<uint16_t>(is_a ? 4 * depth : kRowBytes);
    config.rows[tile] = static_cast<uint8_t>(tile < kB ? rows : depth);
  }
  asm volatile("ldtilecfg %0" : : "m"(config));
}

// Releases the registers: later code on this thread, or after a switch, has no tiles to save.
inline void release() { asm volatile("tilerelease"); }

// Rows are `step` bytes apart.
template <int kTile>
MANTISSA_INLINE void load(const void* from, int64_t step) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(step), "i"(kTile) : "memory");
}
template <int kTile>
MANTISSA_INLINE void store(void* to, int64_t step) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(step), "i"(kTile) : "memory");
}
template <int kTile>
MANTISSA_INLINE void clear() {
  asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
}
template <int kC, int kA, int kB>
MANTISSA_INLINE void multiply_unsigned_signed() {
  asm volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kC), "i"(kA), "i"(kB));
}
template <int kC, int kA, int kB>
MANTISSA_INLINE void multiply_signed_unsigned() {
  asm volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kC), "i"(kA), "i"(kB));
}

}  // namespace
}  // namespace mantissa::kernels::amx

MANTISSA_TARGET_END
