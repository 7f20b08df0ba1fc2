// The server's state of one connection, and the deadline of its client.
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <memory>

#include "cli/http/exchange.h"
#include "cli/http/server.h"

struct MHD_Connection;

namespace mantissa::cli {

struct HttpConnection {
  using Clock = std::chrono::steady_clock;
  enum class Phase { kWaiting, kReceiving, kComputing, kSending };  // waiting: for a whole header

  explicit HttpConnection(int descriptor) : socket(descriptor) {}

  void enter(Phase next) {
    phase = next;
    since = Clock::now();
  }

  bool is_late(const HttpLimits& limits, Clock::time_point now) const {
    if (phase == Phase::kComputing) return false;
    size_t bytes = 0;
    if (phase == Phase::kReceiving && exchange->body) bytes = exchange->body->received();
    if (phase == Phase::kSending) bytes = exchange->answer.body.size();
    const auto allowed = limits.patience + std::chrono::seconds(bytes / limits.bytes_per_second);
    return now - since > allowed;
  }

  // The client has closed its side, and all that it asked is answered.
  bool has_hung_up(Clock::time_point now) const {
    constexpr std::chrono::milliseconds kNext{100};  // time to take up bytes that were read already
    char byte = 0;
    return phase == Phase::kWaiting && now - since > kNext &&
           recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
  }

  // Ends it: whoever waits for the client finds the connection closed.
  void cut() {
    is_cut = true;
    shutdown(socket, SHUT_RDWR);
  }

  int socket;
  Phase phase = Phase::kWaiting;
  Clock::time_point opened = Clock::now(), since = opened;
  std::shared_ptr<HttpExchange> exchange;  // the thread that computes holds it, too
  MHD_Connection* connection = nullptr;    // of the answer that is sent
  MHD_Connection* suspended = nullptr;     // while its answer, or the next part, is computed
  size_t held_bytes = 0;
  bool is_cut = false;
};

// Gives libmicrohttpd the next part of a stream. If none is there yet, the connection waits for the
// thread that computes.
ssize_t next_part(void* connection, uint64_t, char* to, size_t most);

}  // namespace mantissa::cli
