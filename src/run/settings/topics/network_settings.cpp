#include <algorithm>
#include <filesystem>
#include <iterator>
#include <set>
#include <string_view>

#include "base/files/file_system.h"
#include "infer/frozen_network.h"
#include "infer/tasks/language.h"
#include "models/json/network_json.h"
#include "networks/imported_network.h"
#include "networks/named_inputs.h"
#include "networks/network.h"
#include "ops/losses/loss_weight.h"
#include "run/settings/run_folder.h"
#include "run/settings/topics.h"

namespace mantissa {
namespace {

Result<Graph> network_at(const std::string& path, RunConfig& config) {
  if (!is_onnx_file(path)) {
    MANTISSA_ASSIGN(NetworkText network, read_network_text(path));
    config.network_stages = std::move(network.stages);
    return std::move(network.graph);
  }
  MANTISSA_ASSIGN(onnx::ImportedNetwork imported, import_file(path, config.import_options));
  config.is_imported = true;
  config.notes = std::move(imported.notes);
  config.model_outputs = std::move(imported.outputs);
  config.adapts_classes = true;
  return std::move(imported.graph);
}

// A setting of the loss that is added to an imported model.
bool is_loss_setting(std::string_view name) {
  constexpr std::string_view kNames[] = {"loss", "label-smoothing", "focal", "positive-weights",
                                         "huber-delta"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

}  // namespace

bool is_network_file(std::string_view model) {
  return model.ends_with(".json") || model.ends_with(".onnx");
}

Status take_teacher(const std::map<std::string, std::string>& settings, RunConfig& config) {
  if (config.teacher.empty()) {
    for (const char* name : {"teacher-weight", "temperature"}) {
      if (settings.contains(name))
        return invalid_input(std::string(name) + ": goes with --teacher");
    }
    return {};
  }
  MANTISSA_ASSIGN(const PathKind kind, path_kind(config.teacher));
  const std::filesystem::path path = config.teacher;
  const bool is_run = kind == PathKind::kFolder;
  auto network = load_frozen(is_run ? path / kModelFile : path);
  if (!network.ok()) return make_error(network.error().code, "teacher: " + network.error().message);
  config.teacher_network = std::make_shared<FrozenNetwork>(std::move(*network));
  return {};
}

Status take_network(const std::map<std::string, std::string>& settings, RunConfig& config) {
  if (!config.network) {
    if (!is_network_file(config.model)) return {};
    config.network_file = config.model;
    MANTISSA_ASSIGN(config.network, network_at(config.network_file, config));
  }
  for (const auto& [name, text] : settings) {
    if (!has_trait(name, traits::kOfBuiltIn)) continue;
    if (config.is_imported && is_loss_setting(name)) continue;
    return invalid_input(name + ": is for built-in networks; " + config.network_file +
                         " says it itself: leave it out, or change the file");
  }
  if (is_text_encoder(*config.network)) {
    config.model = config.network->name;
    return {};
  }
  if (reads_tokens(*config.network) && !is_text_classifier(*config.network)) {
    config.model = config.network->name;
    const Result<LanguageOptions> language = language_options(*config.network);
    if (language.ok()) return {};
    return invalid_input(config.network_file + ": " + language.error().message);
  }
  const Result<ModelOptions> options = example_options(*config.network);
  if (!options.ok()) return invalid_input(config.network_file + ": " + options.error().message);
  config.model = config.network->name;
  config.loss = options->loss;
  config.label_smoothing = options->label_smoothing;
  config.focal = options->focal;
  config.positive_weights = options->positive_weights;
  config.huber_delta = options->huber_delta;
  return {};
}

Status take_loss_weights(RunConfig& config) {
  if (config.loss_weights.empty()) return {};
  if (!config.network || !has_several_outputs(*config.network)) {
    return invalid_input("loss-weights: is for networks with several outputs, and '" +
                         config.model + "' has one");
  }
  std::set<std::string> named;
  for (const std::string& each : parse_missing(config.loss_weights)) {
    const size_t sign = each.rfind('=');
    const std::string name = each.substr(0, sign);
    if (sign == std::string::npos) {
      return invalid_input("loss-weights: '" + each + "' is not as kind=0.5");
    }
    if (!named.insert(name).second) {
      return invalid_input("loss-weights: '" + name + "' is named twice");
    }
    MANTISSA_ASSIGN(const double weight, parse_real("loss-weights", each.substr(sign + 1),
                                                    ops::kLeastLossWeight, ops::kMostLossWeight));
    const Status status = ops::set_loss_weight(*config.network, name, weight);
    if (!status.ok()) return invalid_input("loss-weights: " + status.error().message);
  }
  return {};
}

Status take_sizes_of_numbers(const std::map<std::string, std::string>& settings,
                             RunConfig& config) {
  const Value* const numbers =
      config.network ? input_named(*config.network, kNumberTensor) : nullptr;
  if (numbers == nullptr) return {};
  const Shape& shape = numbers->shape;
  const std::string has = ": " + config.network_file + " has ";
  if (shape.rank == 2 && settings.contains("sequence")) {
    if (config.sequence != shape[0]) {
      return invalid_input("sequence " + std::to_string(config.sequence) + has +
                           std::to_string(shape[0]) + " positions: leave it out");
    }
    config.sequence = 0;
  }
  if (shape.rank == 3 && settings.contains("input-size")) {
    const PictureSize size{.height = shape[0], .width = shape[1]};
    if (config.input_size.height != 0 && config.input_size != size) {
      return invalid_input("input-size " + to_string(config.input_size) + has + "pictures of " +
                           to_string(size) + ": leave it out");
    }
    config.input_size = {};
  }
  return {};
}

}  // namespace mantissa
