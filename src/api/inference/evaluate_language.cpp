// The eval command for language models.
#include <bit>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/inference/evaluate.h"
#include "api/outcome.h"
#include "data/text/conversations.h"
#include "data/text/parallel_text.h"
#include "data/text/text.h"
#include "data/text/translation_score.h"
#include "data/text/whole_text.h"
#include "infer/length_programs.h"
#include "infer/tasks/language.h"
#include "infer/text/translate.h"

namespace mantissa {
namespace {

// The score of translations of all test pairs, those too that are longer than is read.
Result<TranslationScore> score_test(FrozenNetwork& network, const std::string& path,
                                    const EvaluationConfig& config, const Observer& observer) {
  ThreadPool pool(config.threads);
  MANTISSA_ASSIGN(const ParallelText pairs, load_parallel_text(path));
  std::vector<std::string> sources, references;
  for (const SentencePair& pair : pairs.test) {
    sources.push_back(pair.source);
    references.push_back(pair.target);
  }
  MANTISSA_ASSIGN(
      const TranslatedTexts translations,
      translate_sentences(network, sources, {.beam = config.beam}, pool, config.isa,
                          counting(observer, Progress::Kind::kTranslating, std::ssize(sources))));
  return score_translations(translations.texts, references);
}

void add_bits(const Vocabulary& vocabulary, const Task::Report& report, Evaluation& result) {
  result.bits_per_token = report.score.language->bits_per_token;
  result.perplexity = report.score.language->perplexity;
  result.has_bytes = vocabulary.tokens() == Tokens::kBytes;
  result.bits_per_character = result.bits_per_token;
}

// The loss of the predicted tokens, divided among the characters and bytes of their text.
void add_bits_of_text(const Vocabulary& vocabulary, const std::vector<Token>& predicted,
                      const LanguageOptions& options, const std::string& source,
                      Task::Report& report, Evaluation& result) {
  const auto per = [&](auto count) {
    return result.bits_per_token * static_cast<double>(predicted.size()) /
           static_cast<double>(count);
  };
  result.bits_per_character = per(vocabulary.characters(predicted));
  result.bits_per_byte = per(vocabulary.decode(predicted).size());
  report.score.language->bits_per_byte = result.bits_per_byte;
  report.json = [=, score = report.score](const std::string& model_sha256,
                                          std::optional<double> seconds) {
    return language_json(score, options, source, model_sha256, std::nullopt, seconds);
  };
}

// A text that is shorter than the sequence is computed with as many positions as the next power of
// two, if the network takes that.
BatchLengths lengths_for(const FrozenNetwork& network, int64_t sequence, int64_t tokens) {
  const auto length = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(tokens)));
  if (length >= sequence) return {};
  const BatchLengths lengths = {length, sequence};
  return check_lengths(network.graph, false, lengths).ok() ? lengths : BatchLengths{};
}

}  // namespace

Outcome<Evaluation> evaluate_text(const EvaluationConfig& config, FrozenNetwork& network,
                                  const std::string& text, const Observer& observer) {
  MANTISSA_ASSIGN(const LanguageOptions options, language_options(network.description.network));
  MANTISSA_ASSIGN(const Vocabulary vocabulary, vocabulary_of(network.description));
  MANTISSA_ASSIGN(const std::vector<Token> tokens, vocabulary.encode(text));
  if (tokens.size() < 2) {
    return invalid_input("the text has " + std::to_string(tokens.size()) +
                         " tokens, and a loss needs two: the second is predicted from the first");
  }
  const int64_t predicted = std::ssize(tokens) - 1;
  const Examples examples = whole_text_examples(tokens, options.sequence, padding_of(vocabulary));
  Evaluation result;
  MANTISSA_ASSIGN(Task::Report report,
                  evaluate_task(config, network, language_task(options, ""), examples,
                                lengths_for(network, options.sequence, predicted), observer,
                                result));
  add_bits(vocabulary, report, result);
  add_bits_of_text(vocabulary, {tokens.begin() + 1, tokens.end()}, options, "", report, result);
  MANTISSA_RETURN_IF_ERROR(write_report(config, report, result));
  return result;
}

Outcome<Evaluation> evaluate_language(const EvaluationConfig& config, FrozenNetwork& network,
                                      const Observer& observer) {
  MANTISSA_ASSIGN(const LanguageOptions options, language_options(network.description.network));
  const std::string source = config.data.empty() ? network.description.data : config.data;
  if (source.empty()) {
    return invalid_input("--data: name a text; the model of a file has none of its own");
  }
  MANTISSA_ASSIGN(const Vocabulary vocabulary, vocabulary_of(network.description));
  const TextOptions text{.sequence = options.sequence, .task = options.task};
  std::vector<std::string> notes;
  MANTISSA_ASSIGN(const std::vector<Token> tokens,
                  load_test_tokens(source, vocabulary, text, notes));
  for (const std::string& note : notes) tell(observer, source + ": " + note);
  const Examples examples = examples_for(vocabulary, tokens, text, kTestMasks);
  Evaluation result;
  MANTISSA_ASSIGN(Task::Report report,
                  evaluate_task(config, network, language_task(options, source), examples,
                                text_lengths(network.description, kTextLengths), observer, result));
  if (options.task == TextTask::kTranslation) {
    const auto start = std::chrono::steady_clock::now();
    MANTISSA_ASSIGN(const TranslationScore translation,
                    score_test(network, source, config, observer));
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    result.seconds += time.count();
    result.bleu = translation.bleu;
    result.chrf = translation.chrf;
    report.json = [=, score = report.score](const std::string& model_sha256,
                                            std::optional<double> seconds) {
      return language_json(score, options, source, model_sha256, translation, seconds);
    };
  }
  add_bits(vocabulary, report, result);
  if (options.task == TextTask::kNextToken) {
    add_bits_of_text(vocabulary, predicted_tokens(tokens, options.sequence), options, source,
                     report, result);
  }
  MANTISSA_RETURN_IF_ERROR(write_report(config, report, result));
  return result;
}

}  // namespace mantissa
