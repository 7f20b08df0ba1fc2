// Errors as values. Library code returns Result<T> or Status; it never prints, exits or aborts.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>

namespace mantissa {

// The kind of a failure; the command line turns it into an exit code.
enum class ErrorCode {
  kInvalidInput,  // bad flag, bad file, bad value: exit code 2
  kOverBudget,    // does not fit the memory budget: exit code 3
  kInterrupted,   // stopped by the user, state saved: exit code 130
  kFailed,        // anything else: exit code 1
};

// Where an error arose (clang 14 has no std::source_location).
struct SourceLocation {
  const char* file = "";
  int line = 0;
  static constexpr SourceLocation current(const char* file = __builtin_FILE(),
                                          int line = __builtin_LINE()) {
    return {file, line};
  }
};

// One line that a person understands, the place of the error, and its kind.
struct Error {
  ErrorCode code = ErrorCode::kFailed;
  std::string message;
  SourceLocation where;
};

inline Error make_error(ErrorCode code, std::string message,
                        SourceLocation where = SourceLocation::current()) {
  return Error{code, std::move(message), where};
}

inline Error invalid_input(std::string message, SourceLocation where = SourceLocation::current()) {
  return make_error(ErrorCode::kInvalidInput, std::move(message), where);
}

inline Error failed(std::string message, SourceLocation where = SourceLocation::current()) {
  return make_error(ErrorCode::kFailed, std::move(message), where);
}

// Either a T or an Error (C++20 has no std::expected).
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& value() { return std::get<0>(state_); }
  const T& value() const { return std::get<0>(state_); }
  T& operator*() { return value(); }
  const T& operator*() const { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  Error& error() { return std::get<1>(state_); }
  const Error& error() const { return std::get<1>(state_); }

 private:
  std::variant<T, Error> state_;
};

// Success without a value, or an Error.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)), ok_(false) {}  // NOLINT: implicit

  bool ok() const { return ok_; }
  explicit operator bool() const { return ok_; }
  Error& error() { return error_; }
  const Error& error() const { return error_; }

 private:
  Error error_;
  bool ok_ = true;
};

using Status = Result<void>;

}  // namespace mantissa

// Returns the error of `expression` (a Result or Status) from the enclosing function, if any.
#define MANTISSA_RETURN_IF_ERROR(expression)                        \
  do {                                                              \
    if (auto mantissa_status = (expression); !mantissa_status.ok()) \
      return std::move(mantissa_status.error());                    \
  } while (false)

#define MANTISSA_CONCAT_INNER(a, b) a##b
#define MANTISSA_CONCAT(a, b) MANTISSA_CONCAT_INNER(a, b)

// Declares `declaration` from the value of `expression` (a Result), or returns its error.
#define MANTISSA_ASSIGN(declaration, expression)                           \
  auto MANTISSA_CONCAT(mantissa_result_, __LINE__) = (expression);         \
  if (!MANTISSA_CONCAT(mantissa_result_, __LINE__).ok())                   \
    return std::move(MANTISSA_CONCAT(mantissa_result_, __LINE__).error()); \
  declaration = std::move(*MANTISSA_CONCAT(mantissa_result_, __LINE__))
