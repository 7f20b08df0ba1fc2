// A request and its answer: which route takes it, how much of its body is read, and why it may be
// refused.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/http/body.h"
#include "cli/http/server.h"

struct MHD_Connection;

namespace mantissa::cli {

struct HttpExchange {
  const HttpRoute* route = nullptr;  // none: refused
  HttpRequest request;
  HttpAnswer answer;
  std::unique_ptr<HttpBody> body;
  bool is_whole = false;
  std::atomic<bool> is_answered = false;  // by the thread that computes
  HttpStream stream;
  bool is_streamed = false;
};

// The first line of a request.
struct HttpHead {
  MHD_Connection* connection;
  std::string path, method;
};

struct HttpService {
  const std::vector<HttpRoute>& routes;
  const std::vector<std::string>& names;  // of this machine
  const HttpLimits& limits;
};

// Finds the route, or the refusal. False: the answer is sent at once, and nothing more is read.
bool begin_exchange(const HttpHead& head, const HttpService& service, HttpExchange& exchange);

// The body is there, whole, or refused.
void end_body(HttpExchange& exchange);

void read_arguments(MHD_Connection* connection, HttpRequest& request);

// As the route does, or that there is no memory for it.
void answer_safely(HttpExchange& exchange);

// Writes a body that comes piece by piece, to its end.
void write_stream(const std::function<void(HttpStream&)>& writes, HttpStream& stream);

}  // namespace mantissa::cli
