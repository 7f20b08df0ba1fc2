// The generate command.
#include "infer/text/generate.h"

#include <utility>

#include "api/inference/generation_settings.h"
#include "api/inference/inference_config.h"
#include "api/inference/language_values.h"
#include "api/outcome.h"
#include "api/settings/commands.h"
#include "mantissa/language.h"

namespace mantissa {
namespace {

struct GenerationConfig : InferenceConfig {
  ModelFileChoices file;
  std::string prompt;
  GenerationOptions options;
  int64_t memory_budget = 0;  // bytes; 0: none
};

constexpr SettingOf<GenerationConfig> kGenerateRows[] = {
    kModelCheckpoint<GenerationConfig>,
    kModelFormat<GenerationConfig>,
    model_sequence<GenerationConfig>(kPositionsHelp),
    {"prompt", "text to begin with", "", parse_text<&GenerationConfig::prompt>},
    length_row<GenerationConfig>("200"),
    temperature_row<GenerationConfig>("1"),
    top_k_row<GenerationConfig>("0"),
    kTopP<GenerationConfig>,
    kDrawingSeed<GenerationConfig>,
    kGenerationBudget<GenerationConfig>,
    kThreads<GenerationConfig>,
    kIsa<GenerationConfig>};
constexpr CommandOf<GenerationConfig> kGenerateCommand = {"generate", kGenerateRows};

}  // namespace

CommandInfo generate_command() { return info_of<kGenerateCommand>(); }

Outcome<GeneratedText> generate(const Settings& settings,
                                const std::function<bool(const std::string&)>& observer) {
  MANTISSA_ASSIGN(const GenerationConfig config, read_settings(kGenerateCommand, settings));
  MANTISSA_ASSIGN(FrozenNetwork network,
                  load_network(config.checkpoint, config.file, kUsualPositions));
  ThreadPool pool(config.threads);
  MANTISSA_ASSIGN(const std::unique_ptr<Generator> generator,
                  Generator::create(network, DecodingForm::kCached, pool, config.isa));
  MANTISSA_RETURN_IF_ERROR(check_generation_budget(*generator, config.memory_budget));
  MANTISSA_ASSIGN(TextGoneOn text,
                  go_on_with_text(*generator, config.prompt, config.options, observer));
  if (text.end == TextEnd::kStopped) {
    return make_error(ErrorCode::kInterrupted, "interrupted while generating");
  }
  GeneratedText generated = generated_text(config.prompt, std::move(text));
  generated.memory = memory_of(*generator);
  return generated;
}

}  // namespace mantissa
