// Either a value, or the reason why there is none. A value whose member `problem` is not kDone is
// there, but not all is well.
#pragma once

#include <optional>
#include <string>
#include <utility>

namespace mantissa {

// The exit codes of the command line, and kinds of errors.
enum class Exit { kDone = 0, kFailed = 1, kInvalidInput = 2, kOverBudget = 3, kInterrupted = 130 };

// The reason, in one line: "network 'digits', node 'conv1' (convolution): ...".
struct Failure {
  Exit exit = Exit::kFailed;
  std::string message;
};

// Nothing but success or failure, as Outcome<Done>.
struct Done {};

template <typename T>
class [[nodiscard]] Outcome {
 public:
  Outcome(T value) : value_(std::move(value)) {}              // NOLINT: implicit
  Outcome(Failure failure) : failure_(std::move(failure)) {}  // NOLINT: implicit
  // From errors of other kinds that failure_of() translates: the library has one.
  template <typename Error>
  requires requires(const Error& error) { failure_of(error); }
  Outcome(const Error& error) : failure_(failure_of(error)) {}  // NOLINT: implicit

  bool ok() const { return value_.has_value(); }
  explicit operator bool() const { return ok(); }
  // The value; only if ok().
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }
  // The reason; empty if ok().
  const std::string& error() const { return failure_.message; }
  const Failure& failure() const { return failure_; }

 private:
  std::optional<T> value_;
  Failure failure_{Exit::kDone, ""};
};

}  // namespace mantissa
