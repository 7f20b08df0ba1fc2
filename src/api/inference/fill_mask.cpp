// The fill-mask command.
#include "infer/text/fill_mask.h"

#include "api/inference/inference_config.h"
#include "api/outcome.h"
#include "api/settings/commands.h"
#include "mantissa/language.h"

namespace mantissa {
namespace {

struct MaskConfig : InferenceConfig {
  std::string text;
  int64_t top = 0;
};

constexpr SettingOf<MaskConfig> kMaskRows[] = {
    kCheckpoint<MaskConfig>,
    {"text", "a text in which [MASK] stands for what is to be found", "",
     parse_text<&MaskConfig::text>},
    {"top", "guesses for each mask", "5", parse_whole<1, 1 << 20, &MaskConfig::top>},
    kThreads<MaskConfig>,
    kIsa<MaskConfig>};
constexpr CommandOf<MaskConfig> kFillMaskCommand = {"fill-mask", kMaskRows};

}  // namespace

CommandInfo fill_mask_command() { return info_of<kFillMaskCommand>(); }

Outcome<FilledMasks> fill_mask(const Settings& settings) {
  if (!settings.contains("text")) return invalid_input("--text: name a text with a [MASK] in it");
  MANTISSA_ASSIGN(MaskConfig config, read_settings(kFillMaskCommand, settings));
  MANTISSA_RETURN_IF_ERROR(find_checkpoint(config.checkpoint));
  MANTISSA_ASSIGN(FrozenNetwork network, load_frozen(config.checkpoint));
  ThreadPool pool(config.threads);
  MANTISSA_ASSIGN(const auto masks, fill_masks(network, config.text, config.top, pool, config.isa));
  FilledMasks filled;
  for (const auto& mask : masks) {
    filled.masks.emplace_back();
    for (const TokenGuess& guess : mask) {
      filled.masks.back().push_back({guess.token, guess.probability});
    }
  }
  return filled;
}

}  // namespace mantissa
