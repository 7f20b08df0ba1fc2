// NumPy arrays, and whatever else has a buffer or DLPack, as arrays of the engine.
#pragma once

#include <mantissa/training.h>
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace mantissa::python {

namespace nb = nanobind;

// Reads only, lies in memory, is of any type.
using AnyArray = nb::ndarray<nb::ro, nb::device::cpu>;

// Arrays that Python owns, as the engine takes them. Holds references: nothing is copied.
class BorrowedArrays {
 public:
  // Starts anew, with as many arrays.
  void resize(size_t count);
  // The array at this place. Throws InvalidInput: not an array, not contiguous, a type of elements
  // that the engine does not know, or another number of examples than the first one has.
  void set(size_t place, const std::string& name, nb::handle array);
  // Gives the references back.
  void release();

  const ArraySet& set() const { return set_; }

 private:
  ArraySet set_;
  std::vector<AnyArray> owners_;
};

BorrowedArrays borrow(const std::vector<std::pair<std::string, nb::object>>& arrays);

// Arrays as NumPy's, where they lie: each keeps `memory` alive.
nb::dict arrays_of(const ArraySet& set, const std::shared_ptr<const void>& memory);

// A NumPy array that takes the numbers over.
template <typename T>
nb::object numpy_array(std::vector<T> numbers, const std::vector<size_t>& shape) {
  auto* owned = new std::vector<T>(std::move(numbers));
  const nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, T>(owned->data(), shape.size(), shape.data(), owner));
}

}  // namespace mantissa::python
