#include "base/system/thread_pool.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <utility>
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

constexpr uint32_t kOpen = uint32_t{1} << 31;

}  // namespace

std::thread try_thread(std::function<void()> work) {
  try {
    return std::thread(std::move(work));
  } catch (const std::exception&) {  // EAGAIN as system_error, or bad_alloc
    return {};
  }
}

// A round is opened by the caller; a worker joins it, takes tasks until none is left, and leaves.
// When no task is left the caller closes the round and waits for those who have joined, so a
// round's fields are never read late. A worker that the system has not let run yet is not waited
// for: on a busy machine the caller does its tasks.
struct ThreadPool::Shared {
  alignas(64) std::atomic<uint32_t> round{0};  // raised to wake the workers
  // Tasks of one worker, which takes them first. Neighbours in one instruction are mostly
  // neighbours in the next, and their results are in that core's cache.
  struct alignas(64) Range {
    std::atomic<int64_t> next{0};
    int64_t end = 0;
  };
  std::vector<Range> ranges;                    // of all workers
  alignas(64) std::atomic<uint32_t> joined{0};  // workers in the round; kOpen: more may join
  Invoke invoke = nullptr;
  void* callable = nullptr;
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;

  explicit Shared(int size) : ranges(size) {}

  bool join() {
    uint32_t now = joined.load(std::memory_order_relaxed);
    while ((now & kOpen) != 0) {
      if (joined.compare_exchange_weak(now, now + 1, std::memory_order_acquire)) return true;
    }
    return false;
  }

  // The last one to leave a closed round wakes the caller.
  void leave() {
    if (joined.fetch_sub(1, std::memory_order_acq_rel) == 1) joined.notify_one();
  }

  // Its own first, then the tasks that the others have left.
  void take_tasks(int worker) {
    const auto count = static_cast<int>(ranges.size());
    for (int i = 0; i < count; ++i) {
      Range& range = ranges[(worker + i) % count];
      if (range.next.load(std::memory_order_relaxed) >= range.end) continue;
      for (int64_t task; (task = range.next.fetch_add(1, std::memory_order_relaxed)) < range.end;) {
        invoke(callable, task, worker);
      }
    }
  }
};

int processors() { return static_cast<int>(std::max(1u, std::thread::hardware_concurrency())); }

ThreadPool::ThreadPool(int threads) : size_(threads < 1 ? 1 : threads), process_(getpid()) {
  if (size_ > 1) start();
}

void ThreadPool::start() {
  shared_ = std::make_unique<Shared>(size_);
  shared_->threads.reserve(size_ - 1);
  for (; threads_ < size_; ++threads_) {
    std::thread thread = try_thread([this, worker = threads_] { work(worker); });
    if (!thread.joinable()) break;
    shared_->threads.push_back(std::move(thread));
  }
}

void ThreadPool::revive() {
  if (shared_ == nullptr || process_ == getpid()) return;
  // Its threads can be neither joined nor destroyed here: their memory is lost.
  static_cast<void>(shared_.release());
  process_ = getpid();
  threads_ = 1;
  start();
}

std::string ThreadPool::shortage() const {
  if (threads_ == size_) return "";
  return "only " + std::to_string(threads_) + " of " + std::to_string(size_) +
         " threads could be started (is there a limit on processes or memory?)";
}

ThreadPool::~ThreadPool() {
  if (shared_ == nullptr) return;
  if (process_ != getpid()) {
    static_cast<void>(shared_.release());
    return;
  }
  shared_->stop.store(true);
  shared_->round.fetch_add(1);
  shared_->round.notify_all();
  for (auto& thread : shared_->threads) thread.join();
}

void ThreadPool::run(int64_t tasks, Invoke invoke, void* callable) {
  Shared& shared = *shared_;
  shared.invoke = invoke;
  shared.callable = callable;
  for (int worker = 0; worker < size_; ++worker) {
    shared.ranges[worker].next.store(tasks * worker / size_, std::memory_order_relaxed);
    shared.ranges[worker].end = tasks * (worker + 1) / size_;
  }
  shared.joined.store(kOpen, std::memory_order_release);
  shared.round.fetch_add(1, std::memory_order_release);
  shared.round.notify_all();
  shared.take_tasks(0);
  shared.joined.fetch_and(~kOpen, std::memory_order_acq_rel);
  for (int spin = 0;; ++spin) {
    const uint32_t joined = shared.joined.load(std::memory_order_acquire);
    if (joined == 0) return;
    if (spin < kSpins) {
      relax();
    } else {
      shared.joined.wait(joined, std::memory_order_acquire);
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
    if (!shared.join()) continue;  // over already
    shared.take_tasks(worker);
    shared.leave();
  }
}

}  // namespace mantissa
