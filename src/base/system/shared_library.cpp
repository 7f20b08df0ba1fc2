#include "base/system/shared_library.h"

#include <dlfcn.h>

namespace mantissa {

SharedLibrary::SharedLibrary(const char* name)
    : name_(name), handle_(dlopen(name, RTLD_NOW | RTLD_LOCAL)) {
  if (handle_ == nullptr) error_ = name_ + " cannot be loaded: " + dlerror();
}

SharedLibrary::Symbol SharedLibrary::find(const char* name) {
  if (handle_ == nullptr) return {nullptr};
  void* address = dlsym(handle_, name);
  if (address == nullptr) error_ = name_ + " has no " + name;
  return {address};
}

}  // namespace mantissa
