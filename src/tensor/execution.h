// Everything that a kernel needs besides its operands.
#pragma once

#include <cstddef>
#include <span>

#include "base/system/thread_pool.h"

namespace mantissa {

// Threads to work on, and scratch memory for a kernel: at least as much as its descriptor asked
// for, aligned to 64 bytes, contents undefined.
struct KernelContext {
  ThreadPool* pool = nullptr;
  std::span<std::byte> scratch;
};

}  // namespace mantissa
