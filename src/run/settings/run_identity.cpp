// The settings that decide a run's bits, as a text and its hash.
#include "base/hash.h"
#include "infer/frozen_network.h"
#include "models/json/network_json.h"
#include "run/division.h"
#include "run/settings/run_config.h"

namespace mantissa {
namespace {

// A setting in the form of a run's identity. Predicted and exact exponents count as the same,
// because they give the same bits. A network from a file counts by its content, and so do the
// weights that a run starts from.
std::string identity_text(const Setting& setting, RunConfig config) {
  if (config.network && setting.name == std::string_view("model")) {
    return config.model + " (JSON " + network_sha256(*config.network) + ")";
  }
  if (config.start && setting.name == std::string_view("from")) {
    return "weights " + config.start->sha256;
  }
  if (!config.teacher.empty() && setting.name == std::string_view("teacher")) {
    return "weights " + config.teacher_network->state.sha256(StateGroup::kPredictor);
  }
  // All that decides which updates a micro-batch misses.
  if (config.pipeline.is_asynchronous() && setting.name == std::string_view("pipeline")) {
    const PipelineConfig& way = config.pipeline;
    return std::string(pipeline::mode_name(way.mode)) + ", " + std::to_string(way.stages) +
           (way.partition ? " stages by " + std::string(pipeline::balance_name(*way.partition))
                          : " stages from " + division_text(way.first_layers)) +
           ", windows " + std::string(pipeline::windows_name(way.windows)) + ", drain-every " +
           std::to_string(way.drain_every) +
           (way.sync_last > 0 ? ", sync-last " + std::to_string(way.sync_last) : "") +
           (way.stage_memory > 0 ? ", stage-memory " + std::to_string(way.stage_memory) : "");
  }
  // The sums of a flush in integers are the same.
  const bool adds_in_order = config.format.is_float() || config.pipeline.is_asynchronous();
  if (setting.name == std::string_view("replicas") && !adds_in_order) return "";
  config.format.predicted = true;
  return setting.text(config);
}

}  // namespace

std::string run_identity(const RunConfig& config, const std::string& data_sha256) {
  std::string text = "mantissa run 1\ndata=" + data_sha256 + "\n";
  for (const Setting& setting : training_settings()) {
    if (!setting.has(traits::kIdentity)) continue;
    const std::string value = identity_text(setting, config);
    if (setting.has(traits::kIfGiven) && value.empty()) continue;
    text += setting.name + ("=" + value) + "\n";
  }
  return sha256_hex(text);
}

std::string differing_settings(const RunConfig& before, const RunConfig& now) {
  std::string text;
  for (const Setting& setting : training_settings()) {
    if (!setting.has(traits::kIdentity)) continue;
    const std::string was = identity_text(setting, before), is = identity_text(setting, now);
    if (was == is) continue;
    const auto shown = [](const std::string& value) { return value.empty() ? "none" : value; };
    text += (text.empty() ? "" : "; ") + std::string(setting.name) + " " + shown(was) + ", now " +
            shown(is);
  }
  return text;
}

}  // namespace mantissa
