// Arithmetic on sizes that come from files or users: overflow is reported.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <optional>

namespace mantissa {

// a + b, or nothing if that does not fit.
template <typename T>
std::optional<T> checked_add(T a, T b) {
  T sum;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

// a * b, or nothing if that does not fit.
template <typename T>
std::optional<T> checked_mul(T a, T b) {
  T product;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

// The product of all factors, or nothing if that does not fit. Empty: 1.
template <typename T>
std::optional<T> checked_product(std::initializer_list<T> factors) {
  T product = 1;
  for (const T factor : factors) {
    if (__builtin_mul_overflow(product, factor, &product)) return std::nullopt;
  }
  return product;
}

// n rounded up to a multiple of `multiple` (> 0); the caller knows that it fits.
template <typename T>
constexpr T round_up(T n, T multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

template <typename T>
constexpr T divide_up(T n, T divisor) {
  return (n + divisor - 1) / divisor;
}

}  // namespace mantissa
