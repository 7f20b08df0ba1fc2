// The generate command.
#include "infer/text/generate.h"

#include "api/inference/inference_config.h"
#include "api/outcome.h"
#include "api/settings/commands.h"
#include "mantissa/language.h"

namespace mantissa {
namespace {

struct GenerationConfig : InferenceConfig {
  GenerationOptions options;
};

constexpr int64_t kMostTokens = 1 << 20;
constexpr auto kGeneration = &GenerationConfig::options;

constexpr SettingOf<GenerationConfig> kGenerateRows[] = {
    kCheckpoint<GenerationConfig>,
    {"prompt", "text to begin with", "", parse_text<kGeneration, &GenerationOptions::prompt>},
    {"length", "tokens to generate", "200",
     parse_whole<1, kMostTokens, kGeneration, &GenerationOptions::length>},
    {"temperature", "how freely tokens are drawn: below 1 likelier ones, 0 always the likeliest",
     "1",
     [](const std::string& name, const std::string& text, GenerationConfig& config) {
       return assign(parse_real(name, text, 0, 100), config.options.temperature);
     }},
    {"top-k", "draw among so many likeliest tokens (0: all)", "0",
     parse_whole<0, kMostTokens, kGeneration, &GenerationOptions::top_k>},
    {"seed", "of the tokens drawn", "1",
     parse_whole<0, INT64_MAX, kGeneration, &GenerationOptions::seed>},
    kThreads<GenerationConfig>,
    kIsa<GenerationConfig>};
constexpr CommandOf<GenerationConfig> kGenerateCommand = {"generate", kGenerateRows};

}  // namespace

CommandInfo generate_command() { return info_of<kGenerateCommand>(); }

Outcome<GeneratedText> generate(const Settings& settings,
                                const std::function<bool(const std::string&)>& observer) {
  MANTISSA_ASSIGN(GenerationConfig config, read_settings(kGenerateCommand, settings));
  MANTISSA_RETURN_IF_ERROR(find_checkpoint(config.checkpoint));
  MANTISSA_ASSIGN(FrozenNetwork network, load_frozen(config.checkpoint));
  ThreadPool pool(config.threads);
  MANTISSA_ASSIGN(std::string text,
                  generate_text(network, config.options, pool, config.isa, observer));
  return GeneratedText{config.options.prompt, std::move(text)};
}

}  // namespace mantissa
