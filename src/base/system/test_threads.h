// For tests: a system that starts no more threads. The test program's pthread_create takes the
// place of the C library's.
#pragma once

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <climits>

namespace mantissa {

inline std::atomic<int> threads_left{INT_MAX};  // that can still be started

// While one lives, only this many more threads can be started.
class ThreadLimit {
 public:
  explicit ThreadLimit(int more) { threads_left = more; }
  ~ThreadLimit() { threads_left = INT_MAX; }
  ThreadLimit(const ThreadLimit&) = delete;
  ThreadLimit& operator=(const ThreadLimit&) = delete;
};

}  // namespace mantissa

extern "C" __attribute__((used)) inline int pthread_create(pthread_t* thread,
                                                           const pthread_attr_t* attributes,
                                                           void* (*start)(void*), void* argument) {
  if (mantissa::threads_left.fetch_sub(1) <= 0) return EAGAIN;
  static const auto real =
      reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  return real(thread, attributes, start, argument);
}
