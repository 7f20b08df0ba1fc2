// Answers HTTP requests within limits of connections, memory and time (libmicrohttpd).
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mantissa::cli {

struct HttpRequest {
  std::map<std::string, std::string> arguments;  // the query, after "?"
  std::string body;                              // decoded
};

// The body of an answer that comes piece by piece. One thread adds, another one takes.
class HttpStream {
 public:
  // Called by the thread that adds, before anything is added.
  void on_news(std::function<void()> tell) { on_news_ = std::move(tell); }
  // False: nobody reads it any more, or it is not read fast enough; nothing more is wanted.
  bool add(std::string_view bytes);
  void end();
  void cut();  // by the reader

  // Up to `most` bytes.
  std::string take(size_t most);
  bool has_ended() const;  // and all is taken
  bool is_cut() const;
  bool has_news() const;   // bytes, or the end

 private:
  mutable std::mutex mutex_;
  std::function<void()> on_news_;
  std::string bytes_;
  bool has_end_ = false, is_cut_ = false;
};

struct HttpAnswer {
  int status = 200;
  std::string type = "application/json", body = {};
  std::string error = {};  // in place of a body
  // In place of a body: writes it, after the head of the answer was sent.
  std::function<void(HttpStream&)> writes = nullptr;
};

void refuse(HttpAnswer& answer, int status, const std::string& why);

struct HttpRoute {
  std::string method, path;
  bool takes_body = false;
  bool is_slow = false;  // computed in a thread, one after the other
  std::function<void(const HttpRequest&, HttpAnswer&)> answer;
};

// {"error": why}
std::string plain_error(int status, const std::string& why);

struct HttpRoutes {
  std::vector<HttpRoute> routes;
  std::function<std::string(int status, const std::string& why)> error_text = plain_error;
};

struct HttpLimits {
  size_t connections = 256;                     // at a time
  size_t waiting = 64;                          // slow requests that wait for their turn
  size_t header_bytes = size_t{32} << 10;       // request line and headers
  size_t body_bytes = size_t{64} << 20;         // of a request, as sent and decoded
  size_t held_bytes = size_t{256} << 20;        // bodies and answers of all connections
  std::chrono::seconds patience{10};            // with a client that sends or reads nothing,
  size_t bytes_per_second = size_t{256} << 10;  // and the least rate of one that does
  std::chrono::seconds connection{300};         // then an answer says that it is the last
};

// Listens on host and port (0: any that is free), and answers until `ended` says so; then ends
// within a second. Calls on_ready(port) first. Host headers may name addresses, localhost, this
// machine, `host` and `names`. Pages of another site whose name points here are refused. Returns ""
// or why it could not listen.
std::string serve_http(const std::string& host, int port, const std::vector<std::string>& names,
                       const HttpRoutes& routes, const HttpLimits& limits,
                       const std::function<void(int port)>& on_ready,
                       const std::function<bool()>& ended);

}  // namespace mantissa::cli
