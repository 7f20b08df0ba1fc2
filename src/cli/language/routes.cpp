#include "cli/language/routes.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/language/request.h"

namespace mantissa::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string compact_text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

constexpr const char* kTooLong = " tokens, and the model reads ";

Json error_json(int status, const std::string& why) {
  constexpr int kServerErrors = 500;
  const bool is_too_long = why.find(kTooLong) != std::string::npos;
  return {{"error",
           {{"message", why},
            {"type", status >= kServerErrors ? "server_error" : "invalid_request_error"},
            {"param", nullptr},
            {"code", is_too_long ? Json("context_length_exceeded") : Json(nullptr)}}}};
}

int64_t seconds_now() {
  using std::chrono::duration_cast, std::chrono::seconds, std::chrono::system_clock;
  return duration_cast<seconds>(system_clock::now().time_since_epoch()).count();
}

// The answer to one request, whole or in pieces.
class LanguageAnswer {
 public:
  LanguageAnswer(const LanguageModel& model, const std::string& name, int64_t number,
             CompletionRequest request)
      : model_(model),
        request_(std::move(request)),
        head_({{"id", (request_.is_chat ? "chatcmpl-" : "cmpl-") + std::to_string(number)},
               {"object", ""},
               {"created", seconds_now()},
               {"model", name}}) {}

  bool streams() const { return request_.streams; }

  // "" or why the prompt cannot be answered.
  std::string fault() const {
    const Outcome<int64_t> tokens = request_.is_chat ? model_.count_tokens(request_.messages)
                                                     : model_.count_tokens(request_.prompt);
    if (!tokens.ok()) return tokens.error();
    if (*tokens < model_.sequence()) return "";
    return "there are " + std::to_string(*tokens) + kTooLong + std::to_string(model_.sequence()) +
           ", its answer included";
  }

  void answer(HttpAnswer& answer) {
    std::string text;
    const auto generated = generate([&](const std::string& piece) {
      text += piece;
      return true;
    });
    if (!generated.ok()) return refuse(answer, 500, generated.error());
    head_["object"] = request_.is_chat ? "chat.completion" : "text_completion";
    Json choice = {{"index", 0}};
    if (request_.is_chat) {
      choice["message"] = {{"role", "assistant"}, {"content", text}};
    } else {
      choice["text"] = text;
    }
    choice["logprobs"] = nullptr;
    choice["finish_reason"] = reason_of(*generated);
    head_["choices"] = Json::array({choice});
    head_["usage"] = usage_of(*generated);
    answer.body = compact_text(head_) + "\n";
  }

  // Server-sent events.
  void write(HttpStream& stream) {
    head_["object"] = request_.is_chat ? "chat.completion.chunk" : "text_completion";
    if (request_.is_chat) send(stream, {{"role", "assistant"}, {"content", ""}}, nullptr);
    const auto generated = generate([&](const std::string& piece) {
      return send(stream, piece_of(piece), nullptr);
    });
    if (!generated.ok()) {
      stream.add("data: " + compact_text(error_json(500, generated.error())) + "\n\n");
      return;
    }
    send(stream, request_.is_chat ? Json::object() : piece_of(""), reason_of(*generated));
    if (request_.streams_usage) {
      head_["choices"] = Json::array();
      head_["usage"] = usage_of(*generated);
      stream.add("data: " + compact_text(head_) + "\n\n");
    }
    stream.add("data: [DONE]\n\n");
  }

 private:
  Outcome<GeneratedText> generate(const std::function<bool(const std::string&)>& show) {
    return request_.is_chat ? model_.answer(request_.messages, request_.choices, show)
                            : model_.go_on(request_.prompt, request_.choices, show);
  }

  static const char* reason_of(const GeneratedText& generated) {
    return generated.finish == TextFinish::kLength ? "length" : "stop";
  }

  static Json usage_of(const GeneratedText& generated) {
    return {{"prompt_tokens", generated.prompt_tokens},
            {"completion_tokens", generated.tokens},
            {"total_tokens", generated.prompt_tokens + generated.tokens}};
  }

  Json piece_of(const std::string& piece) const {
    return request_.is_chat ? Json{{"content", piece}} : Json{{"text", piece}};
  }

  bool send(HttpStream& stream, const Json& part, const Json& reason) {
    Json choice = {{"index", 0}};
    if (request_.is_chat) {
      choice["delta"] = part;
    } else {
      choice["text"] = part["text"];
    }
    choice["logprobs"] = nullptr;
    choice["finish_reason"] = reason;
    head_["choices"] = Json::array({choice});
    return stream.add("data: " + compact_text(head_) + "\n\n");
  }

  const LanguageModel& model_;
  CompletionRequest request_;
  Json head_;
};

HttpRoute completion_route(const LanguageModel& model, const std::string& name, bool is_chat) {
  const auto number = std::make_shared<int64_t>(0);
  const auto respond = [&model, name, is_chat, number](const HttpRequest& request,
                                                       HttpAnswer& answer) {
    GenerationChoices usual;
    constexpr int64_t kUsualLength = 16;  // of OpenAI's API
    usual.length = is_chat ? model.sequence() : kUsualLength;
    const auto read = read_completion_request(request.body, is_chat, usual);
    const int status = request.body.size() > kMostRequestBytes ? 413 : 400;
    if (!read.ok()) return refuse(answer, status, read.error());
    const auto completion = std::make_shared<LanguageAnswer>(model, name, ++*number, *read);
    if (const std::string fault = completion->fault(); !fault.empty()) {
      return refuse(answer, 400, fault);
    }
    if (!completion->streams()) return completion->answer(answer);
    answer.type = "text/event-stream";
    answer.writes = [completion](HttpStream& stream) { completion->write(stream); };
  };
  return {"POST", is_chat ? "/v1/chat/completions" : "/v1/completions", true, true, respond};
}

}  // namespace

HttpRoutes language_routes(const LanguageModel& model, const std::string& name) {
  const auto health = [](const HttpRequest&, HttpAnswer& answer) {
    answer.body = compact_text({{"ready", true}}) + "\n";
  };
  const auto models = [name](const HttpRequest&, HttpAnswer& answer) {
    const Json one = {{"id", name}, {"object", "model"}, {"created", 0}, {"owned_by", "mantissa"}};
    answer.body = compact_text({{"object", "list"}, {"data", Json::array({one})}}) + "\n";
  };
  return {.routes = {{"GET", "/health", false, false, health},
                     {"GET", "/v1/models", false, false, models},
                     completion_route(model, name, false),
                     completion_route(model, name, true)},
          .error_text = [](int status, const std::string& why) {
            return compact_text(error_json(status, why)) + "\n";
          }};
}

}  // namespace mantissa::cli
