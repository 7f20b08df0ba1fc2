// Examples of a text.
#include "data/text/conversations.h"
#include "data/text/text.h"

namespace mantissa {

int64_t text_example_count(int64_t tokens, int64_t sequence) {
  return tokens < 1 || sequence < 1 ? 0 : (tokens - 1) / sequence;
}

Examples text_examples(std::span<const Token> tokens, int64_t sequence) {
  Examples examples;
  examples.count = text_example_count(std::ssize(tokens), sequence);
  examples.specs = specs_for(TextTask::kNextToken, sequence);
  examples.write = [tokens, sequence](uint32_t, uint32_t example,
                                      std::span<std::byte* const> places) {
    const Token* from = tokens.data() + example * sequence;
    auto* inputs = reinterpret_cast<int32_t*>(places[0]);
    auto* labels = reinterpret_cast<int32_t*>(places[1]);
    for (int64_t i = 0; i < sequence; ++i) {
      inputs[i] = from[i];
      labels[i] = from[i + 1];
    }
  };
  return examples;
}

std::vector<TensorSpec> specs_for(TextTask task, int64_t sequence) {
  const auto whole = [&](const char* name) {
    return TensorSpec{name, DataType::kInt32, Shape{sequence}};
  };
  const auto single = [](const char* name) { return TensorSpec{name, DataType::kInt32, Shape{}}; };
  switch (task) {
    case TextTask::kMasks:
      return {whole(kTokenTensor), whole(kSegmentTensor), single(kLengthTensor),
              whole(kLabelTensor)};
    case TextTask::kTranslation:
      return {whole(kSourceTensor), single(kSourceLengthTensor), whole(kTranslationTensor),
              whole(kLabelTensor)};
    case TextTask::kNextToken:
      break;
  }
  return {whole(kTokenTensor), whole(kLabelTensor)};
}

Examples examples_for(const Vocabulary& vocabulary, std::span<const Token> tokens,
                      const TextOptions& options, uint64_t seed) {
  switch (options.task) {
    case TextTask::kMasks:
      return masked_examples(tokens, options.sequence, vocabulary, seed);
    case TextTask::kTranslation:
      return pair_examples(tokens, options.sequence, vocabulary.line_feed().value_or(0));
    case TextTask::kNextToken:
      break;
  }
  if (are_conversations(tokens)) {
    return answer_examples(tokens, options.sequence, padding_of(vocabulary));
  }
  return text_examples(tokens, options.sequence);
}

}  // namespace mantissa
