#pragma once

#include <nanobind/nanobind.h>

namespace mantissa::python {

void bind_data(nanobind::module_& module);
void bind_networks(nanobind::module_& module);
void bind_training(nanobind::module_& module);
void bind_commands(nanobind::module_& module);
void bind_language(nanobind::module_& module);

}  // namespace mantissa::python
