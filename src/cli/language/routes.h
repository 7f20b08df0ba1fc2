// A language model over HTTP, as OpenAI's API has it.
#pragma once

#include <string>

#include "cli/http/server.h"
#include "mantissa/language.h"

namespace mantissa::cli {

// /health, /v1/models, /v1/completions and /v1/chat/completions. The model must outlive the routes,
// and answers one request after the other. `name`: what answers call the model.
HttpRoutes language_routes(const LanguageModel& model, const std::string& name);

}  // namespace mantissa::cli
