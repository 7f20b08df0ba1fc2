// Every instruction set against the reference: products at the largest sums that blocks allow;
// steps with plain shifts and with others; all at the ends of their ranges.
#include "kernels/recurrent/recurrent.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>
#include <vector>

#include "kernels/common/test_rows.h"
#include "kernels/recurrent/gate_tables.h"

namespace mantissa::kernels {
namespace {

class RecurrentRows : public RowTest<RecurrentKernels> {
 protected:
  const RecurrentKernels& kernels() const { return *GetParam(); }
};

// Whole numbers up to `limit` in size, the ends among them.
template <typename T>
std::vector<T> numbers(int64_t count, int64_t limit, uint64_t seed) {
  std::vector<T> all(static_cast<size_t>(count));
  uint64_t state = seed * 2 + 1;
  for (T& number : all) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    const auto bits = static_cast<int64_t>(state >> 2);
    const int64_t sizes[] = {limit,
                             -limit,
                             0,
                             bits % (limit + 1),
                             -(bits % (limit + 1)),
                             bits % std::min<int64_t>(limit + 1, 4096)};
    number = static_cast<T>(sizes[(state >> 40) % 6]);
  }
  return all;
}

struct Matrices {
  int64_t rows, columns, depth;
  std::vector<int16_t> a, b;
};

void check_products(const RecurrentKernels& kernels, const Matrices& m, int64_t a_row,
                    int64_t a_pair, int64_t block) {
  const PairProducts args{.a = m.a.data(),
                          .a_row = a_row,
                          .a_pair = a_pair,
                          .b = m.b.data(),
                          .rows = m.rows,
                          .columns = m.columns,
                          .depth = m.depth,
                          .block = block};
  std::vector<int64_t> got(static_cast<size_t>(m.rows * m.columns), -1), wanted = got;
  PairProducts to = args;
  to.sums = got.data();
  kernels.products(to);
  to.sums = wanted.data();
  kRecurrentReference.products(to);
  ASSERT_EQ(got, wanted) << m.rows << " rows, " << m.columns << " columns, " << m.depth << " deep";
}

TEST_P(RecurrentRows, ProductsEqualTheReference) {
  for (const auto& [a_bits, b_bits] : {std::pair{15, 7}, {7, 7}, {15, 15}, {7, 15}}) {
    const int64_t a_limit = mantissa_limit(a_bits + 1), b_limit = mantissa_limit(b_bits + 1);
    for (const int64_t depth : {0, 1, 2, 7, 64, 511, 1026}) {
      for (const int64_t rows : {1, 3, 4, 9}) {
        for (const int64_t columns : {16, 48, 64, 112}) {
          const int64_t terms = (depth + 1) / 2 * 2;
          // The numbers end with the last term: nothing after it may be read.
          const int64_t a_count = (rows - 1) * (depth + 3) + depth;
          Matrices m{rows, columns, depth, numbers<int16_t>(a_count, a_limit, 1),
                     numbers<int16_t>(terms * columns, b_limit, 2)};
          check_products(kernels(), m, depth + 3, 2, block_of(a_bits, b_bits));
          std::fill(m.a.begin(), m.a.end(), static_cast<int16_t>(-a_limit));
          std::fill(m.b.begin(), m.b.end(), static_cast<int16_t>(b_limit));
          check_products(kernels(), m, depth + 3, 2, block_of(a_bits, b_bits));
        }
      }
    }
  }
}

TEST_P(RecurrentRows, ProductsOfRowsSideBySide) {
  const int64_t rows = 6, depth = 600;
  const Matrices m{rows, 32, depth, numbers<int16_t>(rows * depth, INT16_MAX, 3),
                   numbers<int16_t>(depth * 32, 127, 4)};
  check_products(kernels(), m, 2, 2 * rows, block_of(15, 7));
}

struct Cell {
  CellKernels RecurrentKernels::*kernels;
  int64_t gates, record;
};
constexpr Cell kCells[] = {{&RecurrentKernels::rnn, RnnCell::kGates, RnnCell::kRecord},
                           {&RecurrentKernels::lstm, LstmCell::kGates, LstmCell::kRecord},
                           {&RecurrentKernels::gru, GruCell::kGates, GruCell::kRecord}};

// Gates within [0, 1], or [-1, 1] for a candidate, row by row as steps leave them.
std::vector<int16_t> records_of(const Cell& cell, int64_t channels, uint64_t seed) {
  std::vector<int16_t> record = numbers<int16_t>(cell.record * channels, INT16_MAX, seed);
  const auto is_sigmoid = [&](int64_t row) {
    return cell.gates == 4 ? row != 2 && row < 4 : row < 2;
  };
  for (int64_t i = 0; i < std::ssize(record); ++i) {
    if (is_sigmoid(i / channels)) record[i] = static_cast<int16_t>(std::abs(record[i]));
  }
  return record;
}

struct Shifts {
  int x, s, peephole, peephole_gradient;
};
// Usual shifts, the last ones that are plain, and shifts beyond.
constexpr Shifts kShifts[] = {{-12, -2, -5, 7},     {-27, -14, -28, -14}, {61, 61, 61, 61},
                              {-28, -15, -29, -15}, {70, 80, 90, 100},    {0, 0, 0, 0}};

template <typename T>
void check_forward(const RecurrentKernels& kernels, const Cell& cell, int64_t channels,
                   const Shifts& shifts, bool has_peepholes) {
  const int64_t gates = cell.gates * channels;
  const auto x = numbers<T>(gates, std::min<int64_t>(INT32_MAX, std::numeric_limits<T>::max()), 5);
  const auto s = numbers<int64_t>(gates, (int64_t{1} << 44) - 1, 6);
  auto s_shifts = std::vector<int32_t>(static_cast<size_t>(gates), shifts.s);
  for (size_t k = 0; k < s_shifts.size(); k += 3) s_shifts[k] = shifts.s / 2;
  const auto bias = numbers<int64_t>(channels, int64_t{1} << 28, 7);
  const auto h_before = numbers<int16_t>(channels, INT16_MAX, 8);
  const auto before = records_of(cell, channels, 9);
  const auto peepholes = numbers<int16_t>(3 * channels, INT16_MAX, 10);
  struct Result {
    std::vector<int16_t> h, record;
    int64_t clipped;
    bool operator==(const Result&) const = default;
  };
  const auto result_of = [&](const RecurrentKernels& of) {
    Result result{std::vector<int16_t>(channels, 1),
                  std::vector<int16_t>(cell.record * channels, 1), 0};
    result.clipped =
        (of.*cell.kernels)
            .forward({.channels = channels,
                      .x = {x.data(), 8 * static_cast<int>(sizeof(T))},
                      .x_shift = shifts.x,
                      .s = s.data(),
                      .s_shifts = s_shifts.data(),
                      .bias = bias.data(),
                      .h_before = h_before.data(),
                      .before = before.data(),
                      .h = result.h.data(),
                      .record = result.record.data(),
                      .peepholes = {.weights = has_peepholes ? peepholes.data() : nullptr,
                                    .shift = shifts.peephole}});
    return result;
  };
  const Result got = result_of(kernels), wanted = result_of(kRecurrentReference);
  ASSERT_TRUE(got == wanted) << cell.gates << " gates, " << channels << " channels, shift "
                             << shifts.x;
}

TEST_P(RecurrentRows, StepsEqualTheReference) {
  for (const Cell& cell : kCells) {
    for (const int64_t channels : {1, 5, 64, 100}) {
      for (const Shifts& shifts : kShifts) {
        for (const bool has_peepholes : {false, true}) {
          check_forward<int8_t>(kernels(), cell, channels, shifts, has_peepholes);
          check_forward<int16_t>(kernels(), cell, channels, shifts, has_peepholes);
          check_forward<int32_t>(kernels(), cell, channels, shifts, has_peepholes);
        }
      }
    }
  }
}

void check_backward(const RecurrentKernels& kernels, const Cell& cell, int64_t channels,
                    const Shifts& shifts, bool has_peepholes) {
  const auto h_before = numbers<int16_t>(channels, INT16_MAX, 11);
  const auto h = numbers<int16_t>(channels, INT16_MAX, 12);
  const auto before = records_of(cell, channels, 13), record = records_of(cell, channels, 14);
  const auto grad_h = numbers<int32_t>(channels, kGradientLimit, 15);
  const auto carry_c = numbers<int32_t>(channels, kGradientLimit, 16);
  const auto peepholes = numbers<int16_t>(3 * channels, INT16_MAX, 17);
  const auto result_of = [&](const RecurrentKernels& of) {
    std::vector<std::vector<int32_t>> result(
        4, std::vector<int32_t>(static_cast<size_t>(cell.gates * channels), 1));
    result[3] = carry_c;
    (of.*cell.kernels)
        .backward({.channels = channels,
                   .h_before = h_before.data(),
                   .h = h.data(),
                   .before = before.data(),
                   .record = record.data(),
                   .grad_h = grad_h.data(),
                   .grad_x = result[0].data(),
                   .grad_s = result[1].data(),
                   .carry_h = result[2].data(),
                   .carry_c = result[3].data(),
                   .peepholes = {.weights = has_peepholes ? peepholes.data() : nullptr,
                                 .gradient_shift = shifts.peephole_gradient}});
    return result;
  };
  ASSERT_EQ(result_of(kernels), result_of(kRecurrentReference))
      << cell.gates << " gates, " << channels << " channels";
}

TEST_P(RecurrentRows, GradientsEqualTheReference) {
  for (const Cell& cell : kCells) {
    for (const int64_t channels : {1, 5, 64, 100, 1000}) {
      for (const Shifts& shifts : kShifts) {
        for (const bool has_peepholes : {false, true}) {
          check_backward(kernels(), cell, channels, shifts, has_peepholes);
        }
      }
    }
  }
}

TEST_P(RecurrentRows, CarriesEqualTheReference) {
  for (const int64_t count : {1, 7, 64, 130}) {
    const auto carry = numbers<int32_t>(count, kGradientLimit, 18);
    const auto sums = numbers<int64_t>(count, (int64_t{1} << 44) - 1, 19);
    for (const int shift : {-40, -17, -5, 0, 1, 20, 61, 62, 100}) {
      std::vector<int32_t> got = carry, wanted = carry;
      kernels().add_carry(sums.data(), shift, count, got.data());
      kRecurrentReference.add_carry(sums.data(), shift, count, wanted.data());
      ASSERT_EQ(got, wanted) << shift;
      const auto gradient = numbers<int16_t>(count, INT16_MAX, 20);
      kernels().add_output_gradient({gradient.data(), 16}, shift, carry.data(), count, got.data());
      kRecurrentReference.add_output_gradient({gradient.data(), 16}, shift, carry.data(), count,
                                              wanted.data());
      ASSERT_EQ(got, wanted) << shift;
    }
  }
}

TEST_P(RecurrentRows, ShortGradientsEqualTheReference) {
  for (const int64_t count : {1, 7, 64, 130}) {
    for (const int64_t limit : {int64_t{3}, int64_t{40000}, kGradientLimit}) {
      const auto even = numbers<int32_t>(count, limit, 21),
                 odd = numbers<int32_t>(count, limit, 22);
      auto shifts = numbers<int32_t>(count, 31, 23);
      for (int32_t& shift : shifts) shift = std::abs(shift);
      std::vector<int16_t> got(2 * static_cast<size_t>(count)), wanted = got;
      ASSERT_EQ(kernels().shorten(even.data(), shifts.data(), count, got.data()),
                kRecurrentReference.shorten(even.data(), shifts.data(), count, wanted.data()));
      ASSERT_EQ(got, wanted);
      ASSERT_EQ(kernels().largest_gradient(even.data(), count),
                kRecurrentReference.largest_gradient(even.data(), count));
      const int32_t* const odds[] = {odd.data(), nullptr};
      for (const int32_t* second : odds) {
        for (const int shift : {0, 1, 14}) {
          kernels().pair_gradients(even.data(), second, count, shift, 15, got.data());
          kRecurrentReference.pair_gradients(even.data(), second, count, shift, 15, wanted.data());
          ASSERT_EQ(got, wanted);
        }
      }
      const auto states = numbers<int16_t>(2 * count, INT16_MAX, 24);
      kernels().pair_states(states.data(), states.data() + count, count, 8, 7, got.data());
      kRecurrentReference.pair_states(states.data(), states.data() + count, count, 8, 7,
                                      wanted.data());
      ASSERT_EQ(got, wanted);
      ASSERT_EQ(kernels().largest_state(states.data(), count),
                kRecurrentReference.largest_state(states.data(), count));
    }
  }
}

#if defined(__x86_64__)
INSTANTIATE_TEST_SUITE_P(Rows, RecurrentRows,
                         testing::Values(&kRecurrentAvx2, &kRecurrentAvx512Vnni), row_name);
#else
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(RecurrentRows);
#endif

}  // namespace
}  // namespace mantissa::kernels
