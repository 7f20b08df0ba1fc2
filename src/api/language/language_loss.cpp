// How well a language model in memory predicts texts.
#include "api/inference/evaluate.h"
#include "api/language/language_model_data.h"
#include "api/outcome.h"

namespace mantissa {
namespace {

// The machine is the one that the model was loaded with.
Result<EvaluationConfig> config_of(const LanguageModel::Data& data, const Settings& settings) {
  for (const char* name : {"checkpoint", "format", "sequence", "threads", "isa", "beam"}) {
    if (!settings.contains(name)) continue;
    return invalid_input(std::string(name) + ": a model in memory has its own");
  }
  MANTISSA_ASSIGN(EvaluationConfig config, evaluation_config(settings));
  config.threads = data.threads;
  config.isa = data.isa;
  return config;
}

}  // namespace

Outcome<Evaluation> LanguageModel::loss(const std::string& text, const Observer& observer) const {
  MANTISSA_ASSIGN(const EvaluationConfig config, config_of(*data_, {}));
  return evaluate_text(config, data_->network, text, observer);
}

Outcome<Evaluation> LanguageModel::evaluate(const Settings& settings,
                                            const Observer& observer) const {
  MANTISSA_ASSIGN(const EvaluationConfig config, config_of(*data_, settings));
  return evaluate_language(config, data_->network, observer);
}

}  // namespace mantissa
