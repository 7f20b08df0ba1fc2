// Sums over rows for AVX2. Two rows are interleaved: _mm256_madd_epi16 then adds what two rows
// contribute to a channel.
#if defined(__x86_64__)
#include "kernels/batch_norm/avx2_kernels.h"
#include "kernels/batch_norm/avx2_strips.h"
#include "numerics/rounding.h"

MANTISSA_TARGET_AVX2_BEGIN

namespace mantissa::kernels::batch_norm_avx2 {
namespace {
namespace loops {
#include "kernels/batch_norm/batch_norm_loops.h"
}  // namespace loops

// Rows whose sums are kept in int32 lanes: what fits the nearest cache, for a few strips.
constexpr int64_t kRows = 256, kGradientRows = 128;
static_assert(kGradientRows <= 256, "sums of products of 16 and 8 bits must fit int32");

// Sums of sixteen channels: the lanes of `first`, then those of `second`.
struct Sums {
  __m256i first, second;

  // Written out, as are those below: g++ compiles implicit constructors for any CPU.
  MANTISSA_INLINE Sums() : first(_mm256_setzero_si256()), second(first) {}

  // Adds the products of interleaved words.
  MANTISSA_INLINE void add(__m256i first_a, __m256i first_b, __m256i second_a, __m256i second_b) {
    first = _mm256_add_epi32(first, _mm256_madd_epi16(first_a, first_b));
    second = _mm256_add_epi32(second, _mm256_madd_epi16(second_a, second_b));
  }
};

// Interleaved words of two rows of 16 bytes, in the order of the channels.
struct BytePairs {
  __m256i first, second;

  MANTISSA_INLINE BytePairs(__m128i a, __m128i b)
      : first(_mm256_cvtepi8_epi16(_mm_unpacklo_epi8(a, b))),
        second(_mm256_cvtepi8_epi16(_mm_unpackhi_epi8(a, b))) {}
};

struct BlockSums {
  Sums sum, squares;
  __m128i low, high;

  MANTISSA_INLINE BlockSums() : low(_mm_set1_epi8(127)), high(_mm_set1_epi8(-128)) {}

  MANTISSA_INLINE void add(__m128i a, __m128i b) {
    const __m256i ones = _mm256_set1_epi16(1);
    const BytePairs pairs(a, b);
    sum.add(pairs.first, ones, pairs.second, ones);
    squares.add(pairs.first, pairs.first, pairs.second, pairs.second);
  }
  MANTISSA_INLINE void combine(__m128i row) {
    low = _mm_min_epi8(low, row);
    high = _mm_max_epi8(high, row);
  }
};

BlockSums sums_of(const int8_t* in, const Block& block) {
  BlockSums sums;
  const int8_t* from = in + block.at;
  int64_t row = 0;
  for (; row + 2 <= block.rows; row += 2, from += 2 * block.step) {
    const __m128i a = load16(from), b = load16(from + block.step);
    sums.combine(a);
    sums.combine(b);
    sums.add(a, b);
  }
  if (row < block.rows) {
    sums.combine(load16(from));
    sums.add(load16(from), _mm_setzero_si128());
  }
  return sums;
}

// One array at a time: compilers then see vectors.
void add_lanes(const int32_t* lanes, int64_t channel, int64_t channels, int64_t* sums) {
  for_each_lane(channel, channels, [&](int64_t lane, int64_t c) { sums[c] += lanes[lane]; });
}

void add_block(const BlockSums& block, int64_t channel, int64_t channels, const ChannelSums& sums) {
  alignas(32) int32_t sum[kLanes], squares[kLanes];
  int8_t low[kLanes], high[kLanes];
  store32(sum, block.sum.first);
  store32(sum + 8, block.sum.second);
  store32(squares, block.squares.first);
  store32(squares + 8, block.squares.second);
  store16(low, block.low);
  store16(high, block.high);
  add_lanes(sum, channel, channels, sums.sum);
  add_lanes(squares, channel, channels, sums.sum_squares);
  for_each_lane(channel, channels, [&](int64_t lane, int64_t c) {
    sums.minimum[c] = std::min<int32_t>(sums.minimum[c], low[lane]);
  });
  for_each_lane(channel, channels, [&](int64_t lane, int64_t c) {
    sums.maximum[c] = std::max<int32_t>(sums.maximum[c], high[lane]);
  });
}

struct GradientBlockSums {
  Sums grad, products;  // lanes: channels 0-3 and 8-11, then 4-7 and 12-15

