#include "base/thread_pool.h"

#include <atomic>
#include <thread>
#include <vector>

namespace mantissa {
namespace {

// About 20 microseconds of polling before a worker sleeps: longer than the gap between two
// instructions of a step, short enough not to steal a core from another process.
constexpr int kSpins = 2000;

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

}  // namespace

// A round is published by raising `round`; a worker joins it, takes tasks until none is left, and
// leaves. The caller waits until all workers have left, so a round's fields are never read late.
struct ThreadPool::Shared {
  alignas(64) std::atomic<uint32_t> round{0};
  alignas(64) std::atomic<int64_t> next_task{0};
  alignas(64) std::atomic<int> working{0};
  int64_t tasks = 0;
  Invoke invoke = nullptr;
  void* callable = nullptr;
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
};

ThreadPool::ThreadPool(int threads)
    : size_(threads < 1 ? 1 : threads), shared_(std::make_unique<Shared>()) {
  shared_->threads.reserve(size_ - 1);
  for (int worker = 1; worker < size_; ++worker) {
    shared_->threads.emplace_back([this, worker] { work(worker); });
  }
}

ThreadPool::~ThreadPool() {
  shared_->stop.store(true);
  shared_->round.fetch_add(1);
  shared_->round.notify_all();
  for (auto& thread : shared_->threads) thread.join();
}

void ThreadPool::run(int64_t tasks, Invoke invoke, void* callable) {
  Shared& shared = *shared_;
  shared.tasks = tasks;
  shared.invoke = invoke;
  shared.callable = callable;
  shared.next_task.store(0, std::memory_order_relaxed);
  shared.working.store(size_ - 1, std::memory_order_relaxed);
  shared.round.fetch_add(1, std::memory_order_release);
  shared.round.notify_all();
  for (int64_t task; (task = shared.next_task.fetch_add(1, std::memory_order_relaxed)) < tasks;) {
    invoke(callable, task, 0);
  }
  for (int spin = 0;; ++spin) {
    const int working = shared.working.load(std::memory_order_acquire);
    if (working == 0) return;
    if (spin < kSpins) {
      relax();
    } else {
      shared.working.wait(working, std::memory_order_acquire);
    }
  }
}

void ThreadPool::work(int worker) {
  Shared& shared = *shared_;
  uint32_t seen = 0;
  while (true) {
    for (int spin = 0; shared.round.load(std::memory_order_acquire) == seen; ++spin) {
      if (spin < kSpins) {
        relax();
      } else {
        shared.round.wait(seen, std::memory_order_acquire);
      }
    }
    seen = shared.round.load(std::memory_order_acquire);
    if (shared.stop.load(std::memory_order_acquire)) return;
    for (int64_t task;
         (task = shared.next_task.fetch_add(1, std::memory_order_relaxed)) < shared.tasks;) {
      shared.invoke(shared.callable, task, worker);
    }
    if (shared.working.fetch_sub(1, std::memory_order_acq_rel) == 1) shared.working.notify_one();
  }
}

}  // namespace mantissa
