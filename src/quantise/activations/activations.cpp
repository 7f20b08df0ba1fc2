#include "quantise/activations/activations.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "quantise/kullback_leibler.h"
#include "quantise/weights/weights.h"

namespace mantissa::quantise {
namespace {

using Cells = std::vector<ActivationStatistics::Cell>;

// The input of a fit: grids of one range and offset differ in their scale.
struct Fit {
  const ActivationSettings& settings;
  const ActivationStatistics& statistics;
  Cells cells;
  MantissaRange range;
  double offset;

  // How far a value lies from the offset, on a side that the range has: per mantissa there.
  double needed_scale(double value) const {
    const double distance = value - offset;
    if (distance > 0) return range.hi > 0 ? distance / static_cast<double>(range.hi) : 0;
    return range.lo < 0 ? distance / static_cast<double>(range.lo) : 0;
  }
  LinearGrid grid(double scale) const {
    LinearGrid result{scale, offset, range};
    if (settings.whole_offset) result.offset = std::nearbyint(offset / scale) * scale;
    return result;
  }
};

double error_on(const Cells& cells, bool fine_steps, const LinearGrid& grid) {
  const double low = grid.value(grid.range.lo), high = grid.value(grid.range.hi);
  double error = 0;
  for (const ActivationStatistics::Cell& cell : cells) {
    const double difference = cell.value - grid.quantised(cell.value);
    const bool inside = cell.value >= low && cell.value <= high;
    const double square =
        fine_steps && inside ? grid.scale * grid.scale / 12 : difference * difference;
    error += static_cast<double>(cell.count) * square;
  }
  return error;
}

bool has_fine_steps(const ActivationStatistics& statistics, const LinearGrid& grid) {
  return statistics.has_cells_of_several_numbers() && grid.scale < statistics.width();
}

double scale_of_all(const Fit& fit) {
  return std::max(fit.needed_scale(fit.statistics.maximum()),
                  fit.needed_scale(fit.statistics.minimum()));
}

double percentile_scale(const Fit& fit) {
  std::vector<std::pair<double, uint64_t>> needed;  // with the count of values that need it
  for (const auto& cell : fit.cells) {
    needed.emplace_back(std::max(fit.needed_scale(cell.low), fit.needed_scale(cell.high)),
                        cell.count);
  }
  std::sort(needed.begin(), needed.end());
  const double most =
      std::floor(fit.settings.clipped * static_cast<double>(fit.statistics.count()));
  double clipped = 0, scale = 0;
  for (size_t i = needed.size(); i-- > 0 && needed[i].first > 0;) {
    scale = needed[i].first;
    clipped += static_cast<double>(needed[i].second);
    if (clipped > most) break;
  }
  return scale;
}

double kullback_leibler_scale(const Fit& fit, double all) {
  constexpr int64_t kCells = 2048;
  std::vector<uint64_t> counts(kCells);
  for (const auto& cell : fit.cells) {
    const auto index = static_cast<int64_t>(fit.needed_scale(cell.value) / all * kCells);
    counts[static_cast<size_t>(std::min(index, kCells - 1))] += cell.count;
  }
  const auto cells = static_cast<double>(least_divergence(counts, fit.range.reach() + 1));
  return all * (cells / kCells);
}

double least_squares_scale(const Fit& fit, double all) {
  double best = 0, least = std::numeric_limits<double>::infinity();
  const auto judge = [&](double scale) {
    const LinearGrid grid = fit.grid(scale);
    const double error = error_on(fit.cells, has_fine_steps(fit.statistics, grid), grid);
    if (error < least || (error == least && scale > best)) {
      least = error;
      best = scale;
    }
  };
  const auto offer = [&](double scale) {
    const double below = scale_below(scale, fit.settings.scale_bits);
    const double above = scale_above(scale, fit.settings.scale_bits);
    judge(below);
    if (above != below) judge(above);
  };
  offer(percentile_scale(fit));
  offer(kullback_leibler_scale(fit, all));
  constexpr int kOctaves = 8, kPerOctave = 16;
  for (int octave = 0; octave < kOctaves; ++octave) {
    for (int i = 0; i < kPerOctave; ++i) {
      offer(std::ldexp(all * (1 - i / (2.0 * kPerOctave)), -octave));
    }
  }
  for (const double step : {0x1p-8, 0x1p-12}) {
    const double centre = best;
    for (int i = -16; i <= 16; ++i) offer(centre * (1 + i * step));
  }
  return best;
}

double chosen_scale(const Fit& fit) {
  const double all = scale_of_all(fit);
  if (all == 0) return 1;
  const auto snapped = [&](double scale) { return scale_above(scale, fit.settings.scale_bits); };
  switch (fit.settings.method) {
    case ActivationMethod::kMmse:
      return least_squares_scale(fit, all);
    case ActivationMethod::kMinMax:
      break;
    case ActivationMethod::kPercentile:
      return snapped(percentile_scale(fit));
    case ActivationMethod::kKullbackLeibler:
      return snapped(kullback_leibler_scale(fit, all));
  }
  return snapped(all);
}

Status check(const ActivationStatistics& statistics, const ActivationSettings& settings) {
  if (statistics.not_finite() > 0) {
    return invalid_input(std::to_string(statistics.not_finite()) +
                         " activations of the calibration are not finite");
  }
  if (statistics.count() == 0) return invalid_input("calibration saw no activations");
  if (settings.scale_bits < 1 || settings.scale_bits > 24) {
    return invalid_input("scales of activations of " + std::to_string(settings.scale_bits) +
                         " bits; 1 (powers of two) to 24 (floats) are possible");
  }
  if (!(settings.clipped >= 0 && settings.clipped < 1)) {
    return invalid_input("a part of the activations that may be clipped must be in [0, 1)");
  }
  return {};
}

double chosen_offset(const ActivationStatistics& statistics, const ActivationSettings& settings) {
  if (settings.convention != RangeConvention::kUnsigned || statistics.minimum() >= 0) return 0;
  const double offset =
      settings.offset == OffsetRule::kMinimum ? statistics.minimum() : statistics.mean_of_minima();
  return nearest_scale(offset, 24);  // a float
}

}  // namespace

Result<LinearGrid> fit_activations(const ActivationStatistics& statistics,
                                   const ActivationSettings& settings) {
  MANTISSA_RETURN_IF_ERROR(check(statistics, settings));
  MANTISSA_ASSIGN(const MantissaRange range, mantissa_range(settings.bits, settings.convention));
  const Fit fit{settings, statistics, statistics.cells(), range,
                chosen_offset(statistics, settings)};
  return fit.grid(chosen_scale(fit));
}

double squared_error(const ActivationStatistics& statistics, const LinearGrid& grid) {
  return error_on(statistics.cells(), has_fine_steps(statistics, grid), grid);
}

}  // namespace mantissa::quantise
