// The families of language models that are known.
#pragma once

#include <algorithm>
#include <iterator>
#include <string_view>

#include "models/decoder.h"

namespace mantissa {

struct ModelFamily {
  std::string_view name;  // GGUF's general.architecture, and model_type of config.json
  DecoderLayout layout;
  std::string_view class_name;  // transformers'
};
inline constexpr ModelFamily kModelFamilies[] = {
    {"llama", DecoderLayout::kLlama, "LlamaForCausalLM"},
    {"qwen2", DecoderLayout::kLlama, "Qwen2ForCausalLM"},
    {"qwen3", DecoderLayout::kLlama, "Qwen3ForCausalLM"},
    {"gpt2", DecoderLayout::kGpt2, "GPT2LMHeadModel"}};
inline constexpr const char* kKnownFamilies = "llama, qwen2, qwen3 and gpt2 are those that are known";

// Null: it is not known.
inline const ModelFamily* find_family(std::string_view name) {
  const auto* const found = std::ranges::find(kModelFamilies, name, &ModelFamily::name);
  return found == std::end(kModelFamilies) ? nullptr : found;
}

}  // namespace mantissa
