// Data sets, loaded from any path that the command line takes.
#include <mantissa/data.h>
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>

#include "core.h"
#include "errors.h"

namespace mantissa::python {
namespace nb = nanobind;
namespace {

nb::dlpack::dtype type_of(Elements elements) {
  switch (elements) {
    case Elements::kUint8:
      return nb::dtype<uint8_t>();
    case Elements::kInt16:
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

// The arrays of a split as NumPy's, where they lie: each keeps the data set alive.
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

LoadedData load(const Settings& settings) {
  return value_of(released([&] { return load_data(settings); }));
}

}  // namespace

void bind_data(nb::module_& module) {
  nb::class_<LoadedData>(module, "LoadedData")
      .def_prop_ro("train", [](const LoadedData& d) { return arrays_of(d.train, d.memory); })
      .def_prop_ro("validation",
                   [](const LoadedData& d) { return arrays_of(d.validation, d.memory); })
      .def_prop_ro("test", [](const LoadedData& d) { return arrays_of(d.test, d.memory); })
      .def_ro("kind", &LoadedData::kind)
      .def_ro("class_names", &LoadedData::class_names)
      .def_ro("notes", &LoadedData::notes)
      .def_ro("table_json", &LoadedData::table_json)
      .def_ro("number_exponent", &LoadedData::number_exponent)
      .def_ro("target_exponent", &LoadedData::target_exponent)
      .def_ro("target_mean", &LoadedData::target_mean)
      .def_ro("target_deviation", &LoadedData::target_deviation);
  module.def("load_data", &load);
}

}  // namespace mantissa::python
