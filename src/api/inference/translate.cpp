// The translate command.
#include "infer/text/translate.h"

#include <chrono>
#include <utility>

#include "api/inference/inference_config.h"
#include "api/outcome.h"
#include "api/settings/commands.h"
#include "api/target.h"
#include "base/files/atomic_file.h"
#include "infer/text/embed.h"
#include "mantissa/language.h"

namespace mantissa {
namespace {

struct TranslationConfig : InferenceConfig {
  TranslationOptions options;
  std::string text, out;
};

constexpr auto kTranslation = &TranslationConfig::options;

constexpr SettingOf<TranslationConfig> kTranslateRows[] = {
    kCheckpoint<TranslationConfig>,
    {"text", "a sentence to translate", "", parse_text<&TranslationConfig::text>},
    {"data", "text file, a sentence on each line", "", parse_text<&TranslationConfig::data>},
    {"out", "file for the translations, one on each line", "", parse_text<&TranslationConfig::out>},
    {"beam", "hypotheses of a sentence; 1 takes the likeliest token each time", "4",
     parse_whole<1, kMostBeam, kTranslation, &TranslationOptions::beam>},
    {"batch-size", "sentences computed at once; changes no result in integers", "32",
     parse_whole<1, 1 << 20, kTranslation, &TranslationOptions::batch_size>},
    kThreads<TranslationConfig>,
    kIsa<TranslationConfig>};
constexpr CommandOf<TranslationConfig> kTranslateCommand = {"translate", kTranslateRows};

}  // namespace

CommandInfo translate_command() { return info_of<kTranslateCommand>(); }

Outcome<Translations> translate(const Settings& settings, const std::vector<std::string>& given,
                                const Observer& observer) {
  std::vector<std::string> sentences = given;
  MANTISSA_ASSIGN(TranslationConfig config, read_settings(kTranslateCommand, settings));
  MANTISSA_RETURN_IF_ERROR(find_checkpoint(config.checkpoint));
  const std::string &data = config.data, &out = config.out;
  if (sentences.empty() && data.empty() == config.text.empty()) {
    return invalid_input("name a sentence, --text, or a file with one on each line, --data");
  }
  if (!out.empty()) MANTISSA_RETURN_IF_ERROR(check_target("out", out));
  if (!config.text.empty()) sentences.push_back(config.text);
  if (!data.empty()) {
    MANTISSA_ASSIGN(sentences, read_sentences(data));
  }
  MANTISSA_ASSIGN(FrozenNetwork network, load_frozen(config.checkpoint));
  ThreadPool pool(config.threads);
  const auto begin = std::chrono::steady_clock::now();
  MANTISSA_ASSIGN(
      TranslatedTexts translated,
      translate_sentences(network, sentences, config.options, pool, config.isa,
                          counting(observer, Progress::Kind::kTranslating, std::ssize(sentences))));
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  Translations result;
  result.seconds = seconds.count();
  result.truncated = translated.truncated;
  if (std::string note = describe(translated.unknown); !note.empty()) {
    result.notes.push_back(std::move(note));
  }
  result.sources = std::move(sentences);
  result.translations = std::move(translated.texts);
  if (out.empty()) return result;
  std::string lines;
  for (const std::string& one : result.translations) lines += one + "\n";
  MANTISSA_RETURN_IF_ERROR(write_text_atomically(out, lines));
  return result;
}

}  // namespace mantissa
