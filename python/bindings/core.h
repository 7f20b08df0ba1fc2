#pragma once

#include <nanobind/nanobind.h>

namespace mantissa::python {

// Does the work with the interpreter free for other threads.
template <typename Work>
auto released(const Work& work) {
  const nanobind::gil_scoped_release free;
  return work();
}

void bind_data(nanobind::module_& module);
void bind_networks(nanobind::module_& module);
void bind_training(nanobind::module_& module);
void bind_commands(nanobind::module_& module);

}  // namespace mantissa::python
