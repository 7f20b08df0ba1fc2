// Everything that a kernel needs besides its operands.
#pragma once

#include <cstddef>
#include <span>

#include "base/system/thread_pool.h"

namespace mantissa {

// Threads to work on, and memory that a kernel may use while it runs: at least what its descriptor
// asked for, aligned to 64 bytes, contents undefined.
struct KernelContext {
  ThreadPool* pool = nullptr;
  std::span<std::byte> scratch;
};

}  // namespace mantissa
