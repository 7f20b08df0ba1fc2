#include "mantissa/choices.h"

#include <algorithm>
#include <array>

#include "mantissa/mantissa.h"

namespace mantissa {
namespace {

struct Row {
  const char* setting;
  std::vector<std::string> values;
};

// The names that parsers take; choices_test checks that they do.
const Row kRows[] = {
    {"format",
     {"bfp8", "bfp8-text", "dfp8", "fp32", "bfp:g=8,gr=stochastic", "bfp:w=4,a=4",
      "bfp:block=channel", "bfp:exponents=exact", "dfp:g=8"}},
    {"optimizer", {"sgd", "momentum", "nesterov", "adam", "adamw"}},
    {"lr-schedule", {"constant", "step", "cosine", "one-cycle", "plateau"}},
    {"loss", {"cross-entropy", "mse", "sigmoid"}},
    {"augment", {"none", "flip", "shift", "crop", "jitter", "cutout", "shift,flip"}},
    {"isa", {"auto", "scalar", "avx2", "avxvnni", "avx512vnni", "amx"}},
    {"data", {"fashion-mnist", "cifar-10", "cifar-100"}},
    {"show", {"program", "exponents", "schedule"}},
    {"header", {"auto", "yes", "no"}},
    {"decimal", {"auto", "point", "comma"}},
    {"sort", {"program", "time"}}};

constexpr std::array kPaths = {"data",  "out",         "config", "checkpoint",   "compare",
                               "input", "tensorboard", "csv",    "contact-sheet"};

}  // namespace

Choices choices_of(const std::string& setting) {
  Choices choices;
  for (const Row& row : kRows) {
    if (setting == row.setting) choices.values = row.values;
  }
  if (setting == "model") {
    for (const auto& [name, description] : built_in_models()) choices.values.push_back(name);
  }
  // A network may be a file, too.
  choices.is_path =
      setting == "model" || std::find(kPaths.begin(), kPaths.end(), setting) != kPaths.end();
  return choices;
}

}  // namespace mantissa
