// Settings of quantize: its own, and the settings of the training after it.
#pragma once

#include <vector>

#include "base/result.h"
#include "mantissa/mantissa.h"
#include "start/quantise.h"

namespace mantissa {

struct QuantiseConfig {
  QuantiseSettings quantise;
  BlockKind blocks = BlockKind::kNone;  // of a language model; then nothing is trained
  int64_t group = 0;                    // weights of a block that were asked for; 0: none
  Settings own;                         // of the quantisation itself, as they were given
  bool measures_sensitivity = false;
  // Settings of train, with "out" (except for sensitivity) and "from" (unless a run is resumed).
  Settings training;

  bool resumes() const;
};
Result<QuantiseConfig> quantise_config(const Settings& settings);

// All settings of the quantisation itself as JSON, for the start of its run, and the hash of the
// weights that it was made of (StartingPoint::sha256).
std::string quantised_text(const QuantiseConfig& config, const std::string& weights);

// An error if such a text contradicts the settings that were given, or names other weights. Empty
// weights: the text's own.
Status check_quantised(const std::string& text, const QuantiseConfig& config,
                       const std::string& weights);

// The data and the text of the run that `from` names, if the settings name no others.
Result<Settings> with_data_of_source(Settings settings);

}  // namespace mantissa
