#include "data/text/whole_text.h"

#include <algorithm>
#include <cstddef>

#include "data/text/text.h"

namespace mantissa {

Examples whole_text_examples(std::span<const Token> tokens, int64_t sequence, Token padding) {
  const auto predicted = std::ssize(tokens) - 1;
  const auto length = [predicted, sequence](uint32_t example) {
    return std::min(sequence, predicted - example * sequence);
  };
  Examples examples;
  examples.count = (predicted + sequence - 1) / sequence;
  examples.specs = specs_for(TextTask::kNextToken, sequence);
  examples.length = [length](uint32_t example) { return static_cast<int32_t>(length(example)); };
  examples.write = [=](uint32_t, uint32_t example, std::span<std::byte* const> places) {
    const auto from = tokens.subspan(static_cast<size_t>(example * sequence));
    auto* inputs = reinterpret_cast<int32_t*>(places[0]);
    auto* labels = reinterpret_cast<int32_t*>(places[1]);
    for (int64_t i = 0; i < sequence; ++i) {
      const bool is_there = i < length(example);
      inputs[i] = is_there ? from[static_cast<size_t>(i)] : padding;
      labels[i] = is_there ? from[static_cast<size_t>(i) + 1] : kIgnoredLabel;
    }
  };
  return examples;
}

}  // namespace mantissa
