#include "train/range_search.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace mantissa {
namespace {

struct Counted {
  double number;
  int64_t times;
};

double squared_error(const std::vector<Counted>& numbers, double step, double low, double high) {
  double sum = 0;
  for (const Counted& counted : numbers) {
    const double nearest = std::clamp(std::nearbyint(counted.number / step), low, high) * step;
    const double error = counted.number - nearest;
    sum += error * error * static_cast<double>(counted.times);
  }
  return sum;
}

}  // namespace

void ActivationCounts::add(const Tensor& values) {
  const bool is_byte = values.type == DataType::kInt8;
  std::array<int64_t, 256>& counts = by_exponent_[*values.exponent + (is_byte ? 0 : 8)];
  for (int64_t i = 0; i < values.count(); ++i) {
    const int q = is_byte ? values.as<int8_t>()[i] : values.as<int16_t>()[i] >> 8;
    ++counts[static_cast<size_t>(q + 128)];
  }
}

ActivationGrid least_squares_range(const ActivationCounts& counts, int bits, bool any_step) {
  std::vector<Counted> numbers;
  double largest = 0, squares = 0;
  ActivationGrid grid;
  counts.for_each([&](double number, int64_t times) {
    numbers.push_back({number, times});
    largest = std::max(largest, std::abs(number));
    squares += number * number * static_cast<double>(times);
    grid.is_signed = grid.is_signed || number < 0;
  });
  grid.levels = (int64_t{1} << (grid.is_signed ? bits - 1 : bits)) - 1;
  if (largest == 0 || grid.levels == 0) return grid;
  const auto levels = static_cast<double>(grid.levels);
  const double low = grid.is_signed ? -levels : 0;
  // Steps from the one that clips nothing down to a 64th of it.
  const double first = largest / levels;
  std::vector<double> steps;
  if (any_step) {
    constexpr int kSteps = 192;
    for (int i = 0; i <= kSteps; ++i) steps.push_back(first * std::exp2(-6.0 * i / kSteps));
  } else {
    const int exponent = std::ilogb(first) + 1;
    for (int i = 0; i <= 7; ++i) steps.push_back(std::ldexp(1, exponent - i));
  }
  double best = -1;
  for (const double step : steps) {
    const double error = squared_error(numbers, step, low, levels);
    if (best >= 0 && error >= best) continue;
    best = error;
    grid.range = step * levels;
  }
  grid.relative_error = std::sqrt(best / squares);
  return grid;
}

}  // namespace mantissa
