// Python's callbacks while the engine works.
#pragma once

#include <nanobind/nanobind.h>

#include <optional>
#include <utility>

#include "calls.h"

namespace mantissa::python {

// Asks Python whether to go on. An exception that it raises must not pass through the engine: it is
// kept, ends the work, and is raised again behind it.
class PythonCalls {
 public:
  // Whether the callback (None: there is none) did not answer False; false after an exception, and
  // where the interpreter is ending. To be called without the interpreter's lock.
  template <typename Argument>
  bool goes_on(const nanobind::object& callback, const Argument& argument) {
    if (is_ending()) {
      ended_ = true;
      return false;
    }
    const nanobind::gil_scoped_acquire held;
    try {
      // Python sees signals only when it is asked to.
      if (PyErr_CheckSignals() != 0) throw nanobind::python_error();
      return callback.is_none() || !callback(argument).is(nanobind::bool_(false));
    } catch (nanobind::python_error& error) {
      error_.emplace(std::move(error));
      return false;
    }
  }
  // Work that the interpreter's end cut short is not to be taken for done: the thread ends.
  void raise_if_failed() {
    if (ended_) end_thread();
    if (error_) throw nanobind::python_error(std::move(*error_));
  }

 private:
  std::optional<nanobind::python_error> error_;
  bool ended_ = false;
};

}  // namespace mantissa::python