  MANTISSA_INLINE GradientBlockSums() : products(grad) {}
  MANTISSA_INLINE void add(__m256i grad_a, __m256i grad_b, __m256i in_a, __m256i in_b) {
    const __m256i ones = _mm256_set1_epi16(1);
    const __m256i grad_first = _mm256_unpacklo_epi16(grad_a, grad_b);
    const __m256i grad_second = _mm256_unpackhi_epi16(grad_a, grad_b);
    grad.add(grad_first, ones, grad_second, ones);
    products.add(grad_first, _mm256_unpacklo_epi16(in_a, in_b), grad_second,
                 _mm256_unpackhi_epi16(in_a, in_b));
  }
};

template <typename T, bool kMasked>
GradientBlockSums gradient_sums_of(const BatchNormGradient& args, const Block& block) {
  GradientBlockSums sums;
  const auto grad = [&](int64_t at) {
    return _mm256_and_si256(load_words(args.grad_out.as<T>() + at),
                            passes<kMasked>(args.output.as<int8_t>(), at));
  };
  const auto* in = args.in.as<int8_t>();
  int64_t at = block.at, row = 0;
  for (; row + 2 <= block.rows; row += 2, at += 2 * block.step) {
    const int64_t next = at + block.step;
    sums.add(grad(at), grad(next), load_words(in + at), load_words(in + next));
  }
  if (row < block.rows) {
    const __m256i none = _mm256_setzero_si256();
    sums.add(grad(at), none, load_words(in + at), none);
  }
  return sums;
}

// Stores in the order of the channels.
void store_in_order(const Sums& sums, int32_t* to) {
  store32(to, _mm256_permute2x128_si256(sums.first, sums.second, 0x20));
  store32(to + 8, _mm256_permute2x128_si256(sums.first, sums.second, 0x31));
}

void add_block(const GradientBlockSums& block, int64_t channel, int64_t channels, int64_t* sum_grad,
               int64_t* sum_grad_in) {
  alignas(32) int32_t grads[kLanes], products[kLanes];
  store_in_order(block.grad, grads);
  store_in_order(block.products, products);
  add_lanes(grads, channel, channels, sum_grad);
  add_lanes(products, channel, channels, sum_grad_in);
}

}  // namespace

void channel_sums(ConstValue in, int64_t channels, int64_t begin_row, int64_t end_row,
                  const ChannelSums& sums) noexcept {
  if (in.bits > 8) return loops::channel_sums(in, channels, begin_row, end_row, sums);
  const LongRows rows(channels, begin_row, end_row);
  for_each_block(rows, channels, 0, rows.channels / kLanes, kRows,
                 [&](const Block& block, int64_t) {
                   add_block(sums_of(in.as<int8_t>(), block), block.channel, channels, sums);
                 });
  loops::channel_sums(in, channels, rows.rest_row, end_row, sums);
}

void gradient_sums(const BatchNormGradient& args, int64_t begin_row, int64_t end_row,
                   int64_t* sum_grad, int64_t* sum_grad_in) noexcept {
  if (!are_bytes(args)) {
    return loops::gradient_sums(args, begin_row, end_row, sum_grad, sum_grad_in);
  }
  const LongRows rows(args.channels, begin_row, end_row);
  with_gradient_type(args.grad_out.bits, [&](auto type) {
    using T = decltype(type);
    for_each_block(rows, args.channels, 0, rows.channels / kLanes, kGradientRows,
                   [&](const Block& block, int64_t) {
                     add_block(args.output.data != nullptr
                                   ? gradient_sums_of<T, true>(args, block)
                                   : gradient_sums_of<T, false>(args, block),
                               block.channel, args.channels, sum_grad, sum_grad_in);
                   });
  });
  loops::gradient_sums(args, rows.rest_row, end_row, sum_grad, sum_grad_in);
}

}  // namespace mantissa::kernels::batch_norm_avx2
// Here, not earlier: templates are instantiated at the end, with the options in force there.
MANTISSA_TARGET_END
#endif
