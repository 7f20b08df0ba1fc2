// The eval command for language models.
#pragma once

#include "api/settings/settings.h"
#include "infer/frozen_network.h"
#include "mantissa/mantissa.h"

namespace mantissa {

// Evaluates on the test part of a text: of `config.data`, or of the one that it was trained on.
Result<EvaluationOutcome> evaluate_language(const InferenceConfig& config, FrozenNetwork& network,
                                            const Observer& observer);

}  // namespace mantissa
