// Settings of commands that let a language model go on with texts.
#pragma once

#include <cstdint>

#include "api/inference/load_network.h"
#include "api/settings/settings.h"
#include "infer/text/generate.h"
#include "run/memory_plan.h"

namespace mantissa {

// Positions of a text, of models of other programs.
inline constexpr int64_t kUsualPositions = 1024;
inline constexpr const char* kPositionsHelp =
    "positions of a text, of another program's language model (left out: 1,024, or as many as it "
    "has)";

inline constexpr int64_t kMostDrawn = 1 << 20;
inline constexpr double kMostTemperature = 100;
inline constexpr double kLeastTopP = 1.0 / 65536;

// Rows for a Config whose member `options` are GenerationOptions; with these defaults.
template <typename Config>
constexpr SettingOf<Config> length_row(const char* usual) {
  return {"length", "tokens to generate, at most", usual,
          parse_whole<1, kMostDrawn, &Config::options, &GenerationOptions::length>};
}
template <typename Config>
constexpr SettingOf<Config> temperature_row(const char* usual) {
  return {"temperature",
          "how freely tokens are drawn: below 1 likelier ones, 0 always the likeliest", usual,
          [](const std::string& name, const std::string& text, Config& config) {
            return assign(parse_real(name, text, 0, kMostTemperature), config.options.temperature);
          }};
}
template <typename Config>
constexpr SettingOf<Config> top_k_row(const char* usual) {
  return {"top-k", "draw among so many likeliest tokens (0: all)", usual,
          parse_whole<0, kMostDrawn, &Config::options, &GenerationOptions::top_k>};
}
template <typename Config>
inline constexpr SettingOf<Config> kTopP = {
    "top-p",
    "of these, draw among the likeliest whose probabilities add up to this part of their sum", "1",
    [](const std::string& name, const std::string& text, Config& config) {
      return assign(parse_real(name, text, kLeastTopP, 1), config.options.top_p);
    }};
template <typename Config>
inline constexpr SettingOf<Config> kDrawingSeed = {
    "seed", "of the tokens drawn", "1",
    parse_whole<0, INT64_MAX, &Config::options, &GenerationOptions::seed>};

template <typename Config>
inline constexpr SettingOf<Config> kGenerationBudget = {
    "memory-budget",
    "most bytes of weights, cache of positions and arena: what needs more is refused (512MiB)", "",
    parse_by<parse_bytes, &Config::memory_budget>};

// An error if generating needs more than the budget (> 0).
inline Status check_generation_budget(const Generator& generator, int64_t budget) {
  const DecoderMemory memory = generator.memory();
  const std::string positions = std::to_string(generator.sequence()) + " positions";
  return check_budget({.items = {{"weights", memory.weights},
                                 {"cache of " + positions, memory.cache},
                                 {"arena", memory.arena}},
                       .arena = {},
                       .consumers = {},
                       .advice = "a shorter --sequence takes less"},
                      budget);
}

}  // namespace mantissa
