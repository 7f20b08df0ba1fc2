// The module mantissa._core: the public C++ interface, thinly. What is convenient in Python is
// written in Python, in python/mantissa.
#include "core.h"

#include <nanobind/nanobind.h>

#include "calls.h"
#include "errors.h"

namespace mantissa::python {
namespace nb = nanobind;

void translate_errors() {
  nb::register_exception_translator([](const std::exception_ptr& error, void*) {
    try {
      std::rethrow_exception(error);
    } catch (const EngineError& e) {
      if (e.exit() == Exit::kInterrupted) {
        PyErr_SetString(PyExc_KeyboardInterrupt, e.what());
        return;
      }
      const char* name = e.exit() == Exit::kInvalidInput ? "InvalidInput"
                         : e.exit() == Exit::kOverBudget ? "OverBudget"
                                                         : "Error";
      const nb::object type = nb::module_::import_("mantissa.errors").attr(name);
      PyErr_SetString(type.ptr(), e.what());
    }
  });
}

}  // namespace mantissa::python

NB_MODULE(_core, module) {
  mantissa::python::translate_errors();
  mantissa::python::watch_the_end(module);
  mantissa::python::bind_data(module);
  mantissa::python::bind_networks(module);
  mantissa::python::bind_training(module);
  mantissa::python::bind_commands(module);
  mantissa::python::bind_language(module);
}
