#include "quantise/weights/codebook.h"

#include <limits>

#include "quantise/weights/part.h"
#include "quantise/weights/weight_search.h"

namespace mantissa::quantise {
namespace {

constexpr int kMostRounds = 100;
using Values = std::vector<double>;  // ascending

// The numbers in order, with the sums before each.
struct SortedNumbers {
  std::vector<double> numbers, sums;
};

SortedNumbers in_order(std::vector<double> numbers) {
  std::sort(numbers.begin(), numbers.end());
  std::vector<double> sums = {0};
  for (const double number : numbers) sums.push_back(sums.back() + number);
  return {std::move(numbers), std::move(sums)};
}

double middle(const Values& values, size_t i) { return (values[i] + values[i + 1]) / 2; }

// The nearest value, the smaller of two: the first whose middle to the next is not below.
size_t nearest_index(const Values& values, double number) {
  size_t low = 0, high = values.size() - 1;
  while (low < high) {
    const size_t between = (low + high) / 2;
    if (middle(values, between) >= number) {
      high = between;
    } else {
      low = between + 1;
    }
  }
  return low;
}

// Each value becomes the mean of the numbers that are nearest to it.
Values means(const SortedNumbers& sorted, const Values& values) {
  Values result = values;
  size_t from = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    size_t to = sorted.numbers.size();
    if (i + 1 < values.size()) {
      const auto begin = sorted.numbers.begin() + static_cast<std::ptrdiff_t>(from);
      const auto end = std::upper_bound(begin, sorted.numbers.end(), middle(values, i));
      to = static_cast<size_t>(end - sorted.numbers.begin());
    }
    if (to > from)
      result[i] = (sorted.sums[to] - sorted.sums[from]) / static_cast<double>(to - from);
    from = to;
  }
  // Means of equal numbers may differ in their last place.
  std::sort(result.begin(), result.end());
  return result;
}

double error_of(const std::vector<double>& numbers, const Values& values) {
  double error = 0;
  for (const double number : numbers) {
    const double difference = number - values[nearest_index(values, number)];
    error += difference * difference;
  }
  return error;
}

std::vector<Values> starts(const Part& part, const SortedNumbers& sorted) {
  const int64_t levels = part.range.levels();
  const auto most = static_cast<double>(levels);
  Values grid, distances, numbers;
  const double scale = part.has_nothing ? 1 : least_squares_scale(part, 53);
  const double first = sorted.numbers.front(), width = sorted.numbers.back() - first;
  const size_t count = sorted.numbers.size();
  for (int64_t i = 0; i < levels; ++i) {
    grid.push_back(scale * static_cast<double>(part.range.lo + i));
    distances.push_back(first + width * (static_cast<double>(i) + 0.5) / most);
    numbers.push_back(sorted.numbers[(2 * static_cast<size_t>(i) + 1) * count /
                                     (2 * static_cast<size_t>(levels))]);
  }
  return {grid, distances, numbers};
}

// For a part that is not empty; times 2^-exponent.
Values best_values(const Part& part) {
  const SortedNumbers sorted = in_order(part.numbers);
  Values best;
  double least = std::numeric_limits<double>::infinity();
  const auto offer = [&](const Values& values) {
    const double error = error_of(part.numbers, values);
    if (error < least) {
      least = error;
      best = values;
    }
  };
  for (Values values : starts(part, sorted)) {
    offer(values);
    for (int round = 0; round < kMostRounds; ++round) {
      Values next = means(sorted, values);
      if (next == values) break;
      values = std::move(next);
    }
    offer(values);
  }
  return best;
}

template <typename Number>
Result<CodebookWeights> cluster(std::span<const Number> weights, int bits, int64_t parts) {
  if (bits < 1 || bits > 8) {
    return invalid_input("a codebook of " + std::to_string(bits) + " bits; 1 to 8 are possible");
  }
  MANTISSA_RETURN_IF_ERROR(check_parts(weights.size(), parts));
  MANTISSA_RETURN_IF_ERROR(check_numbers(weights));
  CodebookWeights result;
  const size_t length = weights.size() / static_cast<size_t>(parts);
  MANTISSA_ASSIGN(const MantissaRange range, mantissa_range(bits, RangeConvention::kFull));
  for (size_t begin = 0; begin < weights.size(); begin += length) {
    const Part part = part_of(weights.subspan(begin, length), range);
    const Values values = best_values(part);
    for (const double number : part.numbers) {
      result.indices.push_back(static_cast<uint8_t>(nearest_index(values, number)));
    }
    for (const double value : values) result.values.push_back(std::ldexp(value, part.exponent));
  }
  return result;
}

}  // namespace

Result<CodebookWeights> cluster_weights(std::span<const float> weights, int bits, int64_t parts) {
  return cluster(weights, bits, parts);
}

Result<CodebookWeights> cluster_weights(std::span<const double> weights, int bits, int64_t parts) {
  return cluster(weights, bits, parts);
}

}  // namespace mantissa::quantise
