// quantize: post-training quantisation, and training from there, as a run.
#include <algorithm>
#include <array>
#include <filesystem>

#include "api/outcome.h"
#include "api/quantize_settings.h"
#include "base/file_system.h"
#include "mantissa/mantissa.h"
#include "train/network.h"
#include "train/quantise.h"
#include "train/quantise_sensitivity.h"
#include "train/run_config.h"
#include "train/run_folder.h"
#include "train/text_settings.h"
#include "train/trainer.h"

namespace mantissa {
namespace {

namespace fs = std::filesystem;

QuantisedLayerInfo info_of(const LayerOutcome& layer) {
  return {.name = layer.name,
          .weight_bits = layer.bits.weights,
          .activation_bits = layer.bits.activations,
          .has_norm = layer.has_norm,
          .weight_error = layer.weight_error,
          .activation_error = layer.activation_error,
          .range = layer.range,
          .offset = layer.offset,
          .is_signed = layer.is_signed};
}

// The training of the network that lies in the run's folder.
Settings training_of(const QuantizeConfig& config) {
  Settings settings = config.training;
  const fs::path folder = settings["out"];
  settings.erase("from");
  settings.erase("classes");
  // The network's file has been written with them.
  std::erase_if(settings, [](const auto& one) { return is_of_built_in_networks(one.first); });
  settings["model"] = (folder / kNetworkFile).string();
  settings["from"] = (folder / kStartFile).string();
  settings["overwrite"] = "true";  // what is there belongs to this run
  return settings;
}

Result<TrainingResult> train_with(const Settings& settings, const TrainObserver& observer) {
  MANTISSA_ASSIGN(const RunConfig config, make_run_config(settings));
  return train(config, observer);
}

// A run that has begun goes on as it is; it names its own network and start.
Result<bool> has_begun(const QuantizeConfig& config) {
  const auto resume = config.training.find("resume");
  if (resume == config.training.end() || resume->second != "true") return false;
  return is_there(fs::path(config.training.at("out")) / kConfigFile);
}

Status check_network(const RunConfig& config) {
  if (config.sequence == 0 && !reads_texts(config)) return {};
  return invalid_input("the network '" + config.model +
                       "' reads tokens, and quantize takes networks of pictures and tables");
}

Result<QuantisationOutcome> run(const Settings& settings, const TrainObserver& observer) {
  MANTISSA_ASSIGN(QuantizeConfig config, quantize_config(settings));
  QuantisationOutcome outcome;
  MANTISSA_ASSIGN(const bool goes_on, has_begun(config));
  Settings training;
  std::string quantising;  // its memory
  if (goes_on) {
    training = training_of(config);
    training.erase("overwrite");
  } else {
    Settings source = config.training;
    source.erase("reestimate");
    MANTISSA_ASSIGN(RunConfig trained, make_run_config(source));
    MANTISSA_RETURN_IF_ERROR(check_network(trained));
    MANTISSA_ASSIGN(const DatasetInfo data, inspect_dataset(trained.data, data_options(trained)));
    MANTISSA_RETURN_IF_ERROR(adapt_classes(data, trained));
    {
      MANTISSA_ASSIGN(const FolderLock lock, prepare_run_folder(trained));
      MANTISSA_ASSIGN(const QuantisedStart start, quantise(trained, config.quantise, observer));
      for (const LayerOutcome& layer : start.layers) outcome.layers.push_back(info_of(layer));
      if (!start.memory.items.empty()) quantising = "quantising, " + to_string(start.memory);
      MANTISSA_RETURN_IF_ERROR(write_quantised(trained.out, start));
    }
    training = training_of(config);
    training.erase("resume");
  }
  MANTISSA_ASSIGN(TrainingResult result, train_with(training, observer));
  outcome.summary_json = std::move(result.summary_json);
  outcome.plan_text = quantising + result.plan_text;
  outcome.already_finished = result.already_finished;
  return outcome;
}

// Examples that are held back where the data have none for validation and the settings say nothing.
constexpr const char* kHeldBack = "2000";

Result<RunConfig> sensitivity_config(const Settings& training) {
  Settings source = training;
  source.erase("reestimate");
  source.erase("epochs");
  MANTISSA_ASSIGN(RunConfig config, make_run_config(source));
  MANTISSA_RETURN_IF_ERROR(check_network(config));
  MANTISSA_ASSIGN(const DatasetInfo data, inspect_dataset(config.data, data_options(config)));
  if (data.validation_count == 0 && source.count("validation") == 0) {
    source["validation"] = kHeldBack;
    MANTISSA_ASSIGN(config, make_run_config(source));
  }
  MANTISSA_RETURN_IF_ERROR(adapt_classes(data, config));
  return config;
}

Result<SensitivityOutcome> measure(const Settings& settings, const TrainObserver& observer) {
  MANTISSA_ASSIGN(const QuantizeConfig config, quantize_config(settings));
  MANTISSA_ASSIGN(const RunConfig source, sensitivity_config(config.training));
  MANTISSA_ASSIGN(const NetworkSensitivity found, sensitivity(source, config.quantise, observer));
  SensitivityOutcome outcome;
  outcome.loss = found.loss;
  outcome.accuracy = found.accuracy;
  outcome.examples = found.examples;
  for (const quantize::SensitivityRow& row : found.table.rows) {
    const NetworkSensitivity::Layer& layer = found.layers[static_cast<size_t>(row.layer)];
    outcome.layers.push_back({info_of(layer.outcome), layer.loss, layer.accuracy, row.share});
  }
  for (const quantize::SensitivityAdvice& advice : found.table.advice) {
    SensitivityAdvice& row = outcome.advice.emplace_back();
    row.won_back = advice.won_back;
    row.more_bytes = advice.more_bytes;
    for (const int64_t layer : advice.layers) {
      row.layers.push_back(found.layers[static_cast<size_t>(layer)].outcome.name);
    }
  }
  return outcome;
}

TrainObserver forwarded(const Observer& observer) {
  if (observer == nullptr) return nullptr;
  return [&observer](const TrainEvent& event) { return observer(progress_of(event)); };
}

}  // namespace

SensitivityOutcome layer_sensitivity(const Settings& settings, const Observer& observer) {
  Result<SensitivityOutcome> outcome = measure(settings, forwarded(observer));
  return outcome.ok() ? std::move(*outcome) : refused<SensitivityOutcome>(outcome.error());
}

QuantisationOutcome quantize_network(const Settings& settings, const Observer& observer) {
  Result<QuantisationOutcome> outcome = run(settings, forwarded(observer));
  return outcome.ok() ? std::move(*outcome) : refused<QuantisationOutcome>(outcome.error());
}

}  // namespace mantissa
