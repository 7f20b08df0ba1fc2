#include "quantise/kullback_leibler.h"

#include <cmath>
#include <limits>
#include <vector>

#include "quantise/elementary.h"

namespace mantissa::quantise {
namespace {

// Sums over the cells before each.
struct Prefix {
  std::vector<double> counts, filled;
  std::vector<double> entropy;  // of c * ln c
};

double times_logarithm(double count) { return count > 0 ? count * natural_logarithm(count) : 0; }

Prefix prefix_sums(std::span<const uint64_t> counts) {
  Prefix sums;
  sums.counts = sums.filled = sums.entropy = std::vector<double>(counts.size() + 1);
  for (size_t i = 0; i < counts.size(); ++i) {
    const auto count = static_cast<double>(counts[i]);
    sums.counts[i + 1] = sums.counts[i] + count;
    sums.filled[i + 1] = sums.filled[i] + (count > 0 ? 1 : 0);
    sums.entropy[i + 1] = sums.entropy[i] + times_logarithm(count);
  }
  return sums;
}

// The count for an empty cell, if Q needs one (Apache MXNet smooths by as many).
constexpr double kEmptyCell = 1e-4;

// sum P ln (P / Q) with P and Q divided by their sums.
double divergence(std::span<const uint64_t> counts, const Prefix& sums, size_t cells,
                  size_t levels) {
  const double total = sums.counts.back(), inside = sums.counts[cells];
  const double outside = total - inside;
  const auto last = static_cast<double>(counts[cells - 1]);
  if (inside == 0) return std::numeric_limits<double>::infinity();
  // Over P: sum p ln p; the last cell has the numbers beyond.
  const double own = sums.entropy[cells - 1] + times_logarithm(last + outside);
  // Over P: sum p ln q; q is the same in all of a run's cells that are not empty.
  double cross = 0;
  for (size_t run = 0; run < levels; ++run) {
    const size_t from = run * cells / levels, to = (run + 1) * cells / levels;
    const double count = sums.counts[to] - sums.counts[from];
    if (count == 0) continue;
    const double height = natural_logarithm(count / (sums.filled[to] - sums.filled[from]));
    cross += count * height;
    if (to == cells && last > 0) cross += outside * height;
  }
  if (last == 0) cross += outside * natural_logarithm(kEmptyCell);
  return (own - cross) / total - natural_logarithm(total / inside);
}

}  // namespace

int64_t least_divergence(std::span<const uint64_t> counts, int64_t levels) {
  const auto cells = static_cast<int64_t>(counts.size());
  if (levels >= cells) return cells;
  const Prefix sums = prefix_sums(counts);
  if (sums.counts.back() == 0) return cells;
  int64_t best = cells;
  double least = std::numeric_limits<double>::infinity();
  for (int64_t i = cells; i >= levels; --i) {
    const double found =
        divergence(counts, sums, static_cast<size_t>(i), static_cast<size_t>(levels));
    if (found < least) {
      least = found;
      best = i;
    }
  }
  return best;
}

}  // namespace mantissa::quantise
