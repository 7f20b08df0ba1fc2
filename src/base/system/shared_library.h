// A shared library that is loaded when it is first needed, so that nothing else carries it.
#pragma once

#include <string>

namespace mantissa {

// Stays loaded until the process ends.
class SharedLibrary {
 public:
  explicit SharedLibrary(const char* name);

  // Converts to a pointer to any function; nullptr if the library has none of that name.
  struct Symbol {
    void* address;
    template <typename Function>
    operator Function*() const {
      return reinterpret_cast<Function*>(address);
    }
  };
  Symbol find(const char* name);

  // Why it cannot be loaded, or a function that was sought and not found; empty: neither.
  const std::string& error() const { return error_; }

 private:
  std::string name_, error_;
  void* handle_;
};

}  // namespace mantissa
