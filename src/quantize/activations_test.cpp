// Statistics of activations that do not depend on order, and the grids that follow from them.
#include "quantize/activations.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>

#include "quantize/test_numbers.h"

namespace mantissa::quantize {
namespace {

using Input = std::vector<float>;

ActivationStatistics statistics_of(const std::vector<Input>& inputs) {
  ActivationStatistics statistics;
  for (const Input& input : inputs) statistics.add(input);
  return statistics;
}

Input drawn_input() {
  const auto size = *rc::gen::inRange<size_t>(1, 60);
  const auto numbers = drawn_weights(size);
  const double factor = std::ldexp(1, *rc::gen::inRange(-20, 20));
  Input input;
  for (const double number : numbers) input.push_back(static_cast<float>(number * factor));
  return input;
}

// As after a ReLU.
Input without_sign(std::vector<double> numbers) {
  Input input;
  for (const double number : numbers) input.push_back(static_cast<float>(std::max(number, 0.0)));
  return input;
}

LinearGrid fitted(const ActivationStatistics& statistics, const ActivationSettings& settings) {
  const auto grid = fit_activations(statistics, settings);
  EXPECT_TRUE(grid.ok());
  return *grid;
}

double error_of(const std::vector<double>& values, const LinearGrid& grid) {
  double error = 0;
  for (const double x : values) error += (x - grid.quantised(x)) * (x - grid.quantised(x));
  return error;
}

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
  ActivationStatistics statistics, merged;
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

TEST(Activations, UpToTheLargest) {
  const auto statistics = statistics_of({{-1, 0, 2}, {-3, 5, 1}});
  ActivationSettings settings;
  settings.method = ActivationMethod::kMinMax;
  settings.bits = 4;
  LinearGrid grid = fitted(statistics, settings);
  EXPECT_EQ(grid.offset, -2);
  EXPECT_GE(grid.beta(), 7);
  EXPECT_LT(grid.beta(), 7 * (1 + 0x1p-22));
  settings.offset = OffsetRule::kMinimum;
  grid = fitted(statistics, settings);
  EXPECT_EQ(grid.offset, -3);
  EXPECT_NEAR(grid.beta(), 8, 1e-5);
  settings.convention = RangeConvention::kFull;
  grid = fitted(statistics, settings);
  EXPECT_EQ(grid.offset, 0);
  EXPECT_EQ(grid.range, (MantissaRange{-8, 7}));
  EXPECT_NEAR(grid.scale, 5.0 / 7, 1e-6);
  settings.scale_bits = 1;
  EXPECT_EQ(fitted(statistics, settings).scale, 1);
}

TEST(Activations, AWholeOffsetHasZeroOnTheGrid) {
  const auto statistics = statistics_of({{-1.3F, 0, 2.7F}, {-0.9F, 5.1F, 1}});
  for (const auto method : {ActivationMethod::kMmse, ActivationMethod::kMinMax}) {
    ActivationSettings settings;
    settings.method = method;
    settings.bits = 3;
    settings.whole_offset = true;
    const LinearGrid grid = fitted(statistics, settings);
    EXPECT_EQ(grid.quantised(0), 0);
    EXPECT_EQ(std::remainder(grid.offset, grid.scale), 0);
    EXPECT_NE(grid.offset, 0);
  }
}

RC_GTEST_PROP(ActivationsMmse, AreNeverWorseThanOtherMethods, ()) {
  ActivationSettings settings;
  settings.bits = *rc::gen::elementOf(std::vector<int>{1, 2, 3, 4, 5, 6, 7, 8, 16});
  settings.convention = *rc::gen::element(RangeConvention::kUnsigned, RangeConvention::kFull,
                                          RangeConvention::kSymmetric);
  settings.scale_bits = *rc::gen::element(1, 8, 24);
  settings.whole_offset = *rc::gen::arbitrary<bool>();
  std::vector<Input> inputs = {drawn_input(), drawn_input()};
  const auto statistics = statistics_of(inputs);
  const double error = squared_error(statistics, fitted(statistics, settings));
  for (const auto method : {ActivationMethod::kMinMax, ActivationMethod::kPercentile,
                            ActivationMethod::kKullbackLeibler}) {
    settings.method = method;
    RC_ASSERT(error <= squared_error(statistics, fitted(statistics, settings)));
  }
}

TEST(ActivationsMmse, FindTheBestOfAllScales) {
  std::vector<double> values;
  ActivationStatistics statistics;
  for (int i = 0; i < 50; ++i) {
    std::vector<int8_t> mantissas;
    for (const double x : normal_numbers(200, i)) {
      mantissas.push_back(static_cast<int8_t>(std::max(std::floor(x * 30), 0.0)));
      values.push_back(mantissas.back() * 0x1p-5);
    }
    statistics.add(mantissas, -5);
  }
  for (const int bits : {1, 2, 3, 4, 6}) {
    ActivationSettings settings;
    settings.bits = bits;
    const LinearGrid grid = fitted(statistics, settings);
    EXPECT_EQ(grid.offset, 0);
    const double error = error_of(values, grid);
    EXPECT_NEAR(squared_error(statistics, grid), error, 1e-9 * error);
    for (int i = 1; i < 400; ++i) {
      LinearGrid other = grid;
      other.scale = grid.scale * i / 150;
      EXPECT_LE(error, error_of(values, other) * 1.001) << bits << " bits, " << i << "/150";
    }
  }
}

// Cells stand for their numbers: on floats the histogram's error is nearly that of the numbers.
TEST(ActivationsMmse, OfFloatsAreNearlyThoseOfTheNumbers) {
  const Input input = without_sign(normal_numbers(20000, 4));
  const std::vector<double> values(input.begin(), input.end());
  const auto statistics = statistics_of({input});
  for (const int bits : {2, 4, 8}) {
    ActivationSettings settings;
    settings.bits = bits;
    const LinearGrid grid = fitted(statistics, settings);
    const double error = error_of(values, grid);
    EXPECT_NEAR(squared_error(statistics, grid), error, 0.02 * error);
    settings.method = ActivationMethod::kMinMax;
    EXPECT_LT(error, error_of(values, fitted(statistics, settings)));
  }
}

TEST(ActivationsPercentile, ClipsAtMostSoMany) {
  std::vector<int8_t> mantissas;
  for (int i = 0; i < 10000; ++i) mantissas.push_back(static_cast<int8_t>(i % 100));
  ActivationStatistics statistics;
  statistics.add(mantissas, 0);
  ActivationSettings settings;
  settings.method = ActivationMethod::kPercentile;
  for (const auto& [clipped, largest] :
       {std::pair(0.0, 99), {0.0099, 99}, {0.01, 98}, {0.025, 97}, {0.5, 49}}) {
    settings.clipped = clipped;
    EXPECT_NEAR(fitted(statistics, settings).beta(), largest, 1e-4) << clipped;
  }
}

TEST(ActivationsKullbackLeibler, ClipOutliers) {
  Input input = without_sign(normal_numbers(20000, 6));
  input.push_back(60);
  ActivationSettings settings;
  settings.method = ActivationMethod::kKullbackLeibler;
  const double beta = fitted(statistics_of({input}), settings).beta();
  EXPECT_LT(beta, 10);
  EXPECT_GT(beta, 2);
}

// The formula of the text, in its order, gives the same bits: beta and beta / N are exact.
RC_GTEST_PROP(Activations, AreQuantisedByTheFormulaOfTheText, ()) {
  ActivationSettings settings;
  settings.bits = *rc::gen::inRange(1, 9);
  settings.whole_offset = *rc::gen::arbitrary<bool>();
  const Input input = drawn_input();
  const LinearGrid grid = fitted(statistics_of({input, drawn_input()}), settings);
  const double steps = std::ldexp(1, settings.bits) - 1, beta = grid.beta(), m = grid.offset;
  RC_ASSERT(beta / steps == grid.scale);
  for (const float x : input) {
    const double clipped = std::clamp(x - m, 0.0, beta);
    RC_ASSERT(std::nearbyint(clipped * steps / beta) * beta / steps + m == grid.quantised(x));
  }
}

TEST(Activations, WithNothingAboveTheOffset) {
  ActivationSettings settings;
  for (const auto& input : {Input{0, 0}, Input{-2, -2}}) {
    const LinearGrid grid = fitted(statistics_of({input}), settings);
    EXPECT_EQ(grid.scale, 1);
    EXPECT_EQ(grid.quantised(input[0]), input[0]);
  }
}

TEST(Activations, RefuseWhatCannotBeQuantised) {
  const ActivationSettings settings;
  EXPECT_FALSE(fit_activations({}, settings).ok());
  EXPECT_FALSE(fit_activations(statistics_of({{}}), settings).ok());
  for (const float bad : {std::nanf(""), HUGE_VALF, -HUGE_VALF}) {
    auto refused = fit_activations(statistics_of({{1, bad}, {bad}, {2}}), settings);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().message, "2 activations of the calibration are not finite");
  }
  const auto statistics = statistics_of({{1, 2}});
  const auto fails = [&](auto change) {
    ActivationSettings changed;
    change(changed);
    return !fit_activations(statistics, changed).ok();
  };
  EXPECT_TRUE(fails([](ActivationSettings& s) { s.bits = 9; }));
  EXPECT_TRUE(fails([](ActivationSettings& s) { s.scale_bits = 25; }));
  EXPECT_TRUE(fails([](ActivationSettings& s) { s.clipped = -1; }));
}

}  // namespace
}  // namespace mantissa::quantize
