// The progress of the engine's work, shown to Python.
#pragma once

#include <mantissa/mantissa.h>
#include <nanobind/nanobind.h>

#include <utility>

#include "callbacks.h"

namespace mantissa::python {

// Shows Python the progress, and looks for its signals.
class Watcher {
 public:
  explicit Watcher(nanobind::object callback) : callback_(std::move(callback)) {}

  bool operator()(const Progress& progress) { return calls_.goes_on(callback_, progress); }

  // The outcome of work with this observer; what Python raised in it is raised again.
  template <typename Work>
  auto watch(const Work& work) {
    auto outcome = released(
        [&] { return work([this](const Progress& progress) { return (*this)(progress); }); });
    calls_.raise_if_failed();
    return outcome;
  }

 private:
  nanobind::object callback_;
  PythonCalls calls_;
};

}  // namespace mantissa::python
