// The calibration data of a tensor's values: a histogram. Its memory does not depend on the number
// of values, and their order does not matter.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace mantissa::quantise {

// Cells have a width of 2^exponent: the cell i holds the numbers in [i, i + 1) * width. All numbers
// seen lie in 2^13 cells on each side of zero; when one does not, cells are merged in pairs. The
// cell of a number depends on the final width alone, so that merging statistics commutes.
class ActivationStatistics {
 public:
  static constexpr int kCellBits = 13;
  static constexpr int64_t kCells = int64_t{1} << kCellBits;  // on each side

  // The values of one calibration input, as floats or as mantissas with their exponent (|exponent|
  // up to 128). Values that are not finite are counted, and make later fits fail.
  void add(std::span<const float> values);
  void add(std::span<const int8_t> mantissas, int exponent);
  void add(std::span<const uint8_t> mantissas, int exponent);
  void add(std::span<const int16_t> mantissas, int exponent);

  // As if the values of `other` had been added here.
  void merge(const ActivationStatistics& other);

  uint64_t count() const { return count_; }  // of finite values
  uint64_t not_finite() const { return not_finite_; }
  uint64_t inputs() const { return inputs_; }  // that had a finite value
  double minimum() const { return minimum_; }
  double maximum() const { return maximum_; }

  // The mean of the smallest value of each input (QuantInit [0076], [0130]); exact until the last
  // division, except for the rounding of one sum. 0 if no value was negative, or none was seen.
  double mean_of_minima() const;

  // Cells that are not empty, in ascending order: `value` stands for the numbers in [low, high]. If
  // all values are multiples of the width, which mantissas mostly are, it is the number.
  struct Cell {
    double value;
    double low, high;
    uint64_t count;
  };
  std::vector<Cell> cells() const;
  double width() const;
  // False if each cell holds one number only.
  bool has_cells_of_several_numbers() const;

  static constexpr int64_t kMostBytes = 200 << 10;
  int64_t bytes() const;

  bool operator==(const ActivationStatistics&) const = default;

 private:
  void widen(int exponent);
  void widen_for(double largest);
  uint64_t& cell(int64_t index);
  void end_input(double minimum, double maximum);
  template <typename Mantissa>
  void add_mantissas(std::span<const Mantissa> mantissas, int exponent);

  static constexpr int kSmallestExponent = -149 - kCellBits;
  static constexpr int kAnyNumber = -1000;  // finer than all cells

  int exponent_ = kSmallestExponent;
  int unit_ = 1000;                 // all numbers are multiples of 2^unit
  std::vector<uint64_t> positive_;  // [kCells] or empty: cells 0, 1, ...
  std::vector<uint64_t> negative_;  // [kCells] or empty: cells -1, -2, ...
  uint64_t count_ = 0, not_finite_ = 0, inputs_ = 0;
  double minimum_ = 0, maximum_ = 0;  // of all; 0 if nothing was seen
  std::map<int, __int128> sums_;      // of the minima's 53-bit mantissas, by exponent
};

}  // namespace mantissa::quantise
