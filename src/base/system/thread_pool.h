// A pool of persistent worker threads; an object, not a global.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>

namespace mantissa {

// The number of processors, at least 1: the default number of threads.
int processors();

// Starts a thread; none if the system gives no more (limits on processes, no memory for its stack).
// The caller then does the work without it.
std::thread try_thread(std::function<void()> work);

// Runs the tasks of one parallel_for at a time. The calling thread works too, so a pool of size 1
// has no thread of its own, allocates nothing, and any number of threads may use it. Others
// allocate nothing after construction.
class ThreadPool {
 public:
  // threads >= 1. If the system gives fewer, the pool works with those. size() stays the requested
  // number, since memory is planned for it, and others do the missing threads' tasks.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return size_; }

  // The number of threads that exist, with the calling one.
  int threads() const { return threads_; }

  // In a process that was forked since: starts the threads, which only the parent has. Nobody
  // may fork while a parallel_for is running.
  void revive();

  // A line for people if there are fewer threads than requested, else "".
  std::string shortage() const;

  // Calls function(task, worker) once for each task in [0, tasks), worker in [0, size()), and
  // returns when all are done. Which worker gets which task is not fixed: results must not depend
  // on it. Must not be nested; `function` must not throw.
  template <typename Function>
  void parallel_for(int64_t tasks, Function&& function) {
    if (size_ == 1 || tasks <= 1) {
      for (int64_t task = 0; task < tasks; ++task) function(task, 0);
      return;
    }
    using Callable = std::remove_reference_t<Function>;
    run(
        tasks,
        [](void* callable, int64_t task, int worker) {
          (*static_cast<Callable*>(callable))(task, worker);
        },
        const_cast<void*>(static_cast<const void*>(&function)));
  }

 private:
  using Invoke = void (*)(void* callable, int64_t task, int worker);
  struct Shared;

  void run(int64_t tasks, Invoke invoke, void* callable);
  void work(int worker);

  void start();

  int size_;
  int threads_ = 1;
  int process_;                     // the process that started the threads
  std::unique_ptr<Shared> shared_;  // null: size 1
};

}  // namespace mantissa
