// Arrays of NPZ files, for tests.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "formats/arrays/npz.h"

namespace mantissa {

// A view of the numbers, which outlive it.
template <typename T>
NpyView array_of(const char* name, NpyType type, std::vector<int64_t> shape,
                 const std::vector<T>& numbers) {
  return {name, type, std::move(shape), std::as_bytes(std::span(numbers))};
}

}  // namespace mantissa
