// Statistics of activations do not depend on order, and hold each value in its cell.
#include "quantise/activations/activation_statistics.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>

#include "quantise/activations/test_activations.h"

namespace mantissa::quantise {
namespace {

RC_GTEST_PROP(ActivationStatistics, DoNotDependOnOrderAndGrouping, ()) {
  std::vector<Input> inputs;
  for (int i = *rc::gen::inRange(1, 12); i > 0; --i) inputs.push_back(drawn_input());
  if (*rc::gen::inRange(0, 3) == 0) inputs.push_back({0, -0.0F});
  const ActivationStatistics straight = statistics_of(inputs);
  // In another order, in groups that are merged.
  std::vector<ActivationStatistics> groups(3);
  std::vector<bool> taken(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    size_t next = *rc::gen::inRange<size_t>(0, inputs.size());
    while (taken[next]) next = (next + 1) % inputs.size();
    taken[next] = true;
    groups[*rc::gen::inRange<size_t>(0, 3)].add(inputs[next]);
  }
  groups[2].merge(groups[0]);
  groups[2].merge(groups[1]);
  RC_ASSERT(groups[2] == straight);
}

RC_GTEST_PROP(ActivationStatistics, HoldEachValueInItsCell, ()) {
  std::vector<Input> inputs;
  for (int i = *rc::gen::inRange(1, 8); i > 0; --i) inputs.push_back(drawn_input());
  const ActivationStatistics statistics = statistics_of(inputs);
  std::vector<double> values;
  for (const Input& input : inputs) values.insert(values.end(), input.begin(), input.end());
  std::sort(values.begin(), values.end());
  size_t i = 0;
  for (const auto& cell : statistics.cells()) {
    for (uint64_t k = 0; k < cell.count; ++k, ++i) {
      RC_ASSERT(cell.low <= values.at(i) && values.at(i) <= cell.high);
    }
    RC_ASSERT(cell.high - cell.low <= statistics.width());
  }
  RC_ASSERT(i == values.size());
  const double largest = std::max(std::abs(values.front()), std::abs(values.back()));
  RC_ASSERT(largest == 0 || statistics.width() <= largest * 0x1p-12);
  RC_ASSERT(statistics.minimum() == values.front());
  RC_ASSERT(statistics.maximum() == values.back());
}

RC_GTEST_PROP(ActivationStatistics, OfMantissasAreExact, ()) {
  ActivationStatistics statistics;
  std::vector<double> values;
  for (int i = *rc::gen::inRange(1, 20); i > 0; --i) {
    const int exponent = *rc::gen::inRange(-9, -4);
    const auto mantissas =
        *rc::gen::container<std::vector<int8_t>>(30, rc::gen::inRange<int8_t>(-127, 127));
    statistics.add(mantissas, exponent);
    for (const int8_t q : mantissas) values.push_back(std::ldexp(q, exponent));
  }
  RC_ASSERT(!statistics.has_cells_of_several_numbers());
  std::sort(values.begin(), values.end());
  size_t i = 0;
  for (const auto& cell : statistics.cells()) {
    for (uint64_t k = 0; k < cell.count; ++k) RC_ASSERT(cell.value == values.at(i++));
  }
  RC_ASSERT(i == values.size());
}

TEST(ActivationStatistics, OfWiderMantissas) {
  ActivationStatistics of_bytes, of_words, of_floats;
  const std::vector<uint8_t> bytes = {0, 255, 17};
  const std::vector<int16_t> words = {-32767, 3, 32767};
  of_bytes.add(bytes, -4);
  of_words.add(words, 2);
  of_floats.add(std::vector<float>{-131068, 12, 131068});
  EXPECT_EQ(of_bytes.maximum(), 255.0 / 16);
  EXPECT_EQ(of_words.minimum(), -131068);
  EXPECT_EQ(of_words.cells().size(), 3);
  EXPECT_EQ(of_words.mean_of_minima(), of_floats.mean_of_minima());
}

TEST(ActivationStatistics, TenThousandInputsTakeNoMoreMemoryThanTen) {
  ActivationStatistics ten, many;
  for (int i = 0; i < 10000; ++i) {
    Input input;
    for (int k = 0; k < 16; ++k) {
      input.push_back(static_cast<float>(std::ldexp(uniform_number(9, 16 * i + k) - 0.5, i % 40)));
    }
    if (i < 40 && i % 4 == 0) ten.add(input);
    many.add(input);
  }
  EXPECT_EQ(ten.inputs(), 10);
  EXPECT_EQ(many.count(), 160000);
  EXPECT_LE(many.bytes(), 200 << 10);
  EXPECT_LE(many.bytes(), ten.bytes() + 4096);
}

RC_GTEST_PROP(ActivationOffset, IsTheMeanOfTheSmallestOfEachInput, ()) {
  std::vector<Input> inputs;
  for (int i = *rc::gen::inRange(1, 12); i > 0; --i) inputs.push_back(drawn_input());
  long double sum = 0, size = 0;
  bool negative = false;
  for (const Input& input : inputs) {
    const float least = *std::min_element(input.begin(), input.end());
    sum += least;
    size += std::abs(static_cast<long double>(least));
    negative = negative || least < 0;
  }
  const double mean = statistics_of(inputs).mean_of_minima();
  const auto count = static_cast<long double>(inputs.size());
  if (negative) {
    RC_ASSERT(std::abs(mean - sum / count) <= size / count * 1e-15L);
  } else {
    RC_ASSERT(mean == 0);
  }
}

}  // namespace
}  // namespace mantissa::quantise
