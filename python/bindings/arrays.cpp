#include "arrays.h"

#include <optional>

#include "errors.h"

namespace mantissa::python {
namespace {

std::optional<Elements> elements_of(const nb::dlpack::dtype& type) {
  if (type == nb::dtype<uint8_t>()) return Elements::kUint8;
  if (type == nb::dtype<int16_t>()) return Elements::kInt16;
  if (type == nb::dtype<int32_t>()) return Elements::kInt32;
  if (type == nb::dtype<int64_t>()) return Elements::kInt64;
  if (type == nb::dtype<float>()) return Elements::kFloat;
  if (type == nb::dtype<double>()) return Elements::kDouble;
  return {};
}

nb::dlpack::dtype type_of(Elements elements) {
  switch (elements) {
    case Elements::kUint8:
      return nb::dtype<uint8_t>();
    case Elements::kInt16:
    case Elements::kMantissa:
      return nb::dtype<int16_t>();
    case Elements::kInt32:
      return nb::dtype<int32_t>();
    case Elements::kInt64:
      return nb::dtype<int64_t>();
    case Elements::kFloat:
      return nb::dtype<float>();
    case Elements::kDouble:
      break;
  }
  return nb::dtype<double>();
}

bool is_contiguous(const AnyArray& array) {
  int64_t stride = 1;
  for (size_t axis = array.ndim(); axis-- > 0;) {
    if (array.shape(axis) != 1 && array.stride(axis) != stride) return false;
    stride *= static_cast<int64_t>(array.shape(axis));
  }
  return true;
}

}  // namespace

void BorrowedArrays::resize(size_t count) {
  set_.arrays.resize(count);
  owners_.resize(count);
}

void BorrowedArrays::set(size_t place, const std::string& name, nb::handle array) {
  AnyArray& owner = owners_[place];
  if (!nb::try_cast(array, owner, false) || !owner.is_valid()) {
    throw EngineError({Exit::kInvalidInput, "'" + name + "' is no array in memory"});
  }
  const auto elements = elements_of(owner.dtype());
  if (!elements) {
    throw EngineError(
        {Exit::kInvalidInput, "'" + name +
                                  "': elements must be uint8, int16, int32, int64, float32 or "
                                  "float64; astype() converts others"});
  }
  if (owner.ndim() == 0) {
    throw EngineError({Exit::kInvalidInput, "'" + name +
                                                "' is a single number; the first axis "
                                                "of an array counts examples"});
  }
  if (!is_contiguous(owner)) {
    throw EngineError({Exit::kInvalidInput, "'" + name +
                                                "' is not contiguous; "
                                                "numpy.ascontiguousarray() copies it"});
  }
  const auto count = static_cast<int64_t>(owner.shape(0));
  if (place == 0) set_.count = count;
  if (count != set_.count) {
    throw EngineError({Exit::kInvalidInput, "'" + name + "' has " + std::to_string(count) +
                                                " examples, and '" + set_.arrays[0].name +
                                                "' has " + std::to_string(set_.count)});
  }
  Array& to = set_.arrays[place];
  if (to.name != name) to.name = name;
  to.elements = *elements;
  // mantissas() of the package marks them: other whole numbers are numbers.
  if (*elements == Elements::kInt16 && nb::hasattr(array, "_is_mantissas")) {
    to.elements = Elements::kMantissa;
  }
  to.data = owner.data();
  to.dims.resize(owner.ndim() - 1);
  for (size_t axis = 1; axis < owner.ndim(); ++axis) {
    to.dims[axis - 1] = static_cast<int64_t>(owner.shape(axis));
  }
}

void BorrowedArrays::release() {
  for (AnyArray& owner : owners_) owner = {};
}

BorrowedArrays borrow(const std::vector<std::pair<std::string, nb::object>>& arrays) {
  BorrowedArrays borrowed;
  borrowed.resize(arrays.size());
  for (size_t i = 0; i < arrays.size(); ++i) borrowed.set(i, arrays[i].first, arrays[i].second);
  return borrowed;
}

nb::dict arrays_of(const ArraySet& split, const std::shared_ptr<const void>& memory) {
  using Owner = std::shared_ptr<const void>;
  nb::dict arrays;
  for (const Array& array : split.arrays) {
    std::vector<size_t> shape{static_cast<size_t>(split.count)};
    shape.insert(shape.end(), array.dims.begin(), array.dims.end());
    const nb::capsule owner(new Owner(memory),
                            [](void* p) noexcept { delete static_cast<Owner*>(p); });
    arrays[array.name.c_str()] = nb::cast(nb::ndarray<nb::numpy, nb::ro>(
        array.data, shape.size(), shape.data(), owner, nullptr, type_of(array.elements)));
  }
  return arrays;
}

}  // namespace mantissa::python
