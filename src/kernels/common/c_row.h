// Functions of the reference as rows of kernel tables.
#pragma once

#include <cstdint>
#include <type_traits>

namespace mantissa::kernels {

// In a table constant structures are passed by reference, in C by pointer. What is written, or may
// be null, is a pointer in both.
template <typename T>
using ByReference =
    std::conditional_t<std::is_pointer_v<T> && std::is_class_v<std::remove_pointer_t<T>> &&
                           std::is_const_v<std::remove_pointer_t<T>>,
                       std::add_lvalue_reference_t<std::remove_pointer_t<T>>, T>;

template <typename T>
constexpr T as_argument(ByReference<T> argument) {
  if constexpr (std::is_same_v<T, ByReference<T>>) {
    return argument;
  } else {
    return &argument;
  }
}

template <auto kFunction>
struct CRow;
template <typename Result, typename... Arguments, Result (*kFunction)(Arguments...) noexcept>
struct CRow<kFunction> {
  static Result run(ByReference<Arguments>... arguments) noexcept {
    return kFunction(as_argument<Arguments>(arguments)...);
  }
};

// c_row<ref_requantise> is a function for the table.
template <auto kFunction>
constexpr auto c_row = CRow<kFunction>::run;

}  // namespace mantissa::kernels
