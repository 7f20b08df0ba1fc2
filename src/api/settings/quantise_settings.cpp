#include "api/settings/quantise_settings.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "api/settings/block_settings.h"
#include "api/settings/commands.h"
#include "api/settings/settings.h"

namespace mantissa {
namespace {

using S = const std::string&;

Result<int> bits_of(const std::string& name, const std::string& text, int low) {
  MANTISSA_ASSIGN(const int64_t bits, parse_integer(name, text, low, kWholeBits));
  return static_cast<int>(bits);
}

// Also 16, as the format has them, or 32, floats.
Result<int> bits_of_all(const std::string& name, const std::string& text) {
  for (const int bits : {kMostBits, kFloatBits}) {
    if (text == std::to_string(bits)) return bits;
  }
  auto bits = bits_of(name, text, 1);
  if (bits.ok()) return bits;
  return invalid_input(name + ": '" + text +
                       "': 1 to 8 bits are possible, 16, the most of a mantissa, and 32, floats; "
                       "whole numbers of 24 bits have no kernels");
}

template <auto kSide>
Status parse_all(S name, S text, QuantiseConfig& config) {
  return assign(bits_of_all(name, text), config.quantise.bits.all.*kSide);
}

Status parse_patterns(S, S text, QuantiseConfig& config) {
  QuantisedBits& bits = config.quantise.bits;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    const size_t equals = part.rfind('=');
    if (equals == std::string::npos || equals == 0) {
      return invalid_input("bits: '" + part + "' is not PATTERN=N, such as stem*=8");
    }
    MANTISSA_ASSIGN(const int count, bits_of("bits", part.substr(equals + 1), 1));
    bits.patterns.emplace_back(part.substr(0, equals), count);
    begin = end + 1;
  }
  return {};
}

constexpr const char* kGptq = "gptq";

struct Method {
  std::string_view name;
  quantise::WeightMethod weights;
  quantise::ActivationMethod activations;
  bool trains_rounding = false;
};
constexpr Method kMethods[] = {
    {"mmse", quantise::WeightMethod::kMmse, quantise::ActivationMethod::kMmse},
    {"adaround", quantise::WeightMethod::kMmse, quantise::ActivationMethod::kMmse, true},
    {"uniform", quantise::WeightMethod::kUniform, quantise::ActivationMethod::kMinMax},
    {"percentile", quantise::WeightMethod::kPercentile, quantise::ActivationMethod::kPercentile},
    {"kl", quantise::WeightMethod::kKullbackLeibler, quantise::ActivationMethod::kKullbackLeibler},
    {"unit", quantise::WeightMethod::kUnit, quantise::ActivationMethod::kMinMax},
    {kGptq, quantise::WeightMethod::kMmse, quantise::ActivationMethod::kMmse}};  // of blocks

Status parse_method(S, S text, QuantiseConfig& config) {
  QuantiseSettings& settings = config.quantise;
  for (const Method& method : kMethods) {
    if (text != method.name) continue;
    settings.weight_method = method.weights;
    settings.activation_method = method.activations;
    settings.trains_rounding = method.trains_rounding;
    return {};
  }
  const char* why = text == "kmeans" ? "k-means gives no linear grid, which integer layers need"
                                     : "there is no such method";
  return invalid_input("method: '" + text + "': " + why +
                       "; choose mmse, adaround, uniform, percentile, kl or unit, or with --blocks "
                       "or --group gptq");
}

struct Training {
  std::string_view name;
  quantise::TrainingMethod method;
};
constexpr Training kTrainings[] = {{"lsq", quantise::TrainingMethod::kLsq},
                                   {"lsqplus", quantise::TrainingMethod::kLsqPlus},
                                   {"pact", quantise::TrainingMethod::kPact},
                                   {"wrpn", quantise::TrainingMethod::kWrpn},
                                   {"dorefa", quantise::TrainingMethod::kDorefa},
                                   {"hwgq", quantise::TrainingMethod::kHalfWaveGaussian},
                                   {"uniform", quantise::TrainingMethod::kUniform}};

Status parse_training(S, S text, QuantiseConfig& config) {
  for (const Training& training : kTrainings) {
    if (text != training.name) continue;
    config.quantise.training = training.method;
    return {};
  }
  return invalid_input("train: unknown method '" + text +
                       "'; choose lsq, lsqplus, pact, wrpn, dorefa, hwgq or uniform");
}

Status parse_sides(S, S text, QuantiseConfig& config) {
  if (text != "weights" && text != "activations" && text != "both") {
    return invalid_input("init: '" + text + "' is none of weights, activations and both");
  }
  config.quantise.bits.only_weights = text == "weights";
  config.quantise.bits.only_activations = text == "activations";
  return {};
}

// One of two words, of which the first sets the field.
template <const auto& kWords, auto kField>
Status parse_either(S, S text, QuantiseConfig& config) {
  if (text != kWords[0] && text != kWords[1]) {
    return invalid_input("'" + text + "' is neither " + kWords[0] + " nor " + kWords[1]);
  }
  config.quantise.*kField = text == kWords[0];
  return {};
}
constexpr std::array kScales = {"channel", "tensor"};
constexpr std::array kRanges = {"full", "symmetric"};
constexpr std::array kStarts = {"between", "grid"};

constexpr auto kQuantise = &QuantiseConfig::quantise;

// Settings of the quantisation itself are its identity.
constexpr SettingOf<QuantiseConfig> kQuantiseRows[] = {
    {"from", "the trained network: the folder of a run, or a checkpoint", ""},
    {"weights", "bits of weights, 1 to 8; or 16 (by default in format bfp:w=16), or 32 (in fp32)",
     "4", parse_all<&LayerBits::weights>, traits::kIdentity},
    {"activations",
     "bits of what layers read, 1 to 8; or 16 (by default in format bfp:a=16), or 32 (in fp32)",
     "4", parse_all<&LayerBits::activations>, traits::kIdentity},
    {"ends", "at least so many bits for the first and last layers (0: as the others)", "8",
     parse_whole<0, kWholeBits, kQuantise, &QuantiseSettings::bits, &QuantisedBits::ends>,
     traits::kIdentity},
    {"sensitivity",
     "measure instead the cost of each layer's few bits alone, on validation examples, and print a "
     "table; writes nothing",
     "false", parse_switch<&QuantiseConfig::measures_sensitivity>, traits::kSwitch},
    {"bits",
     "PATTERN=N: N bits for the layers whose names fit (* for any text); commas between several, "
     "of which the last that fits counts: 'stem*=8,stage3.*=3'",
     "", parse_patterns, traits::kIdentity},
    {"method",
     "how scales of weights and ranges of activations are chosen: mmse (least squares), adaround "
     "(the same, and a training of each layer rounds its weights), uniform (nothing is clipped), "
     "percentile, kl (least divergence), unit (weights from -1 to 1 whatever they are, ranges as "
     "uniform: a start to compare with); with --blocks mmse, gptq (the same, and rounding that makes "
     "up for its own errors) or uniform",
     "mmse", parse_method, traits::kIdentity},
    {"blocks",
     "q4_0, q4_1 or q8_0, of GGUF files, or w4g64, w4g128, w3g32, w3g64, w3g128, of 3 and 4 bits "
     "in groups: of a language model in Llama's layout; its weights in such blocks, rounded by the "
     "text of --data, and nothing else; --out is then a file, like that of import --weights blocks "
     "(docs/language.md)",
     "", parse_blocks},
    {"group",
     "32, 64 or 128 weights of a row that share a scale, with the bits of --weights, 3 or 4: as "
     "--blocks",
     "", parse_group},
    {"range",
     "the whole numbers that weights of n bits become: symmetric, -7 to 7 with 4 bits, with 1 bit "
     "-1 and 1; or full, -8 to 7, with 1 bit -1 and 0",
     "symmetric", parse_either<kRanges, &QuantiseSettings::has_full_range>, traits::kIdentity},
    {"scales",
     "one for each channel of weights, or for each tensor; the network's last layer has one, a "
     "power of two, where it has few bits",
     "channel", parse_either<kScales, &QuantiseSettings::scales_per_channel>, traits::kIdentity},
    {"start",
     "where weights begin to be trained: between the grid's points, as they were, or on them; the "
     "first forward pass is the same",
     "between", parse_either<kStarts, &QuantiseSettings::starts_between>, traits::kIdentity},
    {"init",
     "what is quantised: weights, activations, or both; the other side keeps its 8 bits, and may "
     "be quantised by another run, behind training",
     "both", parse_sides, traits::kIdentity},
    {"train",
     "how ranges of activations are trained: lsq (by what they clip and how they round), lsqplus "
     "(the same, and where they begin), wrpn (by what they clip, and where they begin), pact (by "
     "what they clip, weights as dorefa), dorefa (not at all; weights through tanh), hwgq (not at "
     "all; zeros pass no gradient), uniform (not at all)",
     "lsq", parse_training, traits::kIdentity},
    {"calibration",
     "training examples that ranges are chosen from (with --blocks left out: sequences of 4,096 "
     "tokens in all)",
     "1280", parse_whole<1, 1'000'000'000, kQuantise, &QuantiseSettings::calibration_examples>,
     traits::kIdentity},
    {"reestimate", "batches over which statistics of batch norms are averaged anew", "50"},
    {"epochs", "passes over the training examples behind the quantisation (0: none)", "0"},
    {kOfTraining}};
constexpr CommandOf<QuantiseConfig> kQuantizeCommand = {"quantize", kQuantiseRows,
                                                        traits::kInQuantize};

// 16 bits belong to the format, and 32 to fp32.
Status choose_format(QuantiseConfig& config) {
  const LayerBits& bits = config.quantise.bits.all;
  const bool has_floats = bits.weights == kFloatBits || bits.activations == kFloatBits;
  std::string keys;
  if (bits.weights == kMostBits) keys += "w=16";
  if (bits.activations == kMostBits) keys += std::string(keys.empty() ? "" : ",") + "a=16";
  if (keys.empty() && !has_floats) return {};
  const std::string wanted = has_floats ? "fp32" : "bfp:" + keys;
  const auto format = config.training.insert({"format", wanted}).first->second;
  MANTISSA_ASSIGN(const Format parsed, parse_format(format));
  const bool fits =
      has_floats ? parsed.is_float() && keys.empty()
                 : (bits.weights != kMostBits || parsed.weight_bits == kMostBits) &&
                       (bits.activations != kMostBits || parsed.activation_bits == kMostBits);
  if (fits) return {};
  return invalid_input("format: " + format + " has not all of the bits that are asked for; " +
                       (has_floats ? "32 bits beside 8 or fewer are fp32's" : wanted + " has"));
}

}  // namespace

