#include "api/evaluate_language.h"

#include <chrono>
#include <utility>

#include "base/atomic_file.h"
#include "data/ordered_batches.h"
#include "data/text.h"
#include "kernels/kernel_table.h"
#include "train/language.h"

namespace mantissa {

Result<EvaluationOutcome> evaluate_language(const InferenceConfig& config, FrozenNetwork& network,
                                            const Observer& observer) {
  MANTISSA_ASSIGN(const LanguageOptions options, language_options(network.description.network));
  const std::string source = config.data.empty() ? network.description.data : config.data;
  const Vocabulary vocabulary(network.description.class_names);
  MANTISSA_ASSIGN(const std::vector<Token> tokens,
                  load_test_tokens(source, vocabulary, options.sequence));
  const Examples examples = examples_for(vocabulary, tokens, options.sequence, kTestMasks);
  const kernels::KernelTable table = kernels::select_kernels(config.isa);
  MANTISSA_ASSIGN(const EvaluationPrograms programs,
                  compile_evaluation(network.graph, network.description.format, config.batch_size,
                                     examples.count, {&table, config.threads}));
  MANTISSA_ASSIGN(const AlignedMemory arena, AlignedMemory::create(programs.arena_bytes()));
  ThreadPool pool(config.threads);
  Programs executors = inference_programs(network, programs, {pool, arena.span(), config.isa});
  MANTISSA_ASSIGN(OrderedBatches batches, OrderedBatches::create(examples, programs.batch_size));
  const auto start = std::chrono::steady_clock::now();
  const auto report = [&](int64_t done) {
    if (observer == nullptr) return true;
    Progress progress;
    progress.kind = Progress::Kind::kEvaluating;
    progress.step = done;
    progress.steps = examples.count;
    return observer(progress);
  };
  MANTISSA_ASSIGN(const Score score, measure_language(executors, batches, options, report));
  EvaluationOutcome outcome;
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  outcome.model_sha256 = network.state.sha256(StateGroup::kPredictor);
  if (!config.out.empty()) {
    MANTISSA_RETURN_IF_ERROR(write_text_atomically(
        config.out, language_json(score, options, source, outcome.model_sha256)));
  }
  outcome.json = language_json(score, options, source, outcome.model_sha256, outcome.seconds);
  outcome.examples = score.examples;
  outcome.accuracy = score.accuracy();
  outcome.loss = score.loss;
  outcome.bits_per_token = bits_of_nats(score.loss);
  outcome.perplexity = perplexity_of_nats(score.loss);
  outcome.has_bytes = vocabulary.tokens() == Tokens::kBytes;
  outcome.bits_per_character = outcome.bits_per_token;
  if (!options.masks) {
    const auto predicted = std::span(tokens).subspan(1, examples.count * options.sequence);
    outcome.bits_per_character *= static_cast<double>(predicted.size()) /
                                  static_cast<double>(vocabulary.characters(predicted));
  }
  return outcome;
}

}  // namespace mantissa
