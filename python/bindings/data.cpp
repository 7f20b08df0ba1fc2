// Data sets, loaded from any path that the command line takes.
#include <mantissa/data.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "arrays.h"
#include "calls.h"
#include "core.h"
#include "errors.h"

namespace mantissa::python {
namespace nb = nanobind;
namespace {

LoadedData load(const Settings& settings) {
  return value_of(released([&] { return load_data(settings); }));
}

}  // namespace

void bind_data(nb::module_& module) {
  nb::class_<LoadedData>(module, "LoadedData")
      .def("__repr__",
           [](const LoadedData& d) {
             return "<" + d.kind + ": " + std::to_string(d.train.count) + " training examples>";
           })
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
  module.def("load_data", &load, nb::arg("settings"));
}

}  // namespace mantissa::python