CommandInfo quantize_command() { return info_of<kQuantizeCommand>(); }

Result<QuantiseConfig> quantise_config(const Settings& settings) {
  Settings training;
  MANTISSA_ASSIGN(QuantiseConfig config, read_settings(kQuantizeCommand, settings, &training));
  config.training = std::move(training);
  for (const auto& row : kQuantiseRows) {
    const auto given = settings.find(row.name);
    if (row.has(traits::kIdentity) && given != settings.end()) config.own.insert(*given);
  }
  const auto from = settings.find("from");
  if (!config.resumes() && (from == settings.end() || from->second.empty())) {
    return invalid_input("--from names the trained network, a run's folder or a file");
  }
  MANTISSA_RETURN_IF_ERROR(choose_blocks(config));
  const bool has_blocks = config.blocks != BlockKind::kNone;
  const auto method = settings.find("method");
  if (!has_blocks && method != settings.end() && method->second == kGptq) {
    return invalid_input("method gptq: goes with --blocks or --group");
  }
  MANTISSA_RETURN_IF_ERROR(choose_format(config));
  if (!config.measures_sensitivity && !settings.contains("out")) {
    return invalid_input("--out names a folder for the results");
  }
  return config;
}

bool QuantiseConfig::resumes() const {
  const auto resume = training.find("resume");
  return resume != training.end() && resume->second == "true";
}

