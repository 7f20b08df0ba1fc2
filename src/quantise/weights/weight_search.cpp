#include "quantise/weights/weight_search.h"

#include <limits>

#include "quantise/weights/weights.h"

namespace mantissa::quantise {
namespace {

constexpr int kMostSearches = 40;
constexpr int64_t kMostForAllIntervals = 512;
// 2^(-i/4).
constexpr double kQuarterOctaves[] = {1, 0.84089641525371454303, 0.70710678118654752440,
                                      0.59460355750136053336};

// The best scale for mantissas, and its reduction of the sum of squares: <w, q>^2 / <q, q>.
struct Fit {
  double scale = 0;  // 0 if all mantissas are 0
  double gain = 0;
};

// The numbers in order, so that all with one mantissa are a run, with the sums before each. Signs
// do not matter if the range is symmetric.
class SortedPart {
 public:
  explicit SortedPart(const Part& part)
      : range_(part.range), numbers_(part.numbers), sums_(part.numbers.size() + 1) {
    if (range_.lo == -range_.hi) {
      for (double& w : numbers_) w = std::abs(w);
    }
    std::sort(numbers_.begin(), numbers_.end());
    for (size_t i = 0; i < numbers_.size(); ++i) sums_[i + 1] = sums_[i] + numbers_[i];
  }

  // For the mantissas that a scale gives.
  Fit fit_of(double scale) const {
    double products = 0, squares = 0;
    for (auto from = numbers_.begin(); from != numbers_.end();) {
      const int64_t mantissa = nearest_mantissa(*from / scale, range_);
      const auto to = end_of_run(from, mantissa, scale);
      const auto begin = static_cast<size_t>(from - numbers_.begin());
      const auto end = static_cast<size_t>(to - numbers_.begin());
      const auto q = static_cast<double>(mantissa);
      products += q * (sums_[end] - sums_[begin]);
      squares += q * q * static_cast<double>(end - begin);
      from = to;
    }
    if (!(products > 0)) return {};
    return {products / squares, products * products / squares};
  }

 private:
  using Position = std::vector<double>::const_iterator;

  // The position after the last number with this mantissa; never `from` itself, whose mantissa it
  // is.
  Position end_of_run(Position from, int64_t mantissa, double scale) const {
    if (mantissa >= range_.hi) return numbers_.end();
    const double middle =
        (static_cast<double>(mantissa) + static_cast<double>(range_.step) / 2) * scale;
    // Ties go to the even mantissa. Runs are short if there are many mantissas: so it goes twice as
    // far in each step, then bisects.
    const bool even = mantissa % 2 == 0;
    const auto inside = [&](double w) { return even ? w <= middle : w < middle; };
    std::ptrdiff_t step = 1;
    auto low = from + 1;
    while (numbers_.end() - low > step && inside(low[step - 1])) {
      low += step;
      step *= 2;
    }
    return std::partition_point(low, low + std::min(step, numbers_.end() - low), inside);
  }

  MantissaRange range_;
  std::vector<double> numbers_;
  std::vector<double> sums_;
};

// Candidates come in any order; the best stays, of equal errors the larger scale.
class Best {
 public:
  Best(const Part& part, int scale_bits) : part_(part), scale_bits_(scale_bits) {}

  void offer(double scale) {
    const double below = scale_below(scale, scale_bits_), above = scale_above(scale, scale_bits_);
    judge(below);
    if (above != below) judge(above);
  }
  double scale() const { return scale_; }

 private:
  void judge(double scale) {
    double error = 0;
    for (const double w : part_.numbers) {
      const auto q = static_cast<double>(nearest_mantissa(w / scale, part_.range));
      const double difference = w - scale * q;
      error += difference * difference;
    }
    if (error < error_ || (error == error_ && scale > scale_)) {
      error_ = error;
      scale_ = scale;
    }
  }

  const Part& part_;
  int scale_bits_;
  double scale_ = 0;
  double error_ = std::numeric_limits<double>::infinity();
};

// Alternates mantissas and scale until neither changes.
void alternate(const SortedPart& sorted, double scale, Best& best) {
  for (int round = 0; round < kMostSearches; ++round) {
    const double next = sorted.fit_of(scale).scale;
    if (next == 0 || next == scale) break;
    scale = next;
  }
  best.offer(scale);
}

// Alternating has many minima close together. It therefore starts from one of many scales around
// `centre`: the one whose mantissas fit best.
void search_around(const SortedPart& sorted, double centre, double step, Best& best) {
  constexpr int kScales = 32;  // on each side
  double start = centre, gain = 0;
  for (int i = -kScales; i <= kScales; ++i) {
    const double scale = centre * (1 + i * step);
    const double found = sorted.fit_of(scale).gain;
    if (found > gain) {
      gain = found;
      start = scale;
    }
  }
  alternate(sorted, start, best);
}

// One scale inside each interval of scales that give the same mantissas.
std::vector<double> inside_all_intervals(const Part& part) {
  std::vector<double> ends = {0};
  for (const double w : part.numbers) {
    const int64_t reach = w > 0 ? part.range.hi : -part.range.lo;
    for (int64_t q = 0; q < reach && w != 0; ++q) {
      ends.push_back(std::abs(w) / (static_cast<double>(q) + 0.5));
    }
  }
  std::sort(ends.begin(), ends.end());
  std::vector<double> inside;
  for (size_t i = 1; i < ends.size(); ++i) inside.push_back((ends[i - 1] + ends[i]) / 2);
  return inside;
}

}  // namespace

double uniform_scale(const Part& part) {
  double scale = 0;
  for (const double w : part.numbers) {
    const int64_t reach = w > 0 ? part.range.hi : -part.range.lo;
    if (part.size(w) > 0) scale = std::max(scale, std::abs(w) / static_cast<double>(reach));
  }
  return scale;
}

double least_squares_scale(const Part& part, int scale_bits) {
  const SortedPart sorted(part);
  Best best(part, scale_bits);
  const double uniform = uniform_scale(part);
  for (int quarter = -4; quarter < 24; ++quarter) {
    const int octave = (quarter + 4) / 4;
    const double start = std::ldexp(uniform * kQuarterOctaves[(quarter + 4) % 4], 1 - octave);
    best.offer(start);
    alternate(sorted, start, best);
  }
  for (const double step : {0x1p-7, 0x1p-10, 0x1p-13}) {
    search_around(sorted, best.scale(), step, best);
  }
  const int64_t reach = std::max(part.range.hi, -part.range.lo);
  if (static_cast<int64_t>(part.numbers.size()) * reach <= kMostForAllIntervals) {
    for (const double scale : inside_all_intervals(part)) {
      const double found = sorted.fit_of(scale).scale;
      if (found != 0) best.offer(found);
    }
  }
  return best.scale();
}

}  // namespace mantissa::quantise
