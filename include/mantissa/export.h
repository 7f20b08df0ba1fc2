// The symbols that the shared library shows.
//
// Mark every function of a public header that is defined in src/, and every class that has such
// members, with MANTISSA_EXPORT: MANTISSA_EXPORT int f(int x); class MANTISSA_EXPORT Network {...};
#pragma once

// All other symbols are hidden (cmake/compile_options.cmake); tests/installed_test.sh compares.
#define MANTISSA_EXPORT __attribute__((visibility("default")))
