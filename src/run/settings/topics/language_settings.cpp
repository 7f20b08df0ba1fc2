#include <iterator>
#include <string_view>

#include "data/tokenizers/wordpiece.h"
#include "infer/tasks/language.h"
#include "networks/network.h"
#include "run/settings/topics.h"

namespace mantissa {
namespace {

// A language model that a run starts from brings its vocabulary: its numbers mean nothing with
// another one. Settings may repeat it.
Status take_known_vocabulary(const std::map<std::string, std::string>& settings,
                             RunConfig& config) {
  if (!config.start) return {};
  MANTISSA_ASSIGN(const TrainedFile trained, reread(*config.start, Reading::kByParameter));
  MANTISSA_ASSIGN(config.known_vocabulary, vocabulary_of(trained));
  if (!config.known_vocabulary) return {};
  const Vocabulary& known = *config.known_vocabulary;
  const Tokens tokens = known.tokens();
  if (settings.contains("tokens") && config.tokens != tokens) {
    return invalid_input("tokens " + std::string(tokens_name(config.tokens)) + ": " +
                         config.start->source + " knows " + std::string(tokens_name(tokens)) +
                         ", and keeps them: leave it out");
  }
  config.tokens = tokens;
  const bool has_pieces = tokens == Tokens::kPieces || tokens == Tokens::kWordPieces;
  const auto pieces = std::ssize(known.names()) - (known.wordpiece() == nullptr && known.mask());
  if (has_pieces && config.vocabulary > 0 && config.vocabulary < pieces) {
    return invalid_input("vocabulary " + std::to_string(config.vocabulary) + ": " +
                         config.start->source + " has " + std::to_string(pieces) +
                         " pieces, and keeps them: leave it out");
  }
  if (config.vocabulary_file.empty()) {
    if (has_pieces && config.vocabulary == 0) config.vocabulary = pieces;
    return {};
  }
  MANTISSA_ASSIGN(const WordPiece tokenizer, read_wordpiece(config.vocabulary_file));
  if (tokenizer.pieces() == known.names()) return {};
  return invalid_input("vocabulary: " + config.start->source + " has other pieces than " +
                       config.vocabulary_file + ", and keeps them: leave it out");
}

// How many pieces of words there are, or the file that has them.
Status take_vocabulary(bool translates, RunConfig& config) {
  const bool has_words = config.tokens == Tokens::kWordPieces;
  if (has_words && translates) {
    return invalid_input(
        "tokens wordpiece: loses spaces and line feeds; networks that translate take "
        "sentencepiece, "
        "characters or bytes");
  }
  if (!has_words && !config.vocabulary_file.empty()) {
    return invalid_input("vocabulary: the file of a tokenizer is for --tokens wordpiece, and " +
                         config.vocabulary_file + " is no number of pieces");
  }
  const bool has_pieces = has_words || config.tokens == Tokens::kPieces;
  if (!has_pieces && config.vocabulary > 0) {
    return invalid_input("vocabulary: is for --tokens sentencepiece and wordpiece; " +
                         std::string(tokens_name(config.tokens)) + " are as many as there are");
  }
  const bool is_open = config.vocabulary == 0 && config.vocabulary_file.empty();
  if (has_pieces && is_open) config.vocabulary = kUsualPieces;
  return {};
}

}  // namespace

Status take_language(const std::map<std::string, std::string>& settings, RunConfig& config) {
  constexpr int64_t kSequence = 128, kSentence = 64;
  const bool is_language = config.network ? reads_tokens(*config.network) && !reads_texts(config) &&
                                                !reads_named_arrays(config)
                                          : is_language_model(config.model);
  if (!is_language) {
    for (const char* name : {"sequence", "tokens", "vocabulary", "pack", "tied"}) {
      const bool of_texts =
          name == std::string_view("sequence") || name == std::string_view("vocabulary");
      if (!settings.contains(name) || (reads_texts(config) && of_texts)) continue;
      if (name == std::string_view("sequence") && config.sequence == 0) continue;
      return invalid_input(std::string(name) +
                           ": is for language models, such as transformer_lm; " + config.model +
                           (reads_texts(config) ? " reads texts with labels" : " reads pictures"));
    }
    return {};
  }
  if (config.network) {
    MANTISSA_ASSIGN(const LanguageOptions options, language_options(*config.network));
    if (config.sequence == 0) config.sequence = options.sequence;
    if (config.sequence != options.sequence) {
      return invalid_input("sequence " + std::to_string(config.sequence) + ": " +
                           config.network_file + " says it itself, " +
                           std::to_string(options.sequence) + ": leave it out, or change the file");
    }
  }
  const bool translates = text_options(config).task == TextTask::kTranslation;
  if (config.sequence == 0) config.sequence = translates ? kSentence : kSequence;
  if (translates && !settings.contains("tokens")) config.tokens = Tokens::kPieces;
  MANTISSA_RETURN_IF_ERROR(take_known_vocabulary(settings, config));
  MANTISSA_RETURN_IF_ERROR(take_vocabulary(translates, config));
  if (config.loss != ops::LossKind::kCrossEntropy) {
    return invalid_input("loss " + std::string(ops::loss_of(config.loss).name) +
                         ": is for networks of pictures; language models have cross-entropy");
  }
  if (!settings.contains("optimizer")) config.optimizer = OptimizerKind::kAdam;
  if (!settings.contains("batch-size")) config.batch_size = 16;
  return {};
}

TextOptions text_options(const RunConfig& config) {
  TextTask task = is_masked_model(config.model)        ? TextTask::kMasks
                  : is_translation_model(config.model) ? TextTask::kTranslation
                                                       : TextTask::kNextToken;
  if (config.network) {
    const auto options = language_options(*config.network);
    task = options.ok() ? options->task : TextTask::kNextToken;
  }
  return {.sequence = config.sequence,
          .tokens = config.tokens,
          .pieces = config.vocabulary,
          .vocabulary_file = config.vocabulary_file,
          .task = task,
          .known = config.known_vocabulary,
          .packs = config.pack};
}

}  // namespace mantissa
