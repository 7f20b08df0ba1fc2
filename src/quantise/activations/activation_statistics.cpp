#include "quantise/activations/activation_statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace mantissa::quantise {
namespace {

void merge_in_groups(std::vector<uint64_t>& cells, int shift) {
  // After this many shifts all are in the first cell.
  shift = std::min(shift, ActivationStatistics::kCellBits);
  for (size_t i = 1; i < cells.size(); ++i) {
    const uint64_t count = cells[i];
    cells[i] = 0;
    cells[i >> shift] += count;
  }
}

void add_cells(std::vector<uint64_t>& cells, const std::vector<uint64_t>& more) {
  if (more.empty()) return;
  cells.resize(more.size());
  for (size_t i = 0; i < more.size(); ++i) cells[i] += more[i];
}

}  // namespace

void ActivationStatistics::widen(int exponent) {
  if (exponent <= exponent_) return;
  merge_in_groups(positive_, exponent - exponent_);
  merge_in_groups(negative_, exponent - exponent_);
  exponent_ = exponent;
}

void ActivationStatistics::widen_for(double largest) {
  int exponent = kSmallestExponent + kCellBits;
  if (largest > 0) std::frexp(largest, &exponent);  // largest < 2^exponent
  widen(exponent - kCellBits);
}

uint64_t& ActivationStatistics::cell(int64_t index) {
  std::vector<uint64_t>& cells = index >= 0 ? positive_ : negative_;
  if (cells.empty()) cells.resize(kCells);
  return cells[static_cast<size_t>(index >= 0 ? index : -1 - index)];
}

void ActivationStatistics::end_input(double minimum, double maximum) {
  minimum_ = inputs_ == 0 ? minimum : std::min(minimum_, minimum);
  maximum_ = inputs_ == 0 ? maximum : std::max(maximum_, maximum);
  ++inputs_;
  int exponent = 0;
  const double mantissa = std::frexp(minimum, &exponent);
  sums_[exponent] += static_cast<int64_t>(std::ldexp(mantissa, 53));
}

void ActivationStatistics::add(std::span<const float> values) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  double minimum = kInfinity, maximum = -kInfinity;
  uint64_t finite = 0;
  for (const float value : values) {
    if (!std::isfinite(value)) continue;
    minimum = std::min<double>(minimum, value);
    maximum = std::max<double>(maximum, value);
    ++finite;
  }
  not_finite_ += values.size() - finite;
  if (finite == 0) return;
  unit_ = kAnyNumber;
  widen_for(std::max(std::abs(minimum), std::abs(maximum)));
  const double per_cell = std::ldexp(1, -exponent_);
  for (const float value : values) {
    if (std::isfinite(value)) ++cell(static_cast<int64_t>(std::floor(value * per_cell)));
  }
  count_ += finite;
  end_input(minimum, maximum);
}

template <typename Mantissa>
void ActivationStatistics::add_mantissas(std::span<const Mantissa> mantissas, int exponent) {
  if (mantissas.empty()) return;
  const auto [least, most] = std::minmax_element(mantissas.begin(), mantissas.end());
  const double minimum = std::ldexp(*least, exponent), maximum = std::ldexp(*most, exponent);
  unit_ = std::min(unit_, exponent);
  widen_for(std::max(std::abs(minimum), std::abs(maximum)));
  std::vector<uint64_t> counts(static_cast<size_t>(*most - *least) + 1);
  for (const Mantissa mantissa : mantissas) ++counts[static_cast<size_t>(mantissa - *least)];
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    const double value = *least + static_cast<double>(i);
    cell(static_cast<int64_t>(std::floor(std::ldexp(value, exponent - exponent_)))) += counts[i];
  }
  count_ += mantissas.size();
  end_input(minimum, maximum);
}

void ActivationStatistics::add(std::span<const int8_t> mantissas, int exponent) {
  add_mantissas(mantissas, exponent);
}
void ActivationStatistics::add(std::span<const uint8_t> mantissas, int exponent) {
  add_mantissas(mantissas, exponent);
}
void ActivationStatistics::add(std::span<const int16_t> mantissas, int exponent) {
  add_mantissas(mantissas, exponent);
}

void ActivationStatistics::merge(const ActivationStatistics& other) {
  ActivationStatistics more = other;
  const int exponent = std::max(exponent_, more.exponent_);
  widen(exponent);
  more.widen(exponent);
  add_cells(positive_, more.positive_);
  add_cells(negative_, more.negative_);
  unit_ = std::min(unit_, more.unit_);
  if (more.inputs_ > 0) {
    minimum_ = inputs_ == 0 ? more.minimum_ : std::min(minimum_, more.minimum_);
    maximum_ = inputs_ == 0 ? more.maximum_ : std::max(maximum_, more.maximum_);
  }
  count_ += more.count_;
  not_finite_ += more.not_finite_;
  inputs_ += more.inputs_;
  for (const auto& [key, sum] : more.sums_) sums_[key] += sum;
}

double ActivationStatistics::mean_of_minima() const {
  if (inputs_ == 0 || minimum_ >= 0) return 0;
  double total = 0;
  for (const auto& [exponent, sum] : sums_) {
    total += std::ldexp(static_cast<double>(sum), exponent - 53);
  }
  return total / static_cast<double>(inputs_);
}

int64_t ActivationStatistics::bytes() const {
  constexpr size_t kNode = sizeof(std::pair<int, __int128>) + 4 * sizeof(void*);
  return static_cast<int64_t>(sizeof(*this) + sums_.size() * kNode +
                              (positive_.capacity() + negative_.capacity()) * sizeof(uint64_t));
}

double ActivationStatistics::width() const { return std::ldexp(1, exponent_); }

bool ActivationStatistics::has_cells_of_several_numbers() const { return unit_ < exponent_; }

std::vector<ActivationStatistics::Cell> ActivationStatistics::cells() const {
  // From the first number of a cell to its last.
  const double reach =
      has_cells_of_several_numbers() ? width() - std::ldexp(1, std::max(unit_, -1074)) : 0;
  std::vector<Cell> result;
  const auto append = [&](int64_t index, uint64_t count) {
    const double first = std::ldexp(static_cast<double>(index), exponent_);
    const double low = std::clamp(first, minimum_, maximum_);
    const double high = std::clamp(first + reach, minimum_, maximum_);
    if (count > 0) result.push_back({low + (high - low) / 2, low, high, count});
  };
  for (size_t i = negative_.size(); i-- > 0;) append(-1 - static_cast<int64_t>(i), negative_[i]);
  for (size_t i = 0; i < positive_.size(); ++i) append(static_cast<int64_t>(i), positive_[i]);
  return result;
}

}  // namespace mantissa::quantise
