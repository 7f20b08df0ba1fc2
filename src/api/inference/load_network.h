// Networks of commands that also take language models of other programs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "api/settings/settings.h"
#include "base/result.h"
#include "infer/frozen_network.h"
#include "numerics/format.h"

namespace mantissa {

// How the model of a file is taken that import reads, or has written. A trained network has a
// format and a sequence of its own.
struct ModelFileChoices {
  std::optional<Format> format;  // left out: fp32
  int64_t sequence = 0;          // 0: the usual one
};

inline constexpr const char* kModelCheckpointHelp =
    "folder of a run, its model.safetensors, an exported .onnx file, or a language model: a file "
    "that import wrote, a GGUF file, or a folder with config.json";

template <typename Config>
inline constexpr SettingOf<Config> kModelCheckpoint = {"checkpoint", kModelCheckpointHelp, "",
                                                       parse_text<&Config::checkpoint>};
template <typename Config>
inline constexpr SettingOf<Config> kModelFormat = {
    "format",
    "number format of a language model's file: fp32, or one that needs no calibration, such as "
    "bfp:block=channel,blocks=token (left out: fp32)",
    "", [](const std::string&, const std::string& text, Config& config) {
      return assign(parse_format(text), config.file.format);
    }};
template <typename Config>
constexpr SettingOf<Config> model_sequence(const char* help) {
  return {"sequence", help, "",
          parse_whole<2, 1 << 16, &Config::file, &ModelFileChoices::sequence>};
}

// The network of a run or of one of its files, or a language model's file. `usual`: positions of a
// model of another program. Errors: choices for a network that has its own.
Result<FrozenNetwork> load_network(const std::string& checkpoint, const ModelFileChoices& choices,
                                   int64_t usual);

}  // namespace mantissa
