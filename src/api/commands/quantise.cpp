// quantize: post-training quantisation, and training from there, as a run.
#include "start/quantise.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "api/outcome.h"
#include "api/settings/quantise_settings.h"
#include "api/settings/settings.h"
#include "base/files/file_system.h"
#include "mantissa/mantissa.h"
#include "networks/language/written_model.h"
#include "run/plan/run_data.h"
#include "run/plan/run_plan.h"
#include "run/settings/run_config.h"
#include "run/settings/run_folder.h"
#include "run/settings/run_network.h"
#include "run/settings/starting_point.h"
#include "start/insert_batch_norm.h"
#include "start/quantise_sensitivity.h"
#include "train/trainer.h"

namespace mantissa {
namespace {

namespace fs = std::filesystem;

QuantisedLayerInfo info_of(const LayerOutcome& layer) {
  return {.name = layer.name,
          .weight_bits = layer.bits.weights,
          .activation_bits = layer.bits.activations,
          .any_scale = layer.any_scale,
          .weight_error = layer.weight_error,
          .activation_error = layer.activation_error,
          .range = layer.range,
          .offset = layer.offset,
          .is_signed = layer.is_signed};
}

Result<QuantiseConfig> config_of_a_run(const Settings& settings) {
  MANTISSA_ASSIGN(QuantiseConfig config, quantise_config(settings));
  if (config.blocks == BlockKind::kNone) return config;
  return invalid_input(
      "blocks: the result is no run; quantize_language_model makes it, and "
      "--sensitivity is for runs");
}

// The settings with the defaults of quantize: no training, and statistics averaged anew.
Settings with_defaults(Settings settings) {
  if (settings.count("steps") == 0) settings.insert({"epochs", "0"});
  settings.insert({"reestimate", "50"});
  return settings;
}

// The settings of a run whose data must have the columns and classes of its start.
Result<RunConfig> exact_config(const Settings& settings) {
  MANTISSA_ASSIGN(RunConfig config, make_run_config(settings));
  if (config.start) config.start->learned.is_exact = true;
  return config;
}

// The training of the network that lies in the run's folder.
Settings training_of(Settings settings) {
  settings = with_defaults(std::move(settings));
  const fs::path folder = settings["out"];
  std::erase_if(settings, [](const auto& one) { return has_trait(one.first, traits::kOfSource); });
  settings["model"] = (folder / kNetworkFile).string();
  settings["from"] = (folder / kStartFile).string();
  settings["overwrite"] = "true";  // the files there belong to this run
  settings.erase("resume");
  return settings;
}

// A run that has begun goes on unchanged: it names its own network and start.
Result<bool> goes_on(const QuantiseConfig& config) {
  if (!config.resumes()) return false;
  return is_there(fs::path(config.training.at("out")) / kConfigFile);
}

// The hash of the weights that `from` names, as begin() takes them. Empty if it is not named.
Result<std::string> named_weights(const Settings& training) {
  if (training.count("from") == 0) return std::string();
  MANTISSA_RETURN_IF_ERROR(check_resumed_files(training));
  MANTISSA_ASSIGN(const Settings settings, with_data_of_source(training));
  MANTISSA_ASSIGN(const RunConfig source, make_run_config(with_defaults(settings)));
  return source.start->sha256;
}

Result<TrainingResult> go_on(const QuantiseConfig& config, const TrainObserver& observer) {
  const fs::path file = fs::path(config.training.at("out")) / kStartFile;
  MANTISSA_ASSIGN(const bool is_quantised, is_there(file));
  if (!is_quantised) {
    return invalid_input(config.training.at("out") +
                         " is no run of quantize; train --resume goes on with it");
  }
  MANTISSA_ASSIGN(const TrainedFile start, read_trained(file));
  const auto quantised = start.file.metadata.find(kQuantisedEntry);
  if (quantised == start.file.metadata.end()) {
    return invalid_input(config.training.at("out") +
                         " does not say how it was quantised; train --resume goes on with it");
  }
  MANTISSA_ASSIGN(const std::string weights, named_weights(config.training));
  MANTISSA_RETURN_IF_ERROR(check_quantised(quantised->second, config, weights));
  Settings training = config.training;
  std::erase_if(training, [](const auto& one) { return has_trait(one.first, traits::kOfSource); });
  training.erase("model");  // the run has its own
  training.erase("overwrite");
  MANTISSA_ASSIGN(const RunConfig run, training_config(training));
  return train(run, observer);
}

QuantisedRun quantised_run(TrainingResult result) {
  return {{.summary_json = std::move(result.summary_json),
           .plan_text = std::move(result.plan_text),
           .already_finished = result.already_finished},
          {}};
}

// An error if the quantised network could not be trained.
Status check_training(const RunConfig& source, const DatasetInfo& data, int64_t reestimate,
                      const Graph& network) {
  RunConfig config = source;
  config.network = network;
  config.start.reset();
  config.adapts_classes = false;
  config.reestimate = reestimate;
  MANTISSA_ASSIGN(const RunPlan plan, plan_run(config, data));
  return check_budget(plan.memory, config.memory_budget);
}

Outcome<QuantisedRun> begin(const QuantiseConfig& config, const TrainObserver& observer) {
  if (config.training.count("from") == 0) {
    return invalid_input(config.training.at("out") +
                         " holds no run to go on with; --from names the trained network");
  }
  MANTISSA_ASSIGN(const Settings settings, with_data_of_source(config.training));
  MANTISSA_ASSIGN(RunConfig source, exact_config(with_defaults(settings)));
  if (source.network && decoder_sizes(*source.network).ok()) {
    tell_message(observer,
                 "values get few bits, too, in a run that trains on; --blocks q4_0 rounds "
                 "the weights alone, into a file (docs/language.md)");
  }
  const std::string weights = source.start->sha256;
  const int64_t reestimate = std::exchange(source.reestimate, 0);  // for the run that follows
  MANTISSA_ASSIGN(const DatasetInfo data, inspect_run_data(source));
  MANTISSA_RETURN_IF_ERROR(begin_with_batch_norms(observer, source));
  MANTISSA_RETURN_IF_ERROR(adapt_classes(data, source));
  std::vector<QuantisedLayerInfo> layers;
  std::string quantising;  // its memory
  {
    MANTISSA_ASSIGN(const FolderLock lock, prepare_run_folder(source));
    MANTISSA_ASSIGN(const QuantisedStart start,
                    quantise_network(source, config.quantise, observer));
    for (const LayerOutcome& layer : start.layers) layers.push_back(info_of(layer));
    if (!start.memory.items.empty()) quantising = "quantising, " + to_string(start.memory);
    MANTISSA_RETURN_IF_ERROR(check_training(source, data, reestimate, start.network));
    MANTISSA_RETURN_IF_ERROR(write_quantised(source.out, start, quantised_text(config, weights)));
  }
  MANTISSA_ASSIGN(const RunConfig run, make_run_config(training_of(settings)));
  MANTISSA_ASSIGN(TrainingResult result, train(run, observer));
  QuantisedRun quantised = quantised_run(std::move(result));
  quantised.layers = std::move(layers);
  quantised.plan_text = quantising + quantised.plan_text;
  return quantised;
}

Outcome<QuantisedRun> run(const Settings& settings, const TrainObserver& observer) {
  MANTISSA_ASSIGN(const QuantiseConfig config, config_of_a_run(settings));
  MANTISSA_ASSIGN(const bool has_begun, goes_on(config));
  if (has_begun) {
    MANTISSA_ASSIGN(TrainingResult result, go_on(config, observer));
    return quantised_run(std::move(result));
  }
  const fs::path folder = config.training.at("out");
  MANTISSA_ASSIGN(const bool was_there, is_there(folder));
  Outcome<QuantisedRun> quantised = begin(config, observer);
  if (!quantised.ok() && !was_there) remove_traces(folder);
  return quantised;
}

// Examples that are held back if the data have none for validation and the settings say nothing.
constexpr const char* kHeldBack = "2000";

Result<RunConfig> sensitivity_config(const Settings& training, const TrainObserver& observer) {
  MANTISSA_ASSIGN(Settings source, with_data_of_source(training));
  source.erase("reestimate");
  source.erase("epochs");
  MANTISSA_ASSIGN(RunConfig config, exact_config(source));
  MANTISSA_ASSIGN(const DatasetInfo data, inspect_run_data(config));
  if (data.validation_count == 0 && source.count("validation") == 0) {
    source["validation"] = kHeldBack;
    MANTISSA_ASSIGN(config, exact_config(source));
    tell_message(observer, "measured on " + std::string(kHeldBack) +
                               " of the training examples: the loss of a network that was trained "
                               "on them is smaller there than on others");
  }
  MANTISSA_RETURN_IF_ERROR(adapt_classes(data, config));
  return config;
}

Outcome<Sensitivity> measure(const Settings& settings, const TrainObserver& observer) {
  MANTISSA_ASSIGN(const QuantiseConfig config, config_of_a_run(settings));
  MANTISSA_ASSIGN(const RunConfig source, sensitivity_config(config.training, observer));
  MANTISSA_ASSIGN(const NetworkSensitivity found, sensitivity(source, config.quantise, observer));
  Sensitivity measured;
  measured.loss = found.loss;
  measured.accuracy = found.accuracy;
  measured.examples = found.examples;
  for (const quantise::SensitivityRow& row : found.table.rows) {
    const NetworkSensitivity::Layer& layer = found.layers[static_cast<size_t>(row.layer)];
    measured.layers.push_back({info_of(layer.outcome), layer.loss, layer.accuracy, row.share});
  }
  for (const quantise::SensitivityAdvice& advice : found.table.advice) {
    SensitivityAdvice& row = measured.advice.emplace_back();
    row.won_back = advice.won_back;
    row.more_bytes = advice.more_bytes;
    for (const int64_t layer : advice.layers) {
      row.layers.push_back(found.layers[static_cast<size_t>(layer)].outcome.name);
    }
  }
  return measured;
}

}  // namespace

Outcome<Sensitivity> layer_sensitivity(const Settings& settings, const Observer& observer) {
  return measure(settings, forwarded(observer));
}

Outcome<QuantisedRun> quantize_network(const Settings& settings, const Observer& observer) {
  return run(settings, forwarded(observer));
}

}  // namespace mantissa
