#include "cli/http/worker.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <system_error>
#include <utility>

namespace mantissa::cli {

HttpWorker::HttpWorker() : event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  try {
    thread_ = std::thread([this] { loop(); });
  } catch (const std::system_error&) {  // a limit on threads
  }
}

HttpWorker::~HttpWorker() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
  if (event_ >= 0) close(event_);
}

void HttpWorker::add(std::function<void()> work) {
  if (!has_thread()) return work();
  {
    const std::lock_guard lock(mutex_);
    work_.push_back(std::move(work));
  }
  changed_.notify_one();
}

void HttpWorker::signal() { (void)!eventfd_write(event_, 1); }

size_t HttpWorker::waiting() {
  const std::lock_guard lock(mutex_);
  return work_.size();
}

bool HttpWorker::cancel() {
  const std::lock_guard lock(mutex_);
  work_.clear();
  return !is_busy_;
}

void HttpWorker::loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ends_ || !work_.empty(); });
    if (ends_) return;
    const std::function<void()> work = std::move(work_.front());
    work_.pop_front();
    is_busy_ = true;
    lock.unlock();
    work();
    signal();
    lock.lock();
    is_busy_ = false;
  }
}

}  // namespace mantissa::cli
