#include "cli/http/exchange.h"

#include <microhttpd.h>
#include <strings.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/http/address.h"

namespace mantissa::cli {
namespace {

std::string header_of(const HttpHead& head, const char* name) {
  const char* const text = MHD_lookup_connection_value(head.connection, MHD_HEADER_KIND, name);
  return text == nullptr ? "" : text;
}

// All that a header says, should it come twice.
std::vector<std::string> hosts_of(const HttpHead& head) {
  std::vector<std::string> hosts;
  const auto take = [](void* list, MHD_ValueKind, const char* name, const char* value) {
    const bool is_host = strcasecmp(name, MHD_HTTP_HEADER_HOST) == 0 && value != nullptr;
    if (is_host) static_cast<std::vector<std::string>*>(list)->emplace_back(value);
    return MHD_YES;
  };
  MHD_get_connection_values(head.connection, MHD_HEADER_KIND, take, &hosts);
  return hosts;
}

const HttpRoute* route_of(const HttpHead& head, const HttpService& service, HttpAnswer& refusal) {
  for (const std::string& host : hosts_of(head)) {
    if (host.empty() || names_this_machine(host, service.names)) continue;
    refuse(
        refusal, 403,
        "the Host header says '" + host +
            "', which is not known to be this machine; serve --names NAME,NAME takes more names");
    return nullptr;
  }
  const std::string method = head.method == "HEAD" ? "GET" : head.method;
  std::string known;
  for (const HttpRoute& route : service.routes) {
    if (route.method == method && route.path == head.path) return &route;
    known += (known.empty() ? "" : ", ") + route.method + " " + route.path;
  }
  refuse(refusal, 404, "there are " + known + "; docs/serve.md describes them");
  return nullptr;
}

void begin_body(const HttpHead& head, size_t most_bytes, HttpExchange& exchange) {
  const std::string encoding = header_of(head, MHD_HTTP_HEADER_CONTENT_ENCODING);
  const std::string type = header_of(head, MHD_HTTP_HEADER_CONTENT_TYPE);
  if (strncasecmp(type.c_str(), "multipart/form-data", 19) == 0) {
    exchange.route = nullptr;
    refuse(exchange.answer, 400, "pixels are the body itself, not a part of a form");
  } else if (!HttpBody::knows(encoding)) {
    exchange.route = nullptr;
    refuse(exchange.answer, 415,
           "Content-Encoding: '" + encoding + "' is not known; gzip and deflate are");
  } else {
    exchange.body = std::make_unique<HttpBody>(encoding, most_bytes);
  }
}

}  // namespace

void refuse(HttpAnswer& answer, int status, const std::string& why) {
  answer = {.status = status, .error = why};
}

std::string plain_error(int, const std::string& why) {
  using Json = nlohmann::ordered_json;
  return Json{{"error", why}}.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

bool begin_exchange(const HttpHead& head, const HttpService& service, HttpExchange& exchange) {
  const size_t most_bytes = service.limits.body_bytes;
  exchange.route = route_of(head, service, exchange.answer);
  if (exchange.route != nullptr && exchange.route->takes_body) {
    begin_body(head, most_bytes, exchange);
  }
  // Too large by its own word: it is not read. Other bodies that nobody takes are read and thrown
  // away, so that the client gets to its answer.
  const std::string length = header_of(head, MHD_HTTP_HEADER_CONTENT_LENGTH);
  if (std::strtoull(length.c_str(), nullptr, 10) <= most_bytes) return true;
  refuse(exchange.answer, 413, "more than " + std::to_string(most_bytes >> 20) + " MiB");
  return false;
}

void end_body(HttpExchange& exchange) {
  if (!exchange.body) return;
  std::string why;
  const int fault = exchange.body->fault(why);
  if (fault != 0) exchange.route = nullptr;
  if (fault != 0) refuse(exchange.answer, fault, why);
  exchange.request.body = std::move(exchange.body->text);
  exchange.body.reset();
}

void read_arguments(MHD_Connection* connection, HttpRequest& request) {
  const auto take = [](void* into, MHD_ValueKind, const char* name, const char* value) {
    static_cast<HttpRequest*>(into)->arguments.emplace(name, value == nullptr ? "" : value);
    return MHD_YES;
  };
  MHD_get_connection_values(connection, MHD_GET_ARGUMENT_KIND, take, &request);
}

void answer_safely(HttpExchange& exchange) {
  try {
    exchange.route->answer(exchange.request, exchange.answer);
  } catch (const std::bad_alloc&) {
    refuse(exchange.answer, 503, "there is no memory for this answer");
  }
  exchange.request.body = std::string();
}

void write_stream(const std::function<void(HttpStream&)>& writes, HttpStream& stream) {
  try {
    writes(stream);
  } catch (const std::bad_alloc&) {
    stream.cut();  // the client sees that the end is missing
  }
  stream.end();
}

}  // namespace mantissa::cli
