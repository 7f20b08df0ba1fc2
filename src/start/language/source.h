// Trained language models as sources of others: a run, its frozen network, or a file of import.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "data/tokenizers/vocabulary.h"
#include "graph/graph.h"
#include "run/settings/starting_point.h"

namespace mantissa {

// A trained network with its numbers and its tokens.
struct LanguageSource {
  TrainedFile file;
  Graph network;
  std::shared_ptr<const Vocabulary> vocabulary;  // null: it names no tokens
};

// Reads it from a file, or from the folder of a run that has ended. Errors name the path.
Result<LanguageSource> read_language_source(const std::string& path);

}  // namespace mantissa
