// The translate command.
#include "infer/text/translate.h"

#include <chrono>
#include <filesystem>
#include <utility>

#include "api/outcome.h"
#include "api/settings/settings.h"
#include "api/target.h"
#include "base/files/atomic_file.h"
#include "infer/text/embed.h"
#include "mantissa/language.h"
#include "run/settings/run_config.h"

namespace mantissa {
namespace {

struct TranslationConfig {
  InferenceConfig inference;
  TranslationOptions options;
  std::string text;
};

Result<TranslationConfig> translation_config(Settings settings) {
  MANTISSA_RETURN_IF_ERROR(check_known("translate", settings));
  TranslationConfig config;
  const auto text = settings.extract("text");
  if (!text.empty()) config.text = text.mapped();
  MANTISSA_ASSIGN(config.inference, inference_config("translate", settings));
  config.options.beam = config.inference.beam;
  if (settings.contains("batch-size")) config.options.batch_size = config.inference.batch_size;
  return config;
}

Status run_translation(const Settings& settings, std::vector<std::string> sentences,
                       const Observer& observer, TranslationOutcome& outcome) {
  MANTISSA_ASSIGN(const TranslationConfig config, translation_config(settings));
  const std::string &data = config.inference.data, &out = config.inference.out;
  if (sentences.empty() && data.empty() == config.text.empty()) {
    return invalid_input("name a sentence, --text, or a file with one on each line, --data");
  }
  if (!out.empty()) MANTISSA_RETURN_IF_ERROR(check_target("out", out));
  if (!config.text.empty()) sentences.push_back(config.text);
  if (!data.empty()) {
    MANTISSA_ASSIGN(sentences, read_sentences(data));
  }
  MANTISSA_ASSIGN(FrozenNetwork network, load_frozen(config.inference.checkpoint));
  ThreadPool pool(config.inference.threads);
  const auto begin = std::chrono::steady_clock::now();
  MANTISSA_ASSIGN(
      Translations translations,
      translate_sentences(network, sentences, config.options, pool, config.inference.isa,
                          counting(observer, Progress::Kind::kTranslating, std::ssize(sentences))));
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  outcome.seconds = seconds.count();
  outcome.truncated = translations.truncated;
  if (std::string note = describe(translations.unknown); !note.empty()) {
    outcome.notes.push_back(std::move(note));
  }
  outcome.sources = std::move(sentences);
  outcome.translations = std::move(translations.texts);
  if (out.empty()) return {};
  std::string lines;
  for (const std::string& one : outcome.translations) lines += one + "\n";
  return write_text_atomically(out, lines);
}

}  // namespace

TranslationOutcome translate(const Settings& settings, const std::vector<std::string>& sentences,
                             const Observer& observer) {
  TranslationOutcome outcome;
  const Status status = run_translation(settings, sentences, observer, outcome);
  return status.ok() ? outcome : refused<TranslationOutcome>(status.error());
}

}  // namespace mantissa
