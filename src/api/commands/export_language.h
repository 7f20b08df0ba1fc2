// The export command's files of language models: GGUF, a folder of Hugging Face's transformers, and
// adapters in PEFT's layout (docs/language.md).
#pragma once

#include <cstdint>
#include <string>

#include "api/outcome.h"
#include "mantissa/runs.h"
#include "networks/language/written_model.h"

namespace mantissa {

enum class LanguageTarget : uint8_t { kGguf, kHuggingFace, kPeft };

struct LanguageExport {
  LanguageTarget target = LanguageTarget::kGguf;
  std::string path;      // a frozen network, or a file of import
  std::string weights;   // "blocks", "q8_0", "f32" ...; "": by the network's weights
  int64_t positions = 0;  // of the longest text; 0: the network's
  std::string base;      // of adapters: the model that they belong to
  std::string out;       // a file, or a folder
};

Outcome<ExportedModel> export_language_model(const LanguageExport& request);

}  // namespace mantissa
