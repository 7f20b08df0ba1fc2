// A queue from one stage of a pipeline to another, in the order of the micro-batches.
#pragma once

#include <condition_variable>
#include <mutex>
#include <vector>

#include "plan/stages.h"
#include "runtime/executor.h"

namespace mantissa {

// Holds as many as can be under way, so that the sender never waits.
class Channel {
 public:
  // The transfer outlives it.
  Channel(const Transfer& transfer, const Executor& sender, int capacity)
      : transfer_(transfer), passed_(capacity, sender.make_room(transfer)) {}

  const Transfer& transfer() const { return transfer_; }

  void send(const Executor& sender, int micro_batch) {
    sender.pass_on(transfer_, passed_[micro_batch % passed_.size()]);
    const std::lock_guard lock(mutex_);
    sent_ = micro_batch + 1;
    changed_.notify_all();
  }

  // Waits for it. False: the channel was closed.
  bool receive(Executor& receiver, int micro_batch) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return sent_ > micro_batch || closed_; });
      if (sent_ <= micro_batch) return false;
    }
    receiver.receive(transfer_, passed_[micro_batch % passed_.size()]);
    return true;
  }

  // Micro-batches are counted from 0 again.
  void reset() { sent_ = 0; }

  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

 private:
  const Transfer& transfer_;
  std::vector<Executor::Passed> passed_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int sent_ = 0;
  bool closed_ = false;
};

}  // namespace mantissa
