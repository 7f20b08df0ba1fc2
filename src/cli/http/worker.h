// A thread that does one piece of work after the other while a server goes on.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace mantissa::cli {

class HttpWorker {
 public:
  // If no thread can be started, the caller does the work at once.
  HttpWorker();
  ~HttpWorker();
  HttpWorker(const HttpWorker&) = delete;
  HttpWorker& operator=(const HttpWorker&) = delete;

  bool has_thread() const { return thread_.joinable(); }
  // Can be read when something is done, or was signalled.
  int event() const { return event_; }
  void signal();

  void add(std::function<void()> work);
  size_t waiting();
  // Drops work that has not begun. False: some work is under way.
  bool cancel();

 private:
  void loop();

  int event_ = -1;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  bool ends_ = false, is_busy_ = false;
  std::thread thread_;
};

}  // namespace mantissa::cli
