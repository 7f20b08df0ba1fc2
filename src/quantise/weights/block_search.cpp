#include "quantise/weights/block_search.h"

#include <array>
#include <cmath>

namespace mantissa::quantise {
namespace {

// A block of numbers with their weights, and the best grid so far.
class Search {
 public:
  Search(BlockKind kind, std::span<const double> numbers, std::span<const double> weights)
      : kind_(kind), steps_(block_steps(kind)), numbers_(numbers), weights_(weights) {
    consider(whole_grid(kind, numbers));
  }

  // Scales by which the number of the largest magnitude is `from`, `from` + 1/4 ... steps from 0.
  void try_scales(double largest, double from, double to) {
    for (double place = from; place <= to; place += 0.25) consider(fitted({largest / place, 0}));
  }

  // Scales by which the range has `from`, `from` + 1/2 ... steps, around its middle.
  void try_ranges(double low, double high, double from, double to) {
    for (double place = from; place <= to; place += 0.5) {
      const double scale = (high - low) / place;
      consider(fitted({scale, (low + high - scale * steps_.high) / 2}));
    }
  }

  const BlockGrid& best() const { return best_; }

 private:
  void consider(const BlockGrid& grid) {
    double error = 0;
    for (size_t i = 0; i < numbers_.size(); ++i) {
      const double rest = numbers_[i] - block_number(nearest_step(numbers_[i], grid, steps_), grid);
      error += weights_[i] * rest * rest;
    }
    if (has_one_ && error >= error_) return;
    has_one_ = true;
    error_ = error;
    best_ = grid;
  }

  // The grid that fits the steps which the numbers get on another one.
  BlockGrid fitted(const BlockGrid& grid) const {
    double count = 0, steps = 0, squares = 0, sum = 0, products = 0;
    for (size_t i = 0; i < numbers_.size(); ++i) {
      const double step = nearest_step(numbers_[i], grid, steps_), weighted = weights_[i] * step;
      count += weights_[i];
      steps += weighted;
      squares += weighted * step;
      sum += weights_[i] * numbers_[i];
      products += weighted * numbers_[i];
    }
    if (kind_ != BlockKind::kQ4_1) return squares == 0 ? grid : near(products / squares, 0);
    const double spread = count * squares - steps * steps;
    if (spread <= 0) return near(grid.scale, grid.least);
    const double scale = (count * products - steps * sum) / spread;
    return near(scale, (sum - scale * steps) / count);
  }
  static BlockGrid near(double scale, double least) { return {near_half(scale), near_half(least)}; }

  BlockKind kind_;
  BlockSteps steps_;
  std::span<const double> numbers_, weights_;
  BlockGrid best_;
  double error_ = 0;
  bool has_one_ = false;
};

}  // namespace

BlockGrid least_squares_grid(BlockKind kind, std::span<const double> numbers,
                             std::span<const double> weights) {
  Search search(kind, numbers, weights);
  const auto [low, high] = std::minmax_element(numbers.begin(), numbers.end());
  const double largest = std::abs(*low) > *high ? *low : *high;
  if (largest == 0 || kind == BlockKind::kQ8_0) return search.best();
  if (kind == BlockKind::kQ4_1) {
    search.try_ranges(*low, *high, 12.5, 17);
  } else {
    // Larger groups, and fewer steps, are better clipped more.
    const double clipped = kind == BlockKind::kQ4_0 ? 1.5 : 4;
    const auto [least, most] = block_steps(kind);
    search.try_scales(largest, least - clipped, least + 2.5);
    search.try_scales(largest, most - 1.5, most + clipped);
  }
  return search.best();
}

}  // namespace mantissa::quantise
