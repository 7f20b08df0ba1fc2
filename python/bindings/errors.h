// Failures of the engine as Python's exceptions (python/mantissa/errors.py).
#pragma once

#include <mantissa/outcome.h>
#include <nanobind/nanobind.h>

#include <exception>
#include <string>
#include <utility>

namespace mantissa::python {

class EngineError : public std::exception {
 public:
  explicit EngineError(Failure failure) : failure_(std::move(failure)) {}
  const char* what() const noexcept override { return failure_.message.c_str(); }
  Exit exit() const { return failure_.exit; }

 private:
  Failure failure_;
};

// The value, or the failure thrown.
template <typename T>
T value_of(Outcome<T> outcome) {
  if (!outcome) throw EngineError(outcome.failure());
  return std::move(*outcome);
}

void translate_errors();

}  // namespace mantissa::python
