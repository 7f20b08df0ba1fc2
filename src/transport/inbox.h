// Messages that have arrived, by stream, until they are taken.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "base/result.h"
#include "transport/transport.h"

namespace mantissa {

class Inbox {
 public:
  void deliver(int from, int tag, Message message);
  // Waits for the next message.
  Result<Message> take(int from, int tag);
  // From now on there is nothing to take. Only the first reason is kept.
  void close(const std::string& why);
  // Whether somebody waits in take().
  bool is_awaited() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::pair<int, int>, std::deque<Message>> arrived_;  // by sender and tag
  int waiting_ = 0;
  bool closed_ = false;
  std::string why_;
};

}  // namespace mantissa
