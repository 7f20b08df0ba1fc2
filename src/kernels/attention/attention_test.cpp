// The reference against attention in long double; every instruction set against the reference.
#include "kernels/attention/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/common/test_rows.h"
#include "kernels/elementwise/test_values.h"
#include "numerics/rounding.h"

namespace mantissa::kernels {
namespace {

struct Sizes {
  int64_t queries, keys, channels, valid_keys;
  bool causal = false;
  int64_t window = 0;
  int64_t bias_height = 1, bias_width = 0;
  int64_t biases() const {
    return bias_width == 0 ? 0 : (2 * bias_height - 1) * (2 * bias_width - 1);
  }
};

// Operands of one head with these bits, and the results of the kernels.
class Subject {
 public:
  Subject(const Sizes& sizes, int q_bits, int kv_bits, int grad_bits, int shift)
      : q_(test_values<int16_t>(sizes.queries * sizes.channels, 1, q_bits - 1)),
        k_(test_values<int16_t>(sizes.keys * sizes.channels, 2, kv_bits - 1)),
        v_(test_values<int16_t>(sizes.keys * sizes.channels, 3, kv_bits - 1)),
        grad_out_(test_values<int32_t>(sizes.queries * sizes.channels, 4, grad_bits - 1)),
        bias_(test_values<int32_t>(sizes.biases(), 5, 19)),
        grad_bias_(static_cast<size_t>(sizes.biases())) {
    for (auto [numbers, bits] : {std::pair{&q_, q_bits}, {&k_, kv_bits}, {&v_, kv_bits}}) {
      for (int16_t& n : *numbers) n = static_cast<int16_t>(saturate(n, mantissa_limit(bits)));
    }
    for (int32_t& n : grad_out_) n = static_cast<int32_t>(saturate(n, mantissa_limit(grad_bits)));
    head = {.q = q_.data(),
            .k = k_.data(),
            .v = v_.data(),
            .queries = sizes.queries,
            .keys = sizes.keys,
            .channels = sizes.channels,
            .valid_keys = sizes.valid_keys,
            .causal = sizes.causal,
            .window = sizes.window,
            .q_bits = q_bits,
            .k_bits = kv_bits,
            .v_bits = kv_bits,
            .scale = 756'389,
            .shift = shift,
            .bias = bias_.empty() ? nullptr : bias_.data(),
            .bias_height = sizes.bias_height,
            .bias_width = sizes.bias_width};
    const int bits = bit_length(static_cast<uint64_t>(sizes.channels - 1));
    gradient = {.grad_out = grad_out_.data(),
                .grad_out_bits = grad_bits,
                .grad_p_shift = std::max(0, grad_bits - 16) + std::max(0, kv_bits - 8),
                .scale = 23'170,
                .shift = 22 + bits};
  }

  std::vector<int64_t> forward(const AttentionKernels& kernels) {
    const int64_t stride = head.channels + 3;
    std::vector<int64_t> out(static_cast<size_t>(head.queries * stride), -7);
    std::vector<int64_t> room = make_room(false);
    kernels.forward(head, reinterpret_cast<std::byte*>(room.data()), out.data(), stride);
    return out;
  }

  // The gradients of queries, keys and values, one after the other, and of the bias.
  std::vector<int64_t> backward(const AttentionKernels& kernels) {
    const int64_t stride = head.channels + 3;
    std::vector<int64_t> all(static_cast<size_t>((head.queries + 2 * head.keys) * stride), -7);
    gradient.stride = gradient.key_stride = stride;
    gradient.grad_q = all.data();
    gradient.grad_k = all.data() + head.queries * stride;
    gradient.grad_v = gradient.grad_k + head.keys * stride;
    std::vector<int64_t> room = make_room(true);
    std::fill(grad_bias_.begin(), grad_bias_.end(), 3);
    gradient.grad_bias = grad_bias_.empty() ? nullptr : grad_bias_.data();
    kernels.backward(head, reinterpret_cast<std::byte*>(room.data()), gradient);
    all.insert(all.end(), grad_bias_.begin(), grad_bias_.end());
    return all;
  }

  AttentionHead head;
  AttentionGradient gradient;

 private:
  std::vector<int64_t> make_room(bool is_backward) const {
    return std::vector<int64_t>(static_cast<size_t>(
        attention_room_bytes(
            head.queries, head.keys, head.channels, is_backward,
            is_backward ? !has_narrow_gradients(head) : !head.has_narrow_scores()) /
        8));
  }

