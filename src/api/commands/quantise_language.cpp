// quantize --blocks, --group: a language model with its weights in blocks.
#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "api/inference/inference_config.h"
#include "api/outcome.h"
#include "api/settings/quantise_settings.h"
#include "api/settings/settings.h"
#include "api/target.h"
#include "mantissa/language.h"
#include "networks/language/model_file.h"
#include "start/language/quantise.h"

namespace mantissa {
namespace {

using quantise::BlockMethod;

// The settings that it has. All others are of runs.
constexpr std::array<std::string_view, 12> kTaken = {
    "from", "blocks", "group", "weights", "bits",        "method",
    "data", "out",    "isa",   "threads", "calibration", "memory-budget"};

Status check_taken(const Settings& settings) {
  for (const auto& [name, text] : settings) {
    if (std::ranges::find(kTaken, name) != kTaken.end()) continue;
    if (name == "activations") {
      return invalid_input(
          "activations: --blocks rounds weights alone; values have the bits of the "
          "format that train, eval and generate name");
    }
    return invalid_input(name + ": does not go with --blocks and --group, which train nothing");
  }
  return {};
}

Result<BlockMethod> block_method(const std::string& name) {
  if (name == "gptq") return BlockMethod::kHessian;
  if (name == "mmse") return BlockMethod::kLeastSquares;
  if (name == "uniform") return BlockMethod::kNearest;
  return invalid_input("method " + name +
                       ": is for runs; with --blocks choose mmse, gptq or uniform");
}

Status take_bits(const QuantiseConfig& config, LanguageQuantisation& request) {
  const int bits = block_bits(request.kind);
  if (config.own.contains("weights") && config.quantise.bits.all.weights != bits) {
    return invalid_input("weights: blocks of " + std::string(block_kind_name(request.kind)) +
                         " have " + std::to_string(bits) + " bits");
  }
  for (const auto& [pattern, count] : config.quantise.bits.patterns) {
    if (count != 8) {
      return invalid_input("bits: " + pattern + "=" + std::to_string(count) +
                           ": with --blocks a layer gets 8 bits (q8_0), or those of --blocks");
    }
    request.wide.push_back(pattern);
  }
  return {};
}

// Settings that training has, too.
Status take_training(const Settings& training, LanguageQuantisation& request) {
  MANTISSA_ASSIGN(const Settings with_data, with_data_of_source(training));
  Settings few;
  for (const char* name : {"data", "isa", "threads", "memory-budget"}) {
    const auto found = with_data.find(name);
    if (found != with_data.end()) few.insert(*found);
  }
  if (!few.contains("data")) {
    return invalid_input("--data names a text, by which weights are rounded");
  }
  RunConfig run = default_run_config();
  MANTISSA_RETURN_IF_ERROR(take_settings<RunConfig>(training_settings(), few, run));
  request.data = run.data;
  request.isa = run.isa;
  request.threads = run.threads > 0 ? run.threads : processors();
  request.memory_budget = run.memory_budget;
  return {};
}

Result<LanguageQuantisation> request_of(const Settings& settings) {
  MANTISSA_ASSIGN(const QuantiseConfig config, quantise_config(settings));
  if (config.blocks == BlockKind::kNone) {
    return invalid_input("--blocks names the blocks: " + block_kind_names());
  }
  MANTISSA_RETURN_IF_ERROR(check_taken(settings));
  LanguageQuantisation request;
  request.from = settings.at("from");
  request.out = settings.at("out");
  request.kind = config.blocks;
  const auto method = settings.find("method");
  request.method_name = method == settings.end() ? "mmse" : method->second;
  MANTISSA_ASSIGN(request.method, block_method(request.method_name));
  if (settings.contains("calibration")) request.calibration = config.quantise.calibration_examples;
  MANTISSA_RETURN_IF_ERROR(take_bits(config, request));
  MANTISSA_RETURN_IF_ERROR(take_training(config.training, request));
  MANTISSA_ASSIGN(const bool is_foreign, is_model_file(request.from));
  if (is_foreign) {
    return invalid_input("from: " + request.from +
                         " is a file of another program; mantissa import makes one of it that "
                         "quantize takes");
  }
  MANTISSA_ASSIGN(request.from, network_file(request.from));
  return request;
}

std::string json_of(const LanguageModelInBlocks& model) {
  nlohmann::ordered_json layers = nlohmann::ordered_json::array();
  for (const LayerBlocksInfo& layer : model.layers) {
    layers.push_back({{"name", layer.name},
                      {"blocks", layer.blocks},
                      {"nearest_error", layer.nearest_error},
                      {"error", layer.error}});
  }
  const nlohmann::ordered_json all = {{"file", model.file},
                                      {"blocks", model.blocks},
                                      {"calibration_tokens", model.calibration_tokens},
                                      {"held_out_tokens", model.held_out_tokens},
                                      {"loss_before", model.loss_before},
                                      {"loss_after", model.loss_after},
                                      {"layers", std::move(layers)}};
  return all.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace

Outcome<LanguageModelInBlocks> quantize_language_model(const Settings& settings,
                                                       const Observer& observer) {
  MANTISSA_ASSIGN(const LanguageQuantisation request, request_of(settings));
  MANTISSA_RETURN_IF_ERROR(check_target("out", request.out));
  MANTISSA_ASSIGN(const QuantisedLanguageModel done,
                  quantise_language_model(request, forwarded(observer)));
  LanguageModelInBlocks model;
  model.file = request.out;
  model.blocks = done.blocks;
  model.calibration_tokens = done.calibration_tokens;
  model.held_out_tokens = done.held_out_tokens;
  model.loss_before = done.loss_before;
  model.loss_after = done.loss_after;
  for (const LayerInBlocks& layer : done.layers) {
    model.layers.push_back(
        {layer.name, block_kind_name(layer.kind), layer.nearest_error, layer.error});
  }
  model.json = json_of(model);
  return model;
}

}  // namespace mantissa
