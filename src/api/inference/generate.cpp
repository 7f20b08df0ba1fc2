// The generate command.
#include "infer/text/generate.h"

#include "api/outcome.h"
#include "api/settings/settings.h"
#include "mantissa/language.h"
#include "run/settings/run_config.h"

namespace mantissa {
namespace {

Result<GenerationOptions> generation_options(Settings& settings) {
  GenerationOptions options;
  const auto taken = [&](const char* name, const std::string& otherwise) {
    const auto found = settings.extract(name);
    return found.empty() ? otherwise : found.mapped();
  };
  constexpr int64_t kMost = 1 << 20;
  options.prompt = taken("prompt", "");
  MANTISSA_ASSIGN(options.length, parse_integer("length", taken("length", "200"), 1, kMost));
  MANTISSA_ASSIGN(options.temperature,
                  parse_real("temperature", taken("temperature", "1"), 0, 100));
  MANTISSA_ASSIGN(options.top_k, parse_integer("top-k", taken("top-k", "0"), 0, kMost));
  MANTISSA_ASSIGN(const int64_t seed, parse_integer("seed", taken("seed", "1"), 0, INT64_MAX));
  options.seed = static_cast<uint64_t>(seed);
  return options;
}

Status run_generation(Settings settings, const TextObserver& observer, GenerationOutcome& outcome) {
  MANTISSA_RETURN_IF_ERROR(check_known("generate", settings));
  MANTISSA_ASSIGN(const GenerationOptions options, generation_options(settings));
  MANTISSA_ASSIGN(const InferenceConfig config, inference_config("generate", settings));
  MANTISSA_ASSIGN(FrozenNetwork network, load_frozen(config.checkpoint));
  ThreadPool pool(config.threads);
  outcome.prompt = options.prompt;
  auto text = generate_text(network, options, pool, config.isa, observer);
  if (!text.ok()) return text.error();
  outcome.text = std::move(*text);
  return {};
}

}  // namespace

GenerationOutcome generate(const Settings& settings,
                           const std::function<bool(const std::string&)>& observer) {
  GenerationOutcome outcome;
  const Status status = run_generation(settings, observer, outcome);
  return status.ok() ? outcome : refused<GenerationOutcome>(status.error());
}

}  // namespace mantissa
