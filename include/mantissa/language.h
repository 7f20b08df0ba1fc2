// Language models: text from a trained network.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "mantissa/export.h"
#include "mantissa/mantissa.h"
#include "mantissa/outcome.h"

namespace mantissa {

struct GenerationOutcome {
  Exit exit = Exit::kDone;
  std::string error;
  std::string prompt, text;  // the text follows the prompt
};

// Generates text behind "prompt" with the language model of a run (or its model.safetensors file),
// "checkpoint": "length" tokens, drawn at "temperature" among "top-k" by "seed". The observer is
// told each piece as it is there, and returns false to stop.
MANTISSA_EXPORT GenerationOutcome
generate(const Settings& settings,
         const std::function<bool(const std::string& text)>& observer = nullptr);

}  // namespace mantissa
