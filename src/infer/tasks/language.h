// The task of language models: examples are sequences of tokens, networks have logits for the token
// that follows each.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "data/text/text.h"
#include "data/text/translation_score.h"
#include "graph/graph.h"
#include "infer/tasks/task.h"

namespace mantissa {

// A network's sizes: it has the inputs "tokens" and "labels", int32 [sequence], one result
// [sequence, vocabulary], and one loss between that and the labels. A masked language model has the
// inputs "segments", int32 [sequence], and "lengths", int32 [], too. A network that translates has
// "target" in place of "tokens", and "source", int32 [sequence], and "source_length", int32 [].
struct LanguageOptions {
  int64_t sequence = 0;
  int64_t vocabulary = 0;
  TextTask task = TextTask::kNextToken;
  ops::LossKind loss = ops::LossKind::kCrossEntropy;
};

// The sizes of a network that reads tokens (reads_tokens). An error if it is no language model.
Result<LanguageOptions> language_options(const Graph& network);

// Scores count tokens: loss and accuracy are means over them.
Task language_task(const LanguageOptions& options, std::string data);

// evaluation.json of a language model. `seconds` only if the time belongs to the results.
std::string language_json(const Score& score, const LanguageOptions& options,
                          const std::string& data, const std::string& model_sha256,
                          const std::optional<TranslationScore>& translation,
                          std::optional<double> seconds);

}  // namespace mantissa
