#include "cli/http/server.h"

#include <microhttpd.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <set>
#include <utility>

#include "cli/command_line/output.h"
#include "cli/http/address.h"
#include "cli/http/connection.h"
#include "cli/http/exchange.h"
#include "cli/http/worker.h"

namespace mantissa::cli {
namespace {

using Phase = HttpConnection::Phase;
using Clock = HttpConnection::Clock;
using std::chrono::milliseconds;

constexpr milliseconds kTick{50}, kLeaveTaking{600};

// As many connections as descriptors are there for; some are for files.
size_t possible_connections(size_t wanted) {
  constexpr rlim_t kOthers = 40;
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return wanted;
  const rlim_t room = limit.rlim_cur > kOthers + 8 ? limit.rlim_cur - kOthers : 8;
  return std::min<size_t>(wanted, room);
}

// A whole server is one thread with this loop; slow requests are computed in another one.
class Server {
 public:
  Server(const HttpRoutes& routes, const HttpLimits& limits, std::vector<std::string> names)
      : routes_(routes), limits_(limits), names_(std::move(names)) {
    limits_.connections = possible_connections(limits.connections);
    limits_.waiting = std::min(limits.waiting, std::max<size_t>(1, limits_.connections / 4));
  }
  ~Server() {
    if (daemon_ != nullptr) MHD_stop_daemon(daemon_);
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  bool start();
  void loop(int listener, const std::function<bool()>& ended);
  void end();

 private:
  // Callbacks of libmicrohttpd.
  static MHD_Result on_request(void* self, MHD_Connection* connection, const char* path,
                               const char* method, const char* version, const char* bytes,
                               size_t* count, void** request);
  static void on_end_of_request(void* self, MHD_Connection* connection, void** request,
                                MHD_RequestTerminationCode);
  static void on_connection(void* self, MHD_Connection* connection, void** context,
                            MHD_ConnectionNotificationCode code);

  MHD_Result begin(MHD_Connection* connection, HttpConnection& at, const char* path,
                   const char* method);
  MHD_Result compute(MHD_Connection* connection, HttpConnection& at);
  MHD_Result send(MHD_Connection* connection, HttpConnection& at);
  MHD_Response* response_of(MHD_Connection* connection, HttpConnection& at);
  void work(const std::shared_ptr<HttpExchange>& exchange);

  void accept_some(int listener);
  void wait(int listener);
  void take_results();
  void cut_late();
  void make_room();
  HttpConnection* oldest(bool of_those_that_hold) const;

  const HttpRoutes& routes_;
  HttpLimits limits_;
  std::vector<std::string> names_;
  MHD_Daemon* daemon_ = nullptr;
  std::set<HttpConnection*> connections_;
  HttpWorker worker_;
  Clock::time_point looked_ = Clock::now();
};

bool Server::start() {
  // Ours is the limit that counts; the library's also has those that have ended and are not cleared
  // away yet.
  const auto limit = static_cast<unsigned>(2 * limits_.connections + 64);
  daemon_ = MHD_start_daemon(
      MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME, 0, nullptr, nullptr,
      on_request, this, MHD_OPTION_CONNECTION_LIMIT, limit, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
      limits_.header_bytes, MHD_OPTION_CONNECTION_TIMEOUT,
      static_cast<unsigned>(limits_.patience.count()), MHD_OPTION_NOTIFY_COMPLETED,
      on_end_of_request, this, MHD_OPTION_NOTIFY_CONNECTION, on_connection, this, MHD_OPTION_END);
  if (!worker_.has_thread()) {
    say("mantissa serve: no thread could be started: while one request is computed, others wait");
  }
  return daemon_ != nullptr;
}

void Server::on_connection(void* self, MHD_Connection* connection, void** context,
                           MHD_ConnectionNotificationCode code) {
  auto& server = *static_cast<Server*>(self);
  if (code == MHD_CONNECTION_NOTIFY_STARTED) {
    const auto* info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    auto* const at = new HttpConnection(info->connect_fd);
    server.connections_.insert(at);
    *context = at;
  } else {
    auto* const at = static_cast<HttpConnection*>(*context);
    server.connections_.erase(at);
    delete at;
  }
}

HttpConnection& connection_of(MHD_Connection* connection) {
  const auto* info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
  return *static_cast<HttpConnection*>(info->socket_context);
}

void Server::on_end_of_request(void*, MHD_Connection* connection, void**,
                               MHD_RequestTerminationCode) {
  HttpConnection& at = connection_of(connection);
  if (at.exchange) at.exchange->stream.cut();
  at.exchange.reset();
  at.held_bytes = 0;
  at.enter(Phase::kWaiting);
}

MHD_Result Server::on_request(void* self, MHD_Connection* connection, const char* path,
                              const char* method, const char*, const char* bytes, size_t* count,
                              void** request) {
  auto& server = *static_cast<Server*>(self);
  HttpConnection& at = connection_of(connection);
  try {
    if (*request == nullptr) {
      *request = &at;
      return server.begin(connection, at, path, method);
    }
    if (*count > 0) {
      if (at.exchange->body) {
        at.exchange->body->take({bytes, *count});
        at.held_bytes = at.exchange->body->text.size();
        server.make_room();
      }
      *count = 0;
      return MHD_YES;
    }
    return server.compute(connection, at);
  } catch (const std::bad_alloc&) {
    return MHD_NO;  // ends the connection
  }
}

MHD_Result Server::begin(MHD_Connection* connection, HttpConnection& at, const char* path,
                         const char* method) {
  at.exchange = std::make_shared<HttpExchange>();
  at.enter(Phase::kReceiving);
  const bool is_read =
      begin_exchange({connection, path, method}, {routes_.routes, names_, limits_}, *at.exchange);
  return is_read ? MHD_YES : send(connection, at);
}

// The request is there, whole.
MHD_Result Server::compute(MHD_Connection* connection, HttpConnection& at) {
  HttpExchange& exchange = *at.exchange;
  if (exchange.is_answered) return send(connection, at);
  end_body(exchange);
  if (exchange.route != nullptr && exchange.route->is_slow &&
      worker_.waiting() >= limits_.waiting) {
    exchange.route = nullptr;
    refuse(exchange.answer, 503, std::to_string(limits_.waiting) + " requests wait already");
  }
  if (exchange.route == nullptr) return send(connection, at);
  read_arguments(connection, exchange.request);
  if (!exchange.route->is_slow || !worker_.has_thread()) {
    work(at.exchange);
    return send(connection, at);
  }
  // The library calls this again at once. Then it no longer wants to read when the connection goes
  // on. Otherwise it would find that the client has closed its side, and end the connection without
  // an answer.
  if (!std::exchange(exchange.is_whole, true)) return MHD_YES;
  at.enter(Phase::kComputing);
  at.suspended = connection;
  MHD_suspend_connection(connection);
  worker_.add([this, held = at.exchange] { work(held); });
  return MHD_YES;
}

// In the thread that computes. A stream begins to be sent while it is written.
void Server::work(const std::shared_ptr<HttpExchange>& exchange) {
  answer_safely(*exchange);
  const auto writes = std::exchange(exchange->answer.writes, nullptr);
  exchange->is_streamed = writes != nullptr;
  exchange->stream.on_news([this] { worker_.signal(); });
  exchange->is_answered = true;
  if (!writes) return;
  worker_.signal();
  write_stream(writes, exchange->stream);
}

MHD_Response* Server::response_of(MHD_Connection* connection, HttpConnection& at) {
  constexpr size_t kPartBytes = 4096;
  HttpAnswer& answer = at.exchange->answer;
  at.connection = connection;
  if (at.exchange->is_streamed) {
    return MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, kPartBytes, next_part, &at, nullptr);
  }
  if (!answer.error.empty()) answer.body = routes_.error_text(answer.status, answer.error);
  // The exchange keeps the text until the answer is sent.
  return MHD_create_response_from_buffer(answer.body.size(), answer.body.data(),
                                         MHD_RESPMEM_PERSISTENT);
}

MHD_Result Server::send(MHD_Connection* connection, HttpConnection& at) {
  const HttpAnswer& answer = at.exchange->answer;
  at.enter(Phase::kSending);
  MHD_Response* const response = response_of(connection, at);
  if (response == nullptr) return MHD_NO;
  at.held_bytes = answer.body.size();
  make_room();
  MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, answer.type.c_str());
  if (Clock::now() - at.opened > limits_.connection) {
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
  }
  const MHD_Result result =
      MHD_queue_response(connection, static_cast<unsigned>(answer.status), response);
  MHD_destroy_response(response);
  return result;
}

// The connection that keeps the server waiting for its client longest.
HttpConnection* Server::oldest(bool of_those_that_hold) const {
  HttpConnection* found = nullptr;
  for (HttpConnection* const at : connections_) {
    if (at->is_cut || at->phase == Phase::kComputing) continue;
    if (of_those_that_hold && at->held_bytes == 0) continue;
    if (found == nullptr || at->since < found->since) found = at;
  }
  return found;
}

// The sum of bodies and answers stays below its limit: whoever is slowest loses the connection.
void Server::make_room() {
  size_t sum = 0;
  for (const HttpConnection* const at : connections_) sum += at->is_cut ? 0 : at->held_bytes;
  while (sum > limits_.held_bytes) {
    HttpConnection* const at = oldest(true);
    if (at == nullptr) return;
    sum -= at->held_bytes;
    at->cut();
  }
}

void Server::cut_late() {
  const auto now = Clock::now();
  if (now - looked_ < kTick) return;
  looked_ = now;
  for (HttpConnection* const at : connections_) {
    const bool is_over = at->is_late(limits_, now) || at->has_hung_up(now);
    if (!at->is_cut && is_over) at->cut();
  }
}

void Server::accept_some(int listener) {
  constexpr int kAtOnce = 64;
  for (int i = 0; i < kAtOnce; ++i) {
    if (connections_.size() >= limits_.connections) {
      HttpConnection* const at = oldest(false);
      if (at == nullptr) return;
      at->cut();
      MHD_run(daemon_);
      if (connections_.size() >= limits_.connections) return;
    }
    sockaddr_storage address = {};
    socklen_t size = sizeof address;
    const int socket = accept4(listener, reinterpret_cast<sockaddr*>(&address), &size,
                               SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (socket < 0 && (errno == EMFILE || errno == ENFILE) && oldest(false) != nullptr) {
      oldest(false)->cut();
      MHD_run(daemon_);
    }
    if (socket < 0) return;
    MHD_add_connection(daemon_, socket, reinterpret_cast<sockaddr*>(&address), size);
  }
}

void Server::take_results() {
  eventfd_t ignored = 0;
  (void)!eventfd_read(worker_.event(), &ignored);
  for (HttpConnection* const at : connections_) {
    if (at->suspended == nullptr || !at->exchange->is_answered) continue;
    if (at->exchange->is_streamed && !at->exchange->stream.has_news()) continue;
    MHD_resume_connection(std::exchange(at->suspended, nullptr));
  }
}

// Until a client, the thread that computes, or the clock wants something.
void Server::wait(int listener) {
  const auto* info = MHD_get_daemon_info(daemon_, MHD_DAEMON_INFO_EPOLL_FD);
  std::array<pollfd, 3> waits = {pollfd{info->epoll_fd, POLLIN, 0},
                                 pollfd{worker_.event(), POLLIN, 0}, pollfd{listener, POLLIN, 0}};
  MHD_UNSIGNED_LONG_LONG most = 0;
  const bool has_work = MHD_get_timeout(daemon_, &most) == MHD_YES && most == 0;
  poll(waits.data(), waits.size(), has_work ? 0 : static_cast<int>(kTick.count()));
  if (waits[1].revents != 0) take_results();
  if (waits[2].revents != 0) accept_some(listener);
  MHD_run(daemon_);
  cut_late();
}

void Server::loop(int listener, const std::function<bool()>& ended) {
  while (!ended()) wait(listener);
}

// Answers that are there are sent, for a moment; nothing else is waited for.
void Server::end() {
  const bool is_idle = worker_.cancel();
  const auto begin = Clock::now();
  const auto is_sending = [](const HttpConnection* at) { return at->phase == Phase::kSending; };
  for (HttpConnection* const at : connections_) {
    if (!is_sending(at)) at->cut();
  }
  while (std::ranges::any_of(connections_, is_sending) && Clock::now() - begin < kLeaveTaking)
    wait(-1);
  const auto is_suspended = [](const HttpConnection* at) { return at->suspended != nullptr; };
  if (is_idle && std::ranges::none_of(connections_, is_suspended)) return;
  // A prediction is under way and cannot be stopped, and nobody waits for it any more.
  std::fflush(stdout);
  std::_Exit(0);
}

}  // namespace

std::string serve_http(const std::string& host, int port, const std::vector<std::string>& names,
                       const HttpRoutes& routes, const HttpLimits& limits,
                       const std::function<void(int port)>& on_ready,
                       const std::function<bool()>& ended) {
  const std::string wanted = std::to_string(port);
  const int listener = listen_on(host, port);
  if (listener < 0) {
    return "cannot listen on " + host + ", port " + wanted +
           ": it is taken, or not this machine's; --port 0 takes a free one";
  }
  std::vector<std::string> known = machine_names();
  known.push_back(host);
  known.insert(known.end(), names.begin(), names.end());
  Server server(routes, limits, std::move(known));
  const bool started = server.start();
  if (started) {
    on_ready(port);
    server.loop(listener, ended);
  }
  close(listener);
  if (started) server.end();
  return started ? "" : "the system gives no means to wait for clients: too many open files?";
}

}  // namespace mantissa::cli
