// Generated texts of the public interface.
#pragma once

#include <string>
#include <utility>

#include "infer/text/generate.h"
#include "mantissa/language.h"

namespace mantissa {

inline GeneratedText generated_text(std::string prompt, TextGoneOn text) {
  const TextFinish finish = text.end == TextEnd::kEnd       ? TextFinish::kEnd
                            : text.end == TextEnd::kStopped ? TextFinish::kStopped
                                                            : TextFinish::kLength;
  return {.prompt = std::move(prompt),
          .text = std::move(text.text),
          .tokens = text.tokens,
          .finish = finish};
}

inline GenerationMemory memory_of(const Generator& generator) {
  const DecoderMemory memory = generator.memory();
  return {.weights = memory.weights, .cache = memory.cache, .arena = memory.arena,
          .is_cached = generator.is_cached()};
}

}  // namespace mantissa
