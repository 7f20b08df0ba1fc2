// Bodies that come piece by piece.
#include <microhttpd.h>

#include <utility>

#include "cli/http/connection.h"
#include "cli/http/server.h"

namespace mantissa::cli {
namespace {

constexpr size_t kMostWaiting = size_t{1} << 20;  // bytes that a client has not read

}  // namespace

bool HttpStream::add(std::string_view bytes) {
  {
    const std::lock_guard lock(mutex_);
    if (bytes_.size() + bytes.size() > kMostWaiting) is_cut_ = true;
    if (is_cut_) return false;
    bytes_ += bytes;
  }
  if (on_news_) on_news_();
  return true;
}

void HttpStream::end() {
  {
    const std::lock_guard lock(mutex_);
    has_end_ = true;
  }
  if (on_news_) on_news_();
}

void HttpStream::cut() {
  const std::lock_guard lock(mutex_);
  is_cut_ = true;
  bytes_ = std::string();
}

std::string HttpStream::take(size_t most) {
  const std::lock_guard lock(mutex_);
  std::string taken = bytes_.substr(0, most);
  bytes_.erase(0, taken.size());
  return taken;
}

bool HttpStream::has_ended() const {
  const std::lock_guard lock(mutex_);
  return has_end_ && bytes_.empty();
}

bool HttpStream::is_cut() const {
  const std::lock_guard lock(mutex_);
  return is_cut_;
}

bool HttpStream::has_news() const {
  const std::lock_guard lock(mutex_);
  return has_end_ || is_cut_ || !bytes_.empty();
}

ssize_t next_part(void* connection, uint64_t, char* to, size_t most) {
  HttpConnection& at = *static_cast<HttpConnection*>(connection);
  HttpStream& stream = at.exchange->stream;
  const std::string part = stream.take(most);
  if (!part.empty()) {
    part.copy(to, part.size());
    at.enter(HttpConnection::Phase::kSending);
    return static_cast<ssize_t>(part.size());
  }
  if (stream.is_cut()) return MHD_CONTENT_READER_END_WITH_ERROR;
  if (stream.has_ended()) return MHD_CONTENT_READER_END_OF_STREAM;
  at.enter(HttpConnection::Phase::kComputing);
  at.suspended = at.connection;
  MHD_suspend_connection(at.connection);
  return 0;
}

}  // namespace mantissa::cli
