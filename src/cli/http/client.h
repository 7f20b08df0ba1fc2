// Fetches over HTTP, within limits of size and time. A server may send anything, or nothing.
#pragma once

#include <netdb.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace mantissa::cli {

struct HttpUrl {
  std::string host, port, path;  // path: with its query, percent-encoded

  // "http://[::1]:8080/a?b": nothing is checked, a host that does not exist is not found.
  static HttpUrl parse(std::string_view url);
  std::string authority() const;  // "[::1]:8080"
};

using HttpAddresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

// Waits for the system, and takes no notice of requests to stop: let signals end the process.
HttpAddresses find_addresses(const HttpUrl& url);

struct FetchLimits {
  size_t body_bytes = 0;
  size_t header_bytes = size_t{64} << 10;      // of all answers, 100 Continue among them
  std::chrono::seconds connecting{10};         // for each address
  std::chrono::seconds patience{60};           // until something comes, and
  size_t bytes_per_second = size_t{64} << 10;  // and the least rate of the server
};

struct Fetch {
  std::string error;  // "" if there is an answer
  int status = 0;
  bool was_stopped = false;
};

// Gives the body to `take` piece by piece; false stops. `stopped` is asked ten times a second.
Fetch http_get(const HttpUrl& url, const HttpAddresses& addresses, const FetchLimits& limits,
               const std::function<bool()>& stopped,
               const std::function<bool(int status, std::string_view)>& take);

}  // namespace mantissa::cli
