// Rounding to nearest is its definition. Stochastic rounding: the fast rows equal the reference,
// the mean is kept, the key decides.
#include "kernels/rounding/rounding.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/random.h"
#include "kernels/elementwise/test_values.h"
#include "numerics/rounding.h"

namespace mantissa::kernels {
namespace {

std::vector<const RoundingKernels*> fast_rows() {
  std::vector<const RoundingKernels*> rows;
#if defined(__x86_64__)
  if (is_supported(Isa::kAvx2)) rows.push_back(&kRoundingAvx2);
  if (is_supported(Isa::kAvx512Vnni)) rows.push_back(&kRoundingAvx512Vnni);
#endif
  return rows;
}

std::vector<int16_t> values(int64_t count) {
  std::vector<int16_t> result;
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t bits = random_bits(3, RandomStream::kShuffle, 0, static_cast<uint64_t>(i));
    const auto any = static_cast<int16_t>(static_cast<int>(bits % 65535) - 32767);
    result.push_back(i % 7 == 0 ? (i % 2 == 0 ? 32767 : -32767) : any);
  }
  return result;
}

struct Rounded {
  std::vector<int16_t> mantissas;
  int64_t clipped = 0;
  bool operator==(const Rounded&) const = default;
};

Rounded round_all(const RoundingKernels& row, const std::vector<int16_t>& in, int shift, int bits,
                  RandomKey key = {.seed = 0x123456789abcdef, .micro_batch = 5, .tensor = 9}) {
  Rounded result;
  with_gradient_type(bits, [&](auto type) {
    std::vector<decltype(type)> out(in.size());
    const auto end = static_cast<int64_t>(in.size());
    const int64_t middle = std::min(end, 2 * kRandomGroup);
    const RoundStochastically args{key, in.data(), shift, {out.data(), bits}};
    result.clipped = row.round(args, 0, middle) + row.round(args, middle, end);
    result.mantissas.assign(out.begin(), out.end());
  });
  return result;
}

TEST(StochasticRounding, FastRowsEqualTheReference) {
  for (const int64_t count : {1, 15, 128, 129, 1000, 5000}) {
    const auto in = values(count);
    for (int shift = 0; shift <= 16; ++shift) {
      for (const int bits : {6, 8, 12, 16}) {
        const Rounded expected = round_all(kRoundingReference, in, shift, bits);
        for (const RoundingKernels* row : fast_rows()) {
          EXPECT_EQ(round_all(*row, in, shift, bits), expected)
              << row->name << " " << count << " " << shift << " " << bits;
        }
      }
    }
  }
}

TEST(StochasticRounding, MaximaEqualTheReference) {
  auto in = values(1000);
  for (const int16_t last : {0, 32767, -32767}) {
    in.back() = last;
    for (const RoundingKernels* row : fast_rows()) {
      for (const int64_t begin : {0, 3, 500, 999, 1000}) {
        EXPECT_EQ(row->maximum({in.data(), 16}, begin, 1000),
                  kRoundingReference.maximum({in.data(), 16}, begin, 1000));
      }
    }
  }
}

TEST(RoundToNearest, IsItsDefinition) {
  std::vector<int32_t> in;
  for (int64_t i = 0; i < 1000; ++i) {
    const auto any = static_cast<int32_t>(
        random_bits(4, RandomStream::kShuffle, 0, static_cast<uint64_t>(i)) >> 33);
    in.push_back(i % 5 == 0 ? INT32_MAX : i % 5 == 1 ? -any : any >> (i % 31));
  }
  const std::vector<int16_t> in16 = values(1000);
  auto rows = fast_rows();
  rows.push_back(&kRoundingReference);
  for (const ConstMantissaSpan from :
       {ConstMantissaSpan{in.data(), 32}, ConstMantissaSpan{in16.data(), 16}}) {
    const auto value = [&](int64_t i) { return Wide{from.bits == 32 ? in[i] : in16[i]}; };
    uint64_t maximum = 0;
    for (int64_t i = 3; i < 1000; ++i) maximum = std::max(maximum, exact_magnitude(value(i)));
    for (const RoundingKernels* row : rows) {
      EXPECT_EQ(row->maximum(from, 3, 1000), maximum) << row->name;
    }
    for (const int bits : {6, 8, 12, 16}) {
      for (int shift = 0; shift <= 31; ++shift) {
        with_gradient_type(bits, [&]<typename T>(T) {
          std::vector<T> wanted(1000, 77);
          int64_t wanted_clipped = 0;
          for (int64_t i = 3; i < 999; ++i) {
            const Wide rounded = exact_rne(value(i), shift);
            wanted[i] = static_cast<T>(exact_saturate(rounded, mantissa_limit(bits)));
            wanted_clipped += wanted[i] != rounded;
          }
          for (const RoundingKernels* row : rows) {
            std::vector<T> out(1000, 77);
            const int64_t clipped =
                row->round_to_nearest({from, shift, {out.data(), bits}}, 3, 999);
            ASSERT_EQ(clipped, wanted_clipped) << row->name << " " << shift;
            ASSERT_EQ(out, wanted) << row->name << " " << shift;
          }
        });
      }
    }
  }
}

TEST(StochasticRounding, KeepsTheMean) {
  constexpr int64_t kCount = 200'000;
  for (const int value : {1, 37, 128, 200, -1, -100, -129}) {
    const std::vector<int16_t> in(kCount, static_cast<int16_t>(value));
    const Rounded rounded = round_all(kRoundingReference, in, 8, 8);
    double mean = 0;
    for (const int16_t mantissa : rounded.mantissas) {
      EXPECT_LE(std::abs(mantissa * 256 - value), 255);
      mean += mantissa * 256.0 / kCount;
    }
    EXPECT_NEAR(mean, value, 5 * 128 / std::sqrt(double{kCount})) << value;
  }
}

TEST(StochasticRounding, EachPartOfTheKeyMatters) {
  const auto in = values(1000);
  const RandomKey key{.seed = 1, .micro_batch = 2, .tensor = 3};
  const Rounded expected = round_all(kRoundingReference, in, 8, 8, key);
  EXPECT_EQ(round_all(kRoundingReference, in, 8, 8, key), expected);
  for (const RandomKey& other :
       {RandomKey{.seed = 4, .micro_batch = 2, .tensor = 3},
        RandomKey{.seed = uint64_t{1} << 32 | 1, .micro_batch = 2, .tensor = 3},
        RandomKey{.seed = 1, .micro_batch = 4, .tensor = 3},
        RandomKey{.seed = 1, .micro_batch = 2, .tensor = 4}}) {
    EXPECT_NE(round_all(kRoundingReference, in, 8, 8, other), expected);
  }
}

TEST(StochasticRounding, ExactValuesStay) {
  const auto in = values(1000);
  EXPECT_EQ(round_all(kRoundingReference, in, 0, 16).mantissas, in);
}

std::vector<int8_t> mask(const RoundingKernels& row, const RandomKey& key, uint32_t dropped,
                         int64_t count) {
  std::vector<int8_t> keep(static_cast<size_t>(count) + 1, 55);
  const int64_t middle = std::min(count, 2 * kRandomGroup);
  row.keep_mask(key, dropped, 0, middle, keep.data());
  row.keep_mask(key, dropped, middle, count, keep.data() + middle);
  EXPECT_EQ(keep.back(), 55) << "nothing is written behind the range";
  return keep;
}

TEST(KeepMask, FastRowsEqualTheReference) {
  const RandomKey key{RandomStream::kDropout, 0xfedcba9876543210, 3, 1};
  for (const int64_t count : {0, 1, 127, 128, 129, 1000, 5000}) {
    for (const uint32_t dropped : {0u, 1u, 6554u, 32768u, 65535u}) {
      const auto expected = mask(kRoundingReference, key, dropped, count);
      for (const RoundingKernels* row : fast_rows()) {
        EXPECT_EQ(mask(*row, key, dropped, count), expected) << row->name << " " << dropped;
      }
    }
  }
}

TEST(KeepMask, DropsItsPartAndEachPartOfTheKeyCounts) {
  constexpr int64_t kCount = 1 << 18;
  const RandomKey key{RandomStream::kDropout, 1, 2, 3};
  for (const uint32_t dropped : {0u, 13107u, 32768u, 65535u}) {
    int64_t kept = -55;
    for (const int8_t keep : mask(kRoundingReference, key, dropped, kCount)) kept += keep;
    const double p = 1 - dropped / 65536.0;
    EXPECT_NEAR(static_cast<double>(kept), p * kCount, 5 * std::sqrt(p * (1 - p) * kCount));
  }
  const auto of = [](RandomKey k) { return mask(kRoundingReference, k, 32768, 256); };
  for (const RandomKey& other :
       {RandomKey{RandomStream::kRound, 1, 2, 3}, RandomKey{RandomStream::kDropout, 2, 2, 3},
        RandomKey{RandomStream::kDropout, 1, 1, 3}, RandomKey{RandomStream::kDropout, 1, 2, 2}}) {
    EXPECT_NE(of(other), of(key));
  }
}

}  // namespace
}  // namespace mantissa::kernels
