// Queues from one stage of a pipeline to another, in the order of the micro-batches.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <vector>

#include "base/result.h"
#include "plan/stages/stages.h"
#include "runtime/executor.h"
#include "transport/transport.h"

namespace mantissa {

// Senders never wait.
class Channel {
 public:
  // The transfer outlives it.
  explicit Channel(const Transfer& transfer) : transfer_(transfer) {}
  virtual ~Channel() = default;

  const Transfer& transfer() const { return transfer_; }

  virtual void send(const Executor& sender, int micro_batch) = 0;
  // Waits for it. Fails if the channel was closed.
  virtual Status receive(Executor& receiver, int micro_batch) = 0;
  // Micro-batches are counted from 0 again.
  virtual void reset() = 0;
  virtual void close() = 0;

 private:
  const Transfer& transfer_;
};

// Between threads. Has room for all that can be under way.
class ThreadChannel : public Channel {
 public:
  ThreadChannel(const Transfer& transfer, const Executor& sender, int capacity);
  void send(const Executor& sender, int micro_batch) override;
  Status receive(Executor& receiver, int micro_batch) override;
  void reset() override { sent_ = 0; }
  void close() override;

 private:
  std::vector<std::vector<std::byte>> passed_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int sent_ = 0;
  bool closed_ = false;
};

// One end of a channel between processes: for sending to, or receiving from, `process`. The
// transport outlives it.
class ProcessChannel : public Channel {
 public:
  // `own` is an executor of this process. `capacity`: micro-batches that may be under way.
  ProcessChannel(const Transfer& transfer, const Executor& own, Transport& transport, int process,
                 int tag, bool receives, int capacity);
  void send(const Executor& sender, int micro_batch) override;
  Status receive(Executor& receiver, int micro_batch) override;
  void reset() override {}
  void close() override {}  // closes with the transport

 private:
  Transport& transport_;
  int process_, tag_;
  size_t bytes_;
};

}  // namespace mantissa
