#include "transport/inbox.h"

namespace mantissa {

void Inbox::deliver(int from, int tag, Message message) {
  {
    const std::lock_guard lock(mutex_);
    arrived_[{from, tag}].push_back(std::move(message));
  }
  changed_.notify_all();
}

Result<Message> Inbox::take(int from, int tag) {
  std::unique_lock lock(mutex_);
  std::deque<Message>& arrived = arrived_[{from, tag}];
  ++waiting_;
  changed_.wait(lock, [&] { return !arrived.empty() || closed_; });
  --waiting_;
  if (closed_) return failed(why_);
  Message message = std::move(arrived.front());
  arrived.pop_front();
  return message;
}

void Inbox::close(const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    if (!closed_) why_ = why;
    closed_ = true;
  }
  changed_.notify_all();
}

bool Inbox::is_awaited() const {
  const std::lock_guard lock(mutex_);
  return waiting_ > 0;
}

}  // namespace mantissa