std::string quantised_text(const QuantiseConfig& config, const std::string& weights) {
  Settings all = config.own;
  all["from"] = weights;
  for (const auto& row : kQuantiseRows) {
    if (row.has(traits::kIdentity)) all.insert({row.name, row.default_text});
  }
  return nlohmann::json(all).dump();
}

Status check_quantised(const std::string& text, const QuantiseConfig& config,
                       const std::string& weights) {
  const nlohmann::json before = nlohmann::json::parse(text, nullptr, false);
  const std::string& folder = config.training.at("out");
  if (!before.is_object()) {
    return invalid_input(folder + " does not say how it was quantised; train --resume goes on");
  }
  for (const auto& [name, wanted] : config.own) {
    const auto was = before.find(name);
    if (was == before.end() || *was == wanted) continue;
    return invalid_input(folder + " was quantised with --" + name + " " +
                         (was->is_string() ? was->get<std::string>() : was->dump()) +
                         ", and --resume goes on with that; --overwrite begins anew with " +
                         wanted);
  }
  const auto from = before.find("from");  // older runs have none
  if (weights.empty() || from == before.end() || *from == weights) return {};
  return invalid_input(folder + " was quantised from other weights than " +
                       config.training.at("from") +
                       " has; --resume goes on without --from, and --overwrite begins anew");
}

}  // namespace mantissa