  std::vector<int16_t> q_, k_, v_;
  std::vector<int32_t> grad_out_, bias_;
  std::vector<int64_t> grad_bias_;
};

constexpr Sizes kSizes[] = {
    {1, 1, 1, 1},   {1, 1, 2, 1},     {5, 5, 4, 5, true},      {33, 33, 16, 33, true},
    {7, 40, 6, 37}, {70, 65, 64, 60}, {64, 600, 32, 599},      {12, 9, 256, 9},
    {6, 8, 5, 7},   {9, 10, 8, 0},    {100, 100, 34, 83, true},
    // With windows.
    {9, 9, 4, 9, true, 1},      {100, 100, 16, 100, true, 3},  {150, 150, 8, 141, false, 40},
    {100, 100, 5, 90, true, 33}, {70, 70, 6, 70, false, 200},
    // With biases by distance: in a sequence, and in a picture.
    {40, 40, 16, 37, true, 0, 1, 45}, {63, 63, 8, 63, false, 0, 7, 9},
    {63, 63, 5, 60, false, 9, 21, 3}, {1, 1, 2, 1, false, 0, 1, 1}};

TEST(Attention, AgreesWithLongDouble) {
  for (const Sizes& sizes : kSizes) {
    constexpr int kShift = 22;  // scores are small numbers
    Subject subject(sizes, 8, 8, 16, kShift);
    const AttentionHead& head = subject.head;
    const auto out = subject.forward(kAttentionReference);
    for (int64_t i = 0; i < head.queries; ++i) {
      std::vector<long double> powers;
      long double sum = 0;
      for (int64_t j = 0; j < head.keys_of(i); ++j) {
        if (j < head.first_key_of(i)) {
          powers.push_back(0);
          continue;
        }
        long double score = 0;
        for (int64_t c = 0; c < head.channels; ++c) {
          score += static_cast<long double>(head.q[i * head.channels + c]) *
                   head.k[j * head.channels + c];
        }
        long double logarithm = ldexpl(score * static_cast<long double>(head.scale), -kShift);
        if (head.bias != nullptr) logarithm += head.bias[ref_bias_at(&head, i, j)];
        powers.push_back(exp2l(ldexpl(logarithm, -16)));
        sum += powers.back();
      }
      for (int64_t c = 0; c < head.channels; ++c) {
        long double wanted = 0, most = 1;  // P is off by half a unit of 2^-7, near 1 by a whole one
        for (int64_t j = head.first_key_of(i); j < head.keys_of(i); ++j) {
          const auto v = static_cast<long double>(head.v[j * head.channels + c]);
          wanted += powers[static_cast<size_t>(j)] / sum * 128 * v;
          most += fabsl(v) * (powers[static_cast<size_t>(j)] / sum > 0.99L ? 1.01L : 0.51L);
        }
        ASSERT_NEAR(static_cast<double>(out[i * (head.channels + 3) + c]),
                    static_cast<double>(wanted), static_cast<double>(most))
            << i << " " << c;
      }
    }
  }
}

// Probabilities that are relative to their row, of more keys than int32 sums at once.
TEST(Attention, MeansOfRowsAgreeWithLongDouble) {
  for (const Sizes& sizes : kSizes) {
    for (const int v_bits : {8, 16}) {
      constexpr int kShift = 22;
      Subject subject(sizes, 8, v_bits, 16, kShift);
      subject.head.row_probabilities = true;
      const AttentionHead& head = subject.head;
      const auto out = subject.forward(kAttentionReference);
      for (int64_t i = 0; i < head.queries; ++i) {
        const int64_t first = head.first_key_of(i), end = head.keys_of(i);
        std::vector<long double> logarithms;
        for (int64_t j = first; j < end; ++j) {
          long double score = 0;
          for (int64_t c = 0; c < head.channels; ++c) {
            score += static_cast<long double>(head.q[i * head.channels + c]) *
                     head.k[j * head.channels + c];
          }
          logarithms.push_back(ldexpl(score * static_cast<long double>(head.scale), -kShift));
          if (head.bias != nullptr) logarithms.back() += head.bias[ref_bias_at(&head, i, j)];
        }
        long double sum = 0, error = 0, largest = logarithms.empty() ? 0 : logarithms[0];
        for (const long double each : logarithms) largest = std::max(largest, each);
        for (long double& each : logarithms) {
          // Off by half of 1/127, and by the powers' own error.
          sum += each = 127 * exp2l(ldexpl(each - largest, -16));
          error += 0.51L;
        }
        for (int64_t c = 0; c < head.channels; ++c) {
          long double wanted = 0, most = 0;
          for (int64_t j = first; j < end; ++j) {
            const auto v = static_cast<long double>(head.v[j * head.channels + c]);
            wanted += logarithms[static_cast<size_t>(j - first)] * v;
            most = std::max(most, fabsl(v));
          }
          if (sum > 0) wanted /= sum;
          const long double bound = sum > 0 ? 2 * most * error / sum : 0;
          ASSERT_NEAR(static_cast<double>(out[i * (head.channels + 3) + c]),
                      static_cast<double>(128 * wanted), static_cast<double>(128 * bound + 0.51L))
              << i << " " << c;
        }
      }
    }
  }
}

// Where all scores are equal, the result is the mean of the values to the last bit, however many
// there are: a probability of 2^-7 at the least would lose them.
TEST(Attention, AFlatRowIsTheMeanOfItsValues) {
  for (const int64_t keys : {1, 3, 300, 5000}) {
    Subject subject({2, keys, 4, keys}, 8, 16, 16, 22);
    const std::vector<int16_t> q(8, 0);
    subject.head.q = q.data();
    subject.head.row_probabilities = true;
    const auto out = subject.forward(kAttentionReference);
    for (int64_t c = 0; c < 4; ++c) {
      int64_t sum = 0;
      for (int64_t j = 0; j < keys; ++j) sum += subject.head.v[j * 4 + c];
      const long double mean = 128 * static_cast<long double>(sum) / static_cast<long double>(keys);
      ASSERT_NEAR(static_cast<double>(out[c]), static_cast<double>(mean), 0.51) << keys;
    }
  }
}

TEST(Attention, WindowsAreOfKeysNearTheQuery) {
  const auto keys = [](bool causal, int64_t window, int64_t first_query, int64_t query) {
    const AttentionHead head{.keys = 20,
                             .valid_keys = 18,
                             .causal = causal,
                             .first_query = first_query,
                             .window = window};
    return std::pair(head.first_key_of(query), head.keys_of(query));
  };
  EXPECT_EQ(keys(true, 0, 0, 5), std::pair(0L, 6L));
  EXPECT_EQ(keys(true, 3, 0, 1), std::pair(0L, 2L));
  EXPECT_EQ(keys(true, 3, 0, 5), std::pair(3L, 6L));
  EXPECT_EQ(keys(true, 3, 10, 2), std::pair(10L, 13L));
  EXPECT_EQ(keys(false, 3, 0, 5), std::pair(3L, 8L));
  EXPECT_EQ(keys(false, 3, 0, 17), std::pair(15L, 18L));
  EXPECT_EQ(keys(false, 0, 0, 5), std::pair(0L, 18L));
}

// In a row a bias lies where the difference of positions says; in a picture rows come first.
TEST(Attention, BiasesLieByDistance) {
  AttentionHead head{.bias_height = 1, .bias_width = 4};
  EXPECT_EQ(ref_bias_at(&head, 0, 3), 0);
  EXPECT_EQ(ref_bias_at(&head, 2, 2), 3);
  EXPECT_EQ(ref_bias_at(&head, 3, 0), 6);
  head.first_query = 2;
  EXPECT_EQ(ref_bias_at(&head, 0, 1), 4);
  head = {.bias_height = 2, .bias_width = 3};
  EXPECT_EQ(ref_bias_at(&head, 0, 5), 0);   // up by 1, left by 2
  EXPECT_EQ(ref_bias_at(&head, 4, 4), 7);
  EXPECT_EQ(ref_bias_at(&head, 3, 2), 10);  // down by 1, left by 2
}

// The gradients of one query that meets one key: P is 127 of 2^-7 whatever the score, so the
// value's gradient is nearly all of the gradient.
TEST(Attention, OneKeyTakesTheWholeGradient) {
  Subject subject({1, 1, 2, 1}, 8, 8, 16, 20);
  const auto all = subject.backward(kAttentionReference);
  for (int64_t c = 0; c < 2; ++c) {
    EXPECT_EQ(all[10 + c], 127 * subject.gradient.grad_out[c]);
  }
}

class AttentionRows : public RowTest<AttentionKernels> {};

TEST_P(AttentionRows, EqualTheReference) {
  for (const Sizes& sizes : kSizes) {
    for (const auto& [q_bits, kv_bits, grad_bits, of_row] :
         {std::tuple{8, 8, 16, false}, {4, 6, 8, false}, {8, 16, 16, false}, {16, 16, 16, false},
          {8, 8, 24, false}, {8, 8, 16, true}, {8, 16, 16, true}, {16, 16, 24, true}}) {
      for (const int shift : {-3, 0, 9, 16, 22, 70}) {
        SCOPED_TRACE(testing::Message()
                     << sizes.queries << "x" << sizes.keys << "x" << sizes.channels << ", "
                     << q_bits << ", " << kv_bits << ", " << grad_bits << " bits, shift " << shift);
        Subject subject(sizes, q_bits, kv_bits, grad_bits, shift);
        subject.head.row_probabilities = of_row;
        subject.gradient.shift += of_row ? 1 : 0;
        ASSERT_EQ(subject.forward(*GetParam()), subject.forward(kAttentionReference));
        ASSERT_EQ(subject.backward(*GetParam()), subject.backward(kAttentionReference));
      }
    }
  }
}

// The largest mantissas, all of one sign in each operand.
TEST_P(AttentionRows, LargestSumsEqualTheReference) {
  for (const auto& [keys, of_row, bits] :
       {std::tuple{300, false, 8}, {4096, false, 8}, {300, true, 8}, {4096, true, 8},
        {300, false, 16}, {300, true, 16}, {4096, true, 16}}) {
    const int64_t channels = keys == 300 ? 256 : 64;
    const Sizes sizes{34, keys, channels, keys};
    const int v_bits = of_row ? 16 : bits;
    Subject subject(sizes, bits, v_bits, 16, 16);
    subject.head.k_bits = bits;
    subject.head.row_probabilities = of_row;
    subject.gradient.shift += of_row ? 1 : 0;
    const auto most_q = static_cast<int16_t>(mantissa_limit(bits)),
               most = static_cast<int16_t>(mantissa_limit(v_bits));
    const std::vector<int16_t> q(sizes.queries * sizes.channels, most_q),
        k(sizes.keys * sizes.channels, static_cast<int16_t>(-most_q));
    std::vector<int16_t> v(sizes.keys * sizes.channels, most);
    for (size_t i = 0; i < v.size() / 2; ++i) v[i] = static_cast<int16_t>(-most);
    const std::vector<int32_t> grad(sizes.queries * sizes.channels, -32767);
    subject.head.q = q.data();
    subject.head.k = k.data();
    subject.head.v = v.data();
    subject.gradient.grad_out = grad.data();
    ASSERT_EQ(subject.forward(*GetParam()), subject.forward(kAttentionReference));
    ASSERT_EQ(subject.backward(*GetParam()), subject.backward(kAttentionReference));
  }
}

// Heads of queries that share keys add their gradients to these.
TEST_P(AttentionRows, GradientsAreAddedToThoseOfTheKeys) {
  for (const int kv_bits : {8, 16}) {
    Subject subject({40, 50, 6, 44}, 8, kv_bits, 16, 16);
    const auto alone = subject.backward(*GetParam());
    subject.gradient.adds_to_keys = true;
    const auto added = subject.backward(*GetParam());
    ASSERT_EQ(added, subject.backward(kAttentionReference));
    for (size_t i = 0; i < alone.size(); ++i) {
      const bool is_of_keys = i >= 40 * 9 && i % 9 < 6;
      ASSERT_EQ(added[i], alone[i] - (is_of_keys ? 7 : 0)) << i;
    }
  }
}

// Queries of a later piece: they come after others, whose keys are there already.
TEST_P(AttentionRows, LaterQueriesEqualTheReference) {
  for (const auto& [first, bias_width] : {std::pair{1, 0}, {40, 0}, {40, 64}}) {
    const Sizes sizes{3, 64, 16, 64, true, 0, 1, bias_width};
    Subject subject(sizes, 8, 8, 16, 12);
    subject.head.first_query = first;
    subject.head.valid_keys = first + sizes.queries;
    const auto wanted = subject.forward(kAttentionReference);
    ASSERT_EQ(subject.forward(*GetParam()), wanted);
    const int64_t keys = subject.head.keys_of(0);
    EXPECT_EQ(keys, first + 1);
    subject.head.window = 2;
    ASSERT_NE(subject.forward(kAttentionReference), wanted);
    ASSERT_EQ(subject.forward(*GetParam()), subject.forward(kAttentionReference));
  }
}

TEST_P(AttentionRows, QueriesWithShiftsOfTheirOwnEqualTheReference) {
  const Sizes sizes{37, 50, 16, 44};
  std::vector<int32_t> shifts;
  for (int32_t i = 0; i < sizes.queries; ++i) shifts.push_back(i % 9 - 4);
  for (const int kv_bits : {8, 16}) {
    Subject subject(sizes, 8, kv_bits, 16, 12);
    const auto without = subject.forward(kAttentionReference);
    subject.head.query_shifts = shifts.data();
    const auto wanted = subject.forward(kAttentionReference);
    ASSERT_NE(wanted, without);
    ASSERT_EQ(subject.forward(*GetParam()), wanted);
    ASSERT_EQ(subject.backward(*GetParam()), subject.backward(kAttentionReference));
  }
}

// Rows between others, whose exponents lie up to 8 below the common one, or far below it.
TEST_P(AttentionRows, KeysAtOneExponentEqualTheReference) {
  constexpr int64_t kRows = 40, kStride = 77;
  std::vector<int16_t> exponents;
  for (int16_t i = 0; i < kRows; ++i) exponents.push_back(static_cast<int16_t>(8 - i % 26));
  for (const int bits : {5, 8, 16}) {
    const auto numbers = test_values<int16_t>(kRows * kStride, 1, bits - 1);
    std::vector<int16_t> wide(numbers.size());
    for (size_t i = 0; i < wide.size(); ++i) {
      wide[i] = static_cast<int16_t>(saturate(numbers[i], mantissa_limit(bits)));
    }
    const std::vector<int8_t> narrow(wide.begin(), wide.end());
    for (const int64_t channels : {1, 2, 63, 64, 70}) {
      const auto aligned = [&](const AttentionKernels& kernels, bool by_rows) {
        std::vector<int16_t> to(kRows * channels + 1, 77);
        kernels.align({.from = {bits <= 8 ? static_cast<const void*>(narrow.data()) : wide.data(),
                                bits},
                       .rows = kRows,
                       .stride = kStride,
                       .channels = channels,
                       .exponents = by_rows ? exponents.data() : nullptr,
                       .exponent = bits <= 8 ? 0 : 8,
                       .to = to.data()});
        return to;
      };
      for (const bool by_rows : {false, true}) {
        const auto wanted = aligned(kAttentionReference, by_rows);
        ASSERT_EQ(aligned(*GetParam(), by_rows), wanted) << bits << ", " << channels;
        for (int64_t i = 0; i < kRows; ++i) {
          const int shift = by_rows ? (bits <= 8 ? 0 : 8) - exponents[i] : 0;
          ASSERT_EQ(wanted[i * channels], rescale_rne(wide[i * kStride], shift));
        }
        EXPECT_EQ(wanted.back(), 77);
      }
    }
  }
}

// Few queries, which are computed without packed keys: with all numbers of keys.
TEST_P(AttentionRows, FewQueriesEqualTheReference) {
  for (int64_t queries = 1; queries <= 5; ++queries) {
    for (int64_t keys = queries; keys < 1100; keys += keys < 70 ? 1 : 171) {
      for (const int q_bits : {8, 16}) {
        const int64_t channels = keys % 3 == 0 ? 64 : 38, window = keys % 4 == 0 ? 9 : 0;
        const Sizes sizes{queries, keys, channels, keys, true, window};
        Subject subject(sizes, q_bits, 16, 16, 20);
        subject.head.first_query = keys - queries;
        subject.head.row_probabilities = keys % 2 == 0;
        ASSERT_EQ(subject.forward(*GetParam()), subject.forward(kAttentionReference))
            << queries << " queries, " << keys << " keys";
      }
    }
  }
}

#if defined(__x86_64__)
INSTANTIATE_TEST_SUITE_P(Rows, AttentionRows,
                         testing::Values(&kAttentionAvx2, &kAttentionAvx512Vnni), row_name);
#else
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(AttentionRows);
#endif

}  // namespace
}  // namespace mantissa::kernels
