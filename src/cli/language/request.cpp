#include "cli/language/request.h"

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "cli/terminal/text.h"

namespace mantissa::cli {
namespace {

using JsonValue = nlohmann::json;
using Request = CompletionRequest;

constexpr size_t kMostStops = 4;
constexpr int64_t kMostTokens = 1 << 20;

Failure bad_request(const std::string& what) { return {Exit::kInvalidInput, what}; }

// Deeper values would overflow the stack of whoever copies them.
bool is_too_deep(std::string_view text) {
  constexpr int kMostDepth = 32;
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if ((c == '{' || c == '[') && ++depth > kMostDepth) {
      return true;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return false;
}

// Readers of an entry: "" or what is wrong with it.
using Reader = std::string (*)(const JsonValue& value, Request& request);

template <bool Request::*kField>
std::string read_flag(const JsonValue& value, Request& request) {
  if (!value.is_boolean()) return "is neither true nor false";
  request.*kField = value.get<bool>();
  return "";
}

std::string read_text(const JsonValue& value, Request&) {
  return value.is_string() ? "" : "is no text";
}

std::string read_whole(const JsonValue& value, int64_t least, int64_t most, int64_t& into) {
  const bool is_whole = value.is_number_integer() && value >= least && value <= most;
  if (!is_whole) {
    return "is no whole number from " + std::to_string(least) + " to " + std::to_string(most);
  }
  into = value.get<int64_t>();
  return "";
}

std::string read_length(const JsonValue& value, Request& request) {
  return read_whole(value, 1, kMostTokens, request.choices.length);
}

std::string read_top_k(const JsonValue& value, Request& request) {
  return read_whole(value, 0, kMostTokens, request.choices.top_k);
}

std::string read_seed(const JsonValue& value, Request& request) {
  int64_t seed = 0;
  const std::string fault = read_whole(value, 0, INT64_MAX, seed);
  if (fault.empty()) request.choices.seed = static_cast<uint64_t>(seed);
  return fault;
}

std::string read_temperature(const JsonValue& value, Request& request) {
  constexpr double kMost = 2;
  const bool fits = value.is_number() && value >= 0 && value <= kMost;
  if (!fits) return "is no number from 0 to 2";
  request.choices.temperature = value.get<double>();
  return "";
}

std::string read_top_p(const JsonValue& value, Request& request) {
  const bool fits = value.is_number() && value > 0 && value <= 1;
  if (!fits) return "is no number above 0, and at most 1";
  request.choices.top_p = value.get<double>();
  return "";
}

std::string read_stop(const JsonValue& value, Request& request) {
  const JsonValue list = value.is_array() ? value : JsonValue::array({value});
  if (list.size() > kMostStops) return "has more than 4 texts";
  for (const JsonValue& text : list) {
    if (!text.is_string() || text.get_ref<const std::string&>().empty()) {
      return "is no text, and no list of texts";
    }
    request.choices.stop.push_back(text.get<std::string>());
  }
  return "";
}

std::string read_stream_options(const JsonValue& value, Request& request) {
  if (!value.is_object()) return "is no object";
  for (const auto& [name, entry] : value.items()) {
    if (name != "include_usage") return "has an entry other than include_usage";
    if (!entry.is_boolean()) return "has an include_usage that is neither true nor false";
    request.streams_usage = entry.get<bool>();
  }
  return "";
}

std::string read_prompt(const JsonValue& value, Request& request) {
  const bool is_list = value.is_array() && value.size() == 1;
  const JsonValue& text = is_list ? value[0] : value;
  if (!text.is_string()) return "is no text: one text is possible, no tokens and no several texts";
  request.prompt = text.get<std::string>();
  return "";
}

// A text, or a list of parts that are texts.
std::string read_content(const JsonValue& value, std::string& into) {
  if (value.is_string()) {
    into = value.get<std::string>();
    return "";
  }
  if (!value.is_array()) return "has a message whose content is no text";
  for (const JsonValue& part : value) {
    const bool is_text = part.is_object() && part.size() == 2 &&
                         part.value("type", JsonValue()) == "text" &&
                         part.value("text", JsonValue()).is_string();
    if (!is_text) return "has a message with a part that is no text";
    into += part["text"].get<std::string>();
  }
  return "";
}

std::string read_messages(const JsonValue& value, Request& request) {
  if (!value.is_array() || value.empty()) return "is no list of messages";
  for (const JsonValue& each : value) {
    ChatMessage message;
    if (!each.is_object()) return "has a message that is no object";
    for (const auto& [name, entry] : each.items()) {
      if (name != "role" && name != "content") {
        return "has a message with '" + name + "'; messages have role and content alone";
      }
    }
    const JsonValue role = each.value("role", JsonValue());
    const bool is_known = role == "system" || role == "user" || role == "assistant";
    if (!is_known) return "has a message whose role is none of system, user and assistant";
    message.role = role.get<std::string>();
    const std::string fault = read_content(each.value("content", JsonValue()), message.content);
    if (!fault.empty()) return fault;
    request.messages.push_back(std::move(message));
  }
  return "";
}

// Entries that ask for nothing with this value; any other is refused.
template <typename T, T kValue>
std::string read_only(const JsonValue& value, Request&) {
  const JsonValue neutral(kValue);
  return value == neutral ? "" : "is not there: only " + neutral.dump() + " is possible";
}

std::string read_nothing(const JsonValue& value, Request&) {
  return value.empty() || value == JsonValue("") ? "" : "is not there: leave it out";
}

std::string read_response_format(const JsonValue& value, Request&) {
  return value == JsonValue{{"type", "text"}} ? "" : "is not there: answers are texts";
}

enum class In { kBoth, kTexts, kChats };

struct Entry {
  const char* name;
  Reader read;
  In in = In::kBoth;
};

constexpr Entry kEntries[] = {{"model", read_text},
                              {"user", read_text},
                              {"prompt", read_prompt, In::kTexts},
                              {"messages", read_messages, In::kChats},
                              {"max_tokens", read_length},
                              {"max_completion_tokens", read_length, In::kChats},
                              {"temperature", read_temperature},
                              {"top_k", read_top_k},
                              {"seed", read_seed},
                              {"stop", read_stop},
                              {"stream", read_flag<&Request::streams>},
                              {"stream_options", read_stream_options},
                              {"top_p", read_top_p},
                              {"n", read_only<int, 1>},
                              {"best_of", read_only<int, 1>, In::kTexts},
                              {"echo", read_only<bool, false>, In::kTexts},
                              {"presence_penalty", read_only<int, 0>},
                              {"frequency_penalty", read_only<int, 0>},
                              {"logit_bias", read_nothing},
                              {"suffix", read_nothing, In::kTexts},
                              {"logprobs", read_only<bool, false>, In::kChats},
                              {"tools", read_nothing, In::kChats},
                              {"response_format", read_response_format, In::kChats}};

const Entry* entry_named(const std::string& name, bool is_chat) {
  for (const Entry& entry : kEntries) {
    const bool fits = entry.in == In::kBoth || (entry.in == In::kChats) == is_chat;
    if (fits && name == entry.name) return &entry;
  }
  return nullptr;
}

}  // namespace

Outcome<CompletionRequest> read_completion_request(const std::string& body, bool is_chat,
                                                   const GenerationChoices& choices) {
  if (body.size() > kMostRequestBytes) return bad_request("the body has more than 1 MiB");
  if (is_too_deep(body)) return bad_request("the body has values that are nested too deeply");
  const JsonValue json = JsonValue::parse(body, nullptr, false);
  if (!json.is_object()) return bad_request("the body is no JSON object");
  Request request;
  request.is_chat = is_chat;
  request.choices = choices;
  for (const auto& [name, value] : json.items()) {
    const Entry* const entry = entry_named(name, is_chat);
    if (entry == nullptr) {
      return bad_request("'" + printable(shortened(name, 60)) + "' is not known");
    }
    if (value.is_null()) continue;  // as if it were left out
    const std::string fault = entry->read(value, request);
    if (!fault.empty()) return bad_request(name + ": " + printable(shortened(fault, 200)));
  }
  if (is_chat && request.messages.empty()) return bad_request("messages: is missing");
  if (!is_chat && request.prompt.empty()) return bad_request("prompt: is missing, or empty");
  return request;
}

}  // namespace mantissa::cli
