// Messages between the processes of a run.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace mantissa {

using Message = std::vector<std::byte>;

// Messages with one tag from one process, which arrive in the order in which they were sent.
struct Stream {
  int from = 0;
  int tag = 0;
  int64_t most_bytes = 0;  // of a message
  int ahead = 1;           // receives that are posted before their messages come
};

// Where a process is in its work: for messages about one that is no longer heard of.
struct Position {
  int64_t step = -1;  // -1: in none
  int32_t micro_batch = 0;
  int32_t instruction = -1;
};

// One process's endpoint. Messages may be sent and received from any thread.
class Transport {
 public:
  virtual ~Transport() = default;

  virtual int process() const = 0;    // from 0
  virtual int processes() const = 0;  // at least 1

  // Declares a stream, before its first message is received.
  virtual void expect(const Stream& stream) = 0;
  // Returns at once; the message is on its way in the order of the calls.
  virtual void send(int to, int tag, Message message) = 0;
  // Waits for the next message of a stream. Fails if a process is gone, or after close().
  virtual Result<Message> receive(int from, int tag) = 0;

  // From now on nothing is received any more: here, and soon in all processes.
  virtual void close() = 0;

  virtual int64_t bytes_sent() const = 0;

  // Where this process is, for the others' messages about it. Very cheap.
  void set_step(int64_t step) { step_.store(step, std::memory_order_relaxed); }
  void set_micro_batch(int micro_batch) {
    micro_batch_.store(micro_batch, std::memory_order_relaxed);
  }
  std::atomic<int32_t>& instruction() { return instruction_; }
  Position position() const {
    return {step_.load(std::memory_order_relaxed), micro_batch_.load(std::memory_order_relaxed),
            instruction_.load(std::memory_order_relaxed)};
  }

 private:
  std::atomic<int64_t> step_ = -1;
  std::atomic<int32_t> micro_batch_ = 0, instruction_ = -1;
};

}  // namespace mantissa
