// Sums over rows for AVX-512 VNNI, in strips of 64 channels.
#include "kernels/lanes/avx512vnni/target.h"

#if defined(__x86_64__)
#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels/batch_norm/channel_sums.h"
#include "numerics/rounding.h"

namespace mantissa::kernels {
MANTISSA_ISA_BEGIN
namespace {
namespace loops {
#include "kernels/batch_norm/batch_norm_loops.h"
}  // namespace loops

constexpr int64_t kLanes = 64;
#include "kernels/batch_norm/strips.h"
// After that.
#include "kernels/batch_norm/channel_sums_strips.h"

// Four rows are interleaved: vpdpbusd then adds the contributions of all four to a channel. It
// multiplies unsigned bytes by signed ones: q + 128 by q; 128 q is then subtracted.
inline void add_byte_sums(const int8_t* in, const Block& block, ByteSumsOfStrip& total) {
  __m512i sums[4], products[4];
  for (int i = 0; i < 4; ++i) sums[i] = products[i] = _mm512_setzero_si512();
  __m512i low = _mm512_loadu_si512(total.low), high = _mm512_loadu_si512(total.high);
  const __m512i ones = _mm512_set1_epi8(1), bias = _mm512_set1_epi8(-128);
  const auto add_rows = [&](__m512i a, __m512i b, __m512i c, __m512i d) {
    const __m512i lower_ab = _mm512_unpacklo_epi8(a, b), upper_ab = _mm512_unpackhi_epi8(a, b);
    const __m512i lower_cd = _mm512_unpacklo_epi8(c, d), upper_cd = _mm512_unpackhi_epi8(c, d);
    const __m512i rows[4] = {
        _mm512_unpacklo_epi16(lower_ab, lower_cd), _mm512_unpackhi_epi16(lower_ab, lower_cd),
        _mm512_unpacklo_epi16(upper_ab, upper_cd), _mm512_unpackhi_epi16(upper_ab, upper_cd)};
    for (int i = 0; i < 4; ++i) {
      sums[i] = _mm512_dpbusd_epi32(sums[i], ones, rows[i]);
      products[i] = _mm512_dpbusd_epi32(products[i], _mm512_xor_si512(rows[i], bias), rows[i]);
    }
  };
  const auto combine = [&](__m512i a, __m512i b) {
    low = _mm512_min_epi8(low, _mm512_min_epi8(a, b));
    high = _mm512_max_epi8(high, _mm512_max_epi8(a, b));
  };
  const int8_t* from = in + block.at;
  const auto row_at = [&](int64_t row) {
    prefetch_next(from + row * block.step, block);
    return _mm512_loadu_si512(from + row * block.step);
  };
  int64_t row = 0;
  for (; row + 4 <= block.rows; row += 4, from += 4 * block.step) {
    const __m512i a = row_at(0), b = row_at(1), c = row_at(2), d = row_at(3);
    combine(a, b);
    combine(c, d);
    add_rows(a, b, c, d);
  }
  for (; row < block.rows; ++row, from += block.step) {
    const __m512i a = row_at(0), none = _mm512_setzero_si512();
    combine(a, a);
    add_rows(a, none, none, none);
  }
  const auto add_to = [](int32_t* to, __m512i numbers) {
    _mm512_storeu_si512(to, _mm512_add_epi32(_mm512_loadu_si512(to), numbers));
  };
  for (int i = 0; i < 4; ++i) {
    add_to(total.sums + 16 * i, sums[i]);
    add_to(total.squares + 16 * i, _mm512_sub_epi32(products[i], _mm512_slli_epi32(sums[i], 7)));
  }
  _mm512_storeu_si512(total.low, low);
  _mm512_storeu_si512(total.high, high);
}

}  // namespace

void channel_sums_avx512vnni(ConstMantissaSpan in, int64_t channels, int64_t begin_row,
                             int64_t end_row, const ChannelSums& sums) noexcept {
  if (in.bits > 8) return loops::channel_sums(in, channels, begin_row, end_row, sums);
  channel_sums_in_strips(
      in, channels, begin_row, end_row, sums,
      [&](const Block& block, ByteSumsOfStrip& total) {
        add_byte_sums(in.as<int8_t>(), block, total);
      },
      // Each of the vectors has four of each 16 channels.
      [](int64_t lane) { return (lane >> 2 & 3) * 16 + (lane >> 4) * 4 + (lane & 3); });
}

}  // namespace mantissa::kernels
// Here, not earlier: templates are instantiated at the end, with the options in force there.
MANTISSA_TARGET_END
#endif
