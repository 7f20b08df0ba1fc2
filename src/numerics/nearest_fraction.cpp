#include "numerics/nearest_fraction.h"

#include <cmath>

namespace mantissa {

Fraction nearest_fraction(double number, int64_t largest) {
  Fraction before = {1, 0}, last = {static_cast<int64_t>(number), 1};
  double rest = number - static_cast<double>(last.numerator);
  // Below that a rest is the rounding of the number itself.
  while (rest > static_cast<double>(last.denominator) * 0x1p-50) {
    const double inverse = 1 / rest;
    if (inverse > static_cast<double>(largest)) break;
    const auto whole = static_cast<int64_t>(inverse);
    const Fraction next = {whole * last.numerator + before.numerator,
                           whole * last.denominator + before.denominator};
    if (next.denominator > largest) break;
    before = last, last = next;
    rest = inverse - static_cast<double>(whole);
  }
  return last;
}

int64_t nearest_whole(double number, int64_t units) {
  return std::llrint(number * static_cast<double>(units));
}

}  // namespace mantissa
