#include "cli/http/client.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>

namespace mantissa::cli {
namespace {

using Clock = std::chrono::steady_clock;

std::string size_text(size_t bytes) {
  return bytes >> 20 != 0 ? std::to_string(bytes >> 20) + " MiB"
                          : std::to_string(bytes >> 10) + " KiB";
}

// A transfer that does not end in good order.
struct FetchFailure {
  std::string why;
  bool was_stopped = false;
};

// One connection. Functions throw FetchFailure, which stays in this file.
class Connection {
 public:
  Connection(const FetchLimits& limits, const std::function<bool()>& stopped)
      : limits_(limits), stopped_(stopped) {}
  ~Connection() { close_socket(); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void connect_to(const addrinfo* addresses);
  void send(std::string_view text);
  // A line without its end, of at most this many bytes.
  std::string line(size_t most, const char* what);
  // Passes on the bytes that are there, at most this many; 0: the server has closed the connection.
  size_t pass_on(size_t most, const std::function<void(std::string_view)>& take);

 private:
  void wait(short events, Clock::time_point end, const std::string& why) const;
  bool fill();
  void close_socket() {
    if (socket_ >= 0) close(std::exchange(socket_, -1));
  }

  const FetchLimits& limits_;
  const std::function<bool()>& stopped_;
  int socket_ = -1;
  std::array<char, 65536> buffer_;
  size_t begin_ = 0, end_ = 0, received_ = 0;
  Clock::time_point started_ = Clock::now();
};

void Connection::wait(short events, Clock::time_point end, const std::string& why) const {
  constexpr int kAskMs = 100;
  pollfd one = {socket_, events, 0};
  while (true) {
    if (stopped_()) throw FetchFailure{"interrupted", true};
    if (Clock::now() > end) throw FetchFailure{why};
    if (poll(&one, 1, kAskMs) > 0) return;
  }
}

void Connection::connect_to(const addrinfo* addresses) {
  std::string why = "no such host";
  for (const addrinfo* one = addresses; one != nullptr; one = one->ai_next) {
    socket_ = socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (socket_ < 0) throw FetchFailure{std::strerror(errno)};
    int fault = connect(socket_, one->ai_addr, one->ai_addrlen) == 0 ? 0 : errno;
    if (fault == EINPROGRESS) {
      try {
        wait(POLLOUT, Clock::now() + limits_.connecting, std::strerror(ETIMEDOUT));
        socklen_t size = sizeof fault;
        getsockopt(socket_, SOL_SOCKET, SO_ERROR, &fault, &size);
      } catch (const FetchFailure& failure) {
        if (failure.was_stopped) throw;
        fault = ETIMEDOUT;
      }
    }
    started_ = Clock::now();
    if (fault == 0) return;
    why = std::strerror(fault);
    close_socket();
  }
  throw FetchFailure{why};
}

void Connection::send(std::string_view text) {
  while (!text.empty()) {
    wait(POLLOUT, started_ + limits_.patience, "it takes no request");
    const ssize_t sent = ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN && errno != EINTR) throw FetchFailure{std::strerror(errno)};
    if (sent > 0) text.remove_prefix(static_cast<size_t>(sent));
  }
}

// False: the server has closed the connection.
bool Connection::fill() {
  const auto end =
      started_ + limits_.patience + std::chrono::seconds(received_ / limits_.bytes_per_second);
  while (true) {
    wait(POLLIN, end,
         received_ == 0
             ? "nothing came in " + std::to_string(limits_.patience.count()) + " s"
             : "it sends less than " + size_text(limits_.bytes_per_second) + " a second");
    const ssize_t count = recv(socket_, buffer_.data(), buffer_.size(), 0);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (count < 0) throw FetchFailure{std::strerror(errno)};
    begin_ = 0;
    end_ = static_cast<size_t>(count);
    return count > 0;
  }
}

std::string Connection::line(size_t most, const char* what) {
  std::string text;
  while (true) {
    if (begin_ == end_ && !fill())
      throw FetchFailure{"the connection ended within " + std::string(what)};
    const char* const from = buffer_.data() + begin_;
    const char* const to = std::find(from, static_cast<const char*>(buffer_.data() + end_), '\n');
    text.append(from, to);
    begin_ += static_cast<size_t>(to - from);
    if (text.size() > most)
      throw FetchFailure{std::string(what) + " are longer than " + size_text(limits_.header_bytes)};
    if (begin_ == end_) continue;
    ++begin_;
    if (text.ends_with('\r')) text.pop_back();
    return text;
  }
}

size_t Connection::pass_on(size_t most, const std::function<void(std::string_view)>& take) {
  if (begin_ == end_ && !fill()) return 0;
  const size_t count = std::min(most, end_ - begin_);
  take({buffer_.data() + begin_, count});
  begin_ += count;
  received_ += count;
  return count;
}

struct Head {
  int status = 0;
  bool is_chunked = false;
  std::optional<uint64_t> length;
};

std::string lower_case(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
  return text;
}

uint64_t number(std::string_view text, int base, const char* what) {
  uint64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  const bool ends = end == text.data() + text.size() || *end == ';' || *end == ' ';
  if (code != std::errc() || !ends) throw FetchFailure{std::string(what) + " is no number"};
  return value;
}

void take_header(const std::string& line, Head& head) {
  const size_t colon = line.find(':');
  if (colon == std::string::npos) throw FetchFailure{"a header has no colon"};
  const std::string name = lower_case(line.substr(0, colon));
  const size_t first = line.find_first_not_of(" \t", colon + 1);
  const std::string value = first == std::string::npos ? "" : lower_case(line.substr(first));
  if (name == "content-length") {
    const uint64_t length = number(value, 10, "its Content-Length");
    if (head.length && *head.length != length) throw FetchFailure{"it says two lengths"};
    head.length = length;
  } else if (name == "transfer-encoding") {
    if (value != "chunked") throw FetchFailure{"Transfer-Encoding '" + value + "' is not known"};
    head.is_chunked = true;
  } else if (name == "content-encoding" && value != "identity") {
    throw FetchFailure{"it sends '" + value +
                       "', which was not asked for: the file as it is, please"};
  }
}

// The head of the answer, after any number of interim answers (100 Continue) that fit.
Head read_head(Connection& connection, size_t most) {
  const auto next = [&] {
    const std::string line = connection.line(most, "its headers");
    most -= std::min(most, line.size() + 1);
    return line;
  };
  while (true) {
    const std::string first = next();
    if (!first.starts_with("HTTP/1.") || first.size() < 12) throw FetchFailure{"that is not HTTP"};
    Head head;
    head.status = static_cast<int>(number(std::string_view(first).substr(9, 3), 10, "its status"));
    for (std::string line = next(); !line.empty(); line = next()) take_header(line, head);
    if (head.status >= 200) return head;
  }
}

void read_body(Connection& connection, const Head& head, size_t most,
               const std::function<bool(int, std::string_view)>& take) {
  size_t left = most;
  const auto too_large = [&] { return FetchFailure{"it sends more than " + size_text(most)}; };
  const auto give = [&](std::string_view bytes) {
    if (bytes.size() > left) throw too_large();
    left -= bytes.size();
    if (!take(head.status, bytes)) throw FetchFailure{"the body cannot be kept"};
  };
  const auto exactly = [&](uint64_t count) {
    if (count > left) throw too_large();
    while (count > 0) {
      const size_t taken = connection.pass_on(count, give);
      if (taken == 0)
        throw FetchFailure{"the connection ended, and " + std::to_string(count) +
                           " bytes are missing"};
      count -= taken;
    }
  };
  constexpr size_t kChunkLine = 1024;
  if (!head.is_chunked && head.length) return exactly(*head.length);
  while (!head.is_chunked) {
    if (connection.pass_on(SIZE_MAX, give) == 0) return;
  }
  while (true) {
    const uint64_t count = number(connection.line(kChunkLine, "its chunks"), 16, "a chunk's size");
    if (count == 0) return;
    exactly(count);
    if (!connection.line(kChunkLine, "its chunks").empty())
      throw FetchFailure{"a chunk has no end"};
  }
}

}  // namespace

HttpUrl HttpUrl::parse(std::string_view url) {
  constexpr std::string_view kScheme = "http://", kOther = "\"<>\\^`{|}";
  url.remove_prefix(kScheme.size());
  url = url.substr(0, url.find('#'));
  const size_t slash = std::min(url.find_first_of("/?"), url.size());
  const std::string_view place = url.substr(0, slash);
  HttpUrl result;
  const size_t bracket = place.starts_with('[') ? place.find(']') : std::string_view::npos;
  const bool is_v6 = bracket != std::string_view::npos;
  const size_t colon = place.find(':', is_v6 ? bracket : 0);
  result.host = is_v6 ? place.substr(1, bracket - 1) : place.substr(0, colon);
  result.port = colon == std::string_view::npos ? "80" : place.substr(colon + 1);
  for (const char c : url.substr(slash)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte > 0x20 && byte < 0x7F && kOther.find(c) == std::string_view::npos) {
      result.path += c;
    } else {
      constexpr std::string_view kDigits = "0123456789ABCDEF";
      result.path += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  if (!result.path.starts_with('/')) result.path.insert(0, "/");
  return result;
}

std::string HttpUrl::authority() const {
  const bool is_v6 = host.find(':') != std::string::npos;
  return (is_v6 ? "[" + host + "]" : host) + ":" + port;
}

HttpAddresses find_addresses(const HttpUrl& url) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(url.host.c_str(), url.port.c_str(), &hints, &found) != 0) found = nullptr;
  return {found, freeaddrinfo};
}

Fetch http_get(const HttpUrl& url, const HttpAddresses& addresses, const FetchLimits& limits,
               const std::function<bool()>& stopped,
               const std::function<bool(int status, std::string_view)>& take) {
  Fetch result;
  try {
    Connection connection(limits, stopped);
    connection.connect_to(addresses.get());
    connection.send("GET " + url.path + " HTTP/1.1\r\nHost: " + url.authority() +
                    "\r\nUser-Agent: mantissa\r\nAccept-Encoding: identity\r\n"
                    "Connection: close\r\n\r\n");
    const Head head = read_head(connection, limits.header_bytes);
    read_body(connection, head, limits.body_bytes, take);
    result.status = head.status;
  } catch (const FetchFailure& failure) {
    result.error = failure.why;
    result.was_stopped = failure.was_stopped;
  }
  return result;
}

}  // namespace mantissa::cli
