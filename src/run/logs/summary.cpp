#include "run/logs/summary.h"

#include <nlohmann/json.hpp>

#include "base/files/atomic_file.h"
#include "base/files/file_system.h"
#include "formats/json_text.h"
#include "ops/loss.h"
#include "run/logs/metrics.h"
#include "run/settings/run_folder.h"

namespace mantissa {

namespace {

// Numbers that could be trained, and are not.
int64_t untrained_parameters(const Graph& graph) {
  int64_t count = 0;
  for (const Parameter& parameter : graph.parameters) {
    const bool is_statistic = parameter.storage == Storage::kReal;
    if (!is_statistic && !parameter.trained) count += parameter.shape.count();
  }
  return count;
}

nlohmann::ordered_json start_json(const StartingPoint& start, const TakenParameters& taken) {
  return {{"source", start.source},
          {"sha256", start.sha256},
          {"taken", taken.taken.size()},
          {"initial", taken.initial},
          {"left_over", taken.left_over}};
}

void add_stages(const RunSummary& summary, nlohmann::ordered_json& json) {
  const StagedTraining& staged = *summary.plan.staged;
  json["accumulate"] = staged.options.accumulate;
  const auto names = staged.layer_names();
  for (const auto& layers : names) json["division"].push_back(layers);
  if (summary.idle.empty()) return;
  json["idle_fraction"] = summary.idle;
  nlohmann::ordered_json& staleness = json["staleness"] = nlohmann::ordered_json::array();
  size_t layer = 0;
  for (size_t s = 0; s < names.size(); ++s) {
    const pipeline::MissedUpdates& missed = summary.missed[s];
    for (const std::string& name : names[s]) {
      if (staged.layers.layers[layer++].parameters == 0) continue;
      staleness.push_back({{"layer", name},
                           {"stage", s + 1},
                           {"mean", fraction(missed.missed, missed.micro_batches)},
                           {"most", missed.most}});
    }
  }
  if (summary.config.pipeline.processes > 1) {
    json["replicas"] = summary.config.pipeline.replicas;
    json["bytes_sent"] = summary.bytes_sent;
  }
}

void add_test_score(const Score& test, nlohmann::ordered_json& json) {
  if (test.regression) {
    json["test_r2"] = test.regression->r2;
    json["test_rmse"] = test.regression->rmse;
    json["test_mae"] = test.regression->mae;
    if (test.regression->each.size() > 1) {
      nlohmann::ordered_json& targets = json["test_targets"] = nlohmann::ordered_json::array();
      for (const NumberScore& one : test.regression->each) {
        targets.push_back(
            {{"target", one.name}, {"r2", one.r2}, {"rmse", one.rmse}, {"mae", one.mae}});
      }
    }
  } else {
    json["test_accuracy"] = test.accuracy();
  }
  const auto add = [&](const NamedScores& scores) {
    for (const auto& [name, score] : scores) json[std::string("test_") + name] = score;
  };
  if (test.binary) add(named_scores(*test.binary));
  if (test.ordinal) add(named_scores(*test.ordinal));
  if (test.labels) add(named_scores(*test.labels));
  if (test.sequences) json["test_label_error_rate"] = test.sequences->label_error_rate();
  json["test_loss"] = test.loss;
  json["test_examples"] = test.examples;
}

// Adds the test scores; with several outputs, the sum of their losses and the scores of each.
void add_test_scores(const Score& test, nlohmann::ordered_json& json) {
  if (test.outputs.empty()) {
    add_test_score(test, json);
    return;
  }
  json["test_loss"] = test.loss;
  json["test_examples"] = test.examples;
  for (const Score& output : test.outputs) {
    nlohmann::ordered_json& one = json["outputs"][output.output];
    add_test_score(output, one);
    one.erase("test_examples");
  }
}

}  // namespace

std::string to_json(const RunSummary& summary) {
  const RunConfig& config = summary.config;
  const RunPlan& plan = summary.plan;
  const CheckpointInfo& info = summary.info;
  const StepTimes& times = summary.times;
  const int64_t parameters = plan.graph.trained_parameters();
  const int64_t untrained = untrained_parameters(plan.graph);
  nlohmann::ordered_json json = {{"model", config.model},
                                 {"format", to_string(config.format)},
                                 {"data", config.data},
                                 {"epochs", config.epochs},
                                 {"steps", info.step},
                                 {"seed", config.seed},
                                 {"threads", config.threads},
                                 {"isa", isa_name(config.isa)},
                                 {"batch_size", config.batch_size},
                                 {"micro_batch_size", config.micro_batch_size},
                                 {"train_examples", summary.train_examples}};
  add_test_scores(summary.test, json);
  json.update(nlohmann::ordered_json{
      {"examples_per_second", times.examples_per_second(config.batch_size)},
      {"train_seconds", times.busy_seconds()},
      {"step_ms_median", times.median_ms()},
      {"planned_peak_bytes", plan.memory.peak_bytes()},
      {"peak_rss_bytes", summary.peak_rss_bytes},
      {"weight_state_bytes_per_parameter", static_cast<double>(plan.layout.weight_state_bytes()) /
                                               static_cast<double>(parameters + untrained)},
      {"weights_sha256", summary.weights_sha256},
      {"state_sha256", summary.state_sha256},
      {"run_identity", info.run_identity},
      {"parameters", parameters},
      {"stages", config.pipeline.stages},
      {"pipeline", config.pipeline.stages == 1
                       ? "none"
                       : std::string(pipeline::mode_name(config.pipeline.mode))},
      {"re_executions", info.re_executions},
      {"guard_violations", info.guard_violations},
      {"saturation_rate", fraction(info.saturated, info.requantised)}});
  if (summary.test.language) {
    json["test_bits_per_token"] = summary.test.language->bits_per_token;
    json["test_perplexity"] = summary.test.language->perplexity;
  }
  if (summary.test.mean_iou) json["test_mean_iou"] = *summary.test.mean_iou;
  if (plan.staged) add_stages(summary, json);
  if (untrained > 0) json["untrained_parameters"] = untrained;
  if (config.start) json["from"] = start_json(*config.start, plan.taken);
  if (!config.format.keeps_norm_inputs) {
    json["norm_channels_left_out"] = info.norm_channels_left_out;
  }
  if (plan.validation_examples > 0 || config.early_stop > 0) json["best_step"] = info.best_step;
  if (plan.validation_examples > 0) {
    // Padding and questions are no tokens that count.
    const bool counts_tokens = summary.test.language && info.best_examples > 0;
    const auto examples =
        static_cast<double>(counts_tokens ? info.best_examples
                                          : plan.validation_examples * config.labels_per_example());
    json["validation_examples"] = plan.validation_examples;
    json["best_validation_loss"] = summed_loss(plan.options, info.best_loss_q24) / examples;
    if (!summary.test.regression && summary.test.outputs.empty()) {
      json["best_validation_accuracy"] = static_cast<double>(info.best_correct) / examples;
    }
  } else if (config.early_stop > 0) {
    const auto examples =
        static_cast<double>(plan.steps_per_epoch * config.batch_size * config.labels_per_example());
    json["best_training_loss"] = summed_loss(plan.options, info.best_loss_q24) / examples;
  }
  if (!summary.diverged.empty()) json["diverged"] = summary.diverged;
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

Result<std::optional<std::string>> read_summary(const std::filesystem::path& folder,
                                                const std::string& run_identity) {
  const std::filesystem::path path = folder / kSummaryFile;
  MANTISSA_ASSIGN(const bool there, is_there(path));
  if (!there) return std::optional<std::string>();
  MANTISSA_ASSIGN(const auto bytes, read_file(path, 4 << 20));
  std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto json = parse_json(text);
  if (!json.is_object() || !json.contains("run_identity") || json["run_identity"] != run_identity) {
    return invalid_input(
        path.string() +
        ": is of a run with other data, or with settings other than its config.toml says");
  }
  return std::optional(std::move(text));
}

std::string diverged_by(const std::string& summary_json) {
  const auto json = parse_json(summary_json);
  const auto found = json.is_object() ? json.find("diverged") : json.end();
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace mantissa
