// Sums over rows for AVX2, in strips of 16 channels.
#include "kernels/lanes/avx2/target.h"

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

#include MANTISSA_LANES(pairs)
// Each of these needs those before it.
#include "kernels/batch_norm/strips.h"
// After that.
#include "kernels/batch_norm/channel_sums_strips.h"

MANTISSA_INLINE __m128i load_row(const int8_t* from) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}

// Two rows are interleaved: add_products then adds both rows' contributions to a channel.
inline void add_byte_sums(const int8_t* in, const Block& block, ByteSumsOfStrip& total) {
  Vector sum0 = load(total.sums), sum1 = load(total.sums + 8);
  Vector squares0 = load(total.squares), squares1 = load(total.squares + 8);
  __m128i low = load_row(total.low), high = load_row(total.high);
  const Vector ones = all_words(1);
  const auto add_rows = [&](__m128i a, __m128i b) {
    const Vector pairs0 = _mm256_cvtepi8_epi16(_mm_unpacklo_epi8(a, b));
    const Vector pairs1 = _mm256_cvtepi8_epi16(_mm_unpackhi_epi8(a, b));
    sum0 = add_products(sum0, pairs0, ones);
    sum1 = add_products(sum1, pairs1, ones);
    squares0 = add_products(squares0, pairs0, pairs0);
    squares1 = add_products(squares1, pairs1, pairs1);
  };
  const auto combine = [&](__m128i row) {
    low = _mm_min_epi8(low, row);
    high = _mm_max_epi8(high, row);
  };
  const int8_t* from = in + block.at;
  int64_t row = 0;
  for (; row + 2 <= block.rows; row += 2, from += 2 * block.step) {
    prefetch_next(from, block);
    prefetch_next(from + block.step, block);
    const __m128i a = load_row(from), b = load_row(from + block.step);
    combine(a);
    combine(b);
    add_rows(a, b);
  }
  if (row < block.rows) {
    combine(load_row(from));
    add_rows(load_row(from), _mm_setzero_si128());
  }
  store(total.sums, sum0);
  store(total.sums + 8, sum1);
  store(total.squares, squares0);
  store(total.squares + 8, squares1);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(total.low), low);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(total.high), high);
}

}  // namespace

void channel_sums_avx2(ConstMantissaSpan in, int64_t channels, int64_t begin_row, int64_t end_row,
                       const ChannelSums& sums) noexcept {
  if (in.bits > 8) return loops::channel_sums(in, channels, begin_row, end_row, sums);
  channel_sums_in_strips(
      in, channels, begin_row, end_row, sums,
      [&](const Block& block, ByteSumsOfStrip& total) {
        add_byte_sums(in.as<int8_t>(), block, total);
      },
      [](int64_t lane) { return lane; });
}

}  // namespace mantissa::kernels
// Here, not earlier: templates are instantiated at the end, with the options in force there.
MANTISSA_TARGET_END
#endif
