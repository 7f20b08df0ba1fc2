#include "api/inference/evaluate_language.h"

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/outcome.h"
#include "base/files/atomic_file.h"
#include "data/batches/ordered_batches.h"
#include "data/text/parallel_text.h"
#include "data/text/text.h"
#include "data/text/translation_score.h"
#include "infer/tasks/language.h"
#include "infer/text/translate.h"
#include "kernels/kernel_table.h"

namespace mantissa {
namespace {

void tell(const Observer& observer, std::string message) {
  if (observer == nullptr) return;
  Progress progress;
  progress.kind = Progress::Kind::kMessage;
  progress.message = std::move(message);
  observer(progress);
}

// The score of translations of all test pairs, those too that are longer than is read.
Result<TranslationScore> score_test(FrozenNetwork& network, const std::string& path,
                                    const InferenceConfig& config, ThreadPool& pool,
                                    const Observer& observer) {
  MANTISSA_ASSIGN(const ParallelText pairs, load_parallel_text(path));
  std::vector<std::string> sources, references;
  for (const SentencePair& pair : pairs.test) {
    sources.push_back(pair.source);
    references.push_back(pair.target);
  }
  MANTISSA_ASSIGN(
      const Translations translations,
      translate_sentences(network, sources, {.beam = config.beam}, pool, config.isa,
                          counting(observer, Progress::Kind::kTranslating, std::ssize(sources))));
  return score_translations(translations.texts, references);
}

}  // namespace

Result<EvaluationOutcome> evaluate_language(const InferenceConfig& config, FrozenNetwork& network,
                                            const Observer& observer) {
  MANTISSA_ASSIGN(const LanguageOptions options, language_options(network.description.network));
  const std::string source = config.data.empty() ? network.description.data : config.data;
  MANTISSA_ASSIGN(const Vocabulary vocabulary, vocabulary_of(network.description));
  const TextOptions text{.sequence = options.sequence, .task = options.task};
  std::vector<std::string> notes;
  MANTISSA_ASSIGN(const std::vector<Token> tokens,
                  load_test_tokens(source, vocabulary, text, notes));
  for (const std::string& note : notes) tell(observer, source + ": " + note);
  const Examples examples = examples_for(vocabulary, tokens, text, kTestMasks);
  const kernels::KernelTable table = kernels::select_kernels(config.isa);
  MANTISSA_ASSIGN(const EvaluationPrograms programs,
                  compile_evaluation(network.graph, network.description.format, config.batch_size,
                                     examples.count, {&table, config.threads}));
  MANTISSA_ASSIGN(const AlignedMemory arena, AlignedMemory::create(programs.arena_bytes()));
  ThreadPool pool(config.threads);
  Programs executors = inference_programs(network, programs, {pool, arena.span(), config.isa});
  MANTISSA_ASSIGN(OrderedBatches batches, OrderedBatches::create(examples, programs.batch_size));
  const auto start = std::chrono::steady_clock::now();
  MANTISSA_ASSIGN(
      const Score score,
      measure_language(executors, batches, options,
                       counting(observer, Progress::Kind::kEvaluating, examples.count)));
  std::optional<TranslationScore> translation;
  if (options.task == TextTask::kTranslation) {
    MANTISSA_ASSIGN(translation, score_test(network, source, config, pool, observer));
  }
  EvaluationOutcome outcome;
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  outcome.model_sha256 = network.state.sha256(StateGroup::kPredictor);
  if (!config.out.empty()) {
    MANTISSA_RETURN_IF_ERROR(write_text_atomically(
        config.out, language_json(score, options, source, outcome.model_sha256, translation)));
  }
  outcome.json =
      language_json(score, options, source, outcome.model_sha256, translation, outcome.seconds);
  outcome.examples = score.examples;
  outcome.accuracy = score.accuracy();
  outcome.loss = score.loss;
  outcome.bits_per_token = bits_of_nats(score.loss);
  outcome.perplexity = perplexity_of_nats(score.loss);
  outcome.has_bytes = vocabulary.tokens() == Tokens::kBytes;
  outcome.bits_per_character = outcome.bits_per_token;
  if (translation) {
    outcome.bleu = translation->bleu;
    outcome.chrf = translation->chrf;
  }
  if (options.task == TextTask::kNextToken) {
    const auto predicted = std::span(tokens).subspan(1, examples.count * options.sequence);
    outcome.bits_per_character *= static_cast<double>(predicted.size()) /
                                  static_cast<double>(vocabulary.characters(predicted));
  }
  return outcome;
}

}  // namespace mantissa
