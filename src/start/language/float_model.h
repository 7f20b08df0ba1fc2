// A trained language model in Llama's layout in fp32.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "data/tokenizers/vocabulary.h"
#include "graph/graph.h"
#include "models/decoder.h"
#include "runtime/state.h"

namespace mantissa {

struct FloatLanguageModel {
  Graph graph;  // without adapters, which are merged
  DecoderSizes sizes;
  State state;
  std::shared_ptr<const Vocabulary> vocabulary;  // of byte-level BPE
  std::string smoothed;                          // kSmoothedEntry of the file; "": it was not
  int64_t file_bytes = 0;                        // were in memory, too, while it was read

  int64_t sequence() const { return graph.values[graph.inputs[0]].shape[0]; }
  std::span<float> numbers(int parameter) {
    return {state.data<float>(state.layout().parameters[static_cast<size_t>(parameter)].mantissa),
            static_cast<size_t>(graph.parameters[static_cast<size_t>(parameter)].shape.count())};
  }
};

// Reads it (read_language_source). Errors name the path: another layout, weights in blocks, tokens
// that import does not write.
Result<FloatLanguageModel> load_float_language_model(const std::string& path);

}  // namespace mantissa
