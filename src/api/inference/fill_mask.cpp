// The fill-mask command.
#include "infer/text/fill_mask.h"

#include "api/outcome.h"
#include "api/settings/settings.h"
#include "mantissa/language.h"
#include "run/settings/run_config.h"

namespace mantissa {
namespace {

Status find_masks(Settings settings, MaskOutcome& outcome) {
  MANTISSA_RETURN_IF_ERROR(check_known("fill-mask", settings));
  const auto text = settings.extract("text"), top = settings.extract("top");
  if (text.empty()) return invalid_input("--text: name a text with a [MASK] in it");
  constexpr int64_t kMost = 1 << 20;
  MANTISSA_ASSIGN(const int64_t guesses,
                  parse_integer("top", top.empty() ? "5" : top.mapped(), 1, kMost));
  MANTISSA_ASSIGN(const InferenceConfig config, inference_config("fill-mask", settings));
  MANTISSA_ASSIGN(FrozenNetwork network, load_frozen(config.checkpoint));
  ThreadPool pool(config.threads);
  MANTISSA_ASSIGN(const auto masks, fill_masks(network, text.mapped(), guesses, pool, config.isa));
  for (const auto& mask : masks) {
    outcome.masks.emplace_back();
    for (const TokenGuess& guess : mask) {
      outcome.masks.back().push_back({guess.token, guess.probability});
    }
  }
  return {};
}

}  // namespace

MaskOutcome fill_mask(const Settings& settings) {
  MaskOutcome outcome;
  const Status status = find_masks(settings, outcome);
  return status.ok() ? outcome : refused<MaskOutcome>(status.error());
}

}  // namespace mantissa
