// Requests of /v1/completions and /v1/chat/completions, in OpenAI's shape.
#pragma once

#include <string>
#include <vector>

#include "mantissa/language.h"
#include "mantissa/outcome.h"

namespace mantissa::cli {

struct CompletionRequest {
  bool is_chat = false;
  std::string prompt;                 // or
  std::vector<ChatMessage> messages;  // of a chat
  GenerationChoices choices;
  bool streams = false, streams_usage = false;
};

constexpr size_t kMostRequestBytes = size_t{1} << 20;

// Reads a body. `choices`: what a request leaves out. A failure names the entry: bodies that are no
// JSON, too long or too deep, entries that are not known, or ask for something that is not there.
Outcome<CompletionRequest> read_completion_request(const std::string& body, bool is_chat,
                                                   const GenerationChoices& choices);

}  // namespace mantissa::cli
