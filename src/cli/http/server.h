// Answers HTTP requests within limits of connections, memory and time (libmicrohttpd).
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace mantissa::cli {

struct HttpRequest {
  std::map<std::string, std::string> arguments;  // the query, after "?"
  std::string body;                              // decoded
};

struct HttpAnswer {
  int status = 200;
  std::string type = "application/json", body;
};

// {"error": why}
void refuse(HttpAnswer& answer, int status, const std::string& why);

struct HttpRoute {
  std::string method, path;
  bool takes_body = false;
  bool is_slow = false;  // computed in a thread, one after the other
  std::function<void(const HttpRequest&, HttpAnswer&)> answer;
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
                       const std::vector<HttpRoute>& routes, const HttpLimits& limits,
                       const std::function<void(int port)>& on_ready,
                       const std::function<bool()>& ended);

}  // namespace mantissa::cli
