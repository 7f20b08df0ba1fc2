#include "infer/tasks/several_outputs.h"

#include <array>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "formats/json_text.h"

namespace mantissa {
namespace {

using Json = nlohmann::ordered_json;
using Outputs = std::shared_ptr<const std::vector<OutputTask>>;

std::string describe_outputs(const Outputs& outputs, const Score& score) {
  std::array<char, 64> loss{};
  std::snprintf(loss.data(), loss.size(), "loss %.4f", score.loss);
  std::string text = loss.data();
  for (size_t i = 0; i < outputs->size(); ++i) {
    const OutputTask& output = (*outputs)[i];
    text += "; " + output.name + ": " + output.task.describe(score.outputs[i]);
  }
  return text;
}

// The reports of all outputs as JSON. Data, time and hash belong to all of them.
std::string to_json(const std::vector<OutputTask>& outputs,
                    const std::vector<Task::Report>& reports, const Score& score,
                    const std::string& data, const std::string& model_sha256,
                    std::optional<double> seconds) {
  Json json = {{"data", data}, {"examples", score.examples}, {"loss", score.loss}};
  for (size_t i = 0; i < outputs.size(); ++i) {
    Json one = parse_json<Json>(reports[i].json(model_sha256, std::nullopt));
    for (const char* key : {"data", "examples", "model_sha256"}) one.erase(key);
    json["outputs"][outputs[i].name] = std::move(one);
  }
  if (seconds) json["seconds"] = *seconds;
  json["model_sha256"] = model_sha256;
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Task::Report report_on(const Outputs& outputs, const std::string& data,
                       const std::vector<Task::Measurement>& measurements) {
  Task::Report report;
  for (size_t i = 0; i < outputs->size(); ++i) {
    const OutputTask& output = (*outputs)[i];
    const Task::Report& one = report.outputs.emplace_back(measurements[i].report());
    report.score.examples = one.score.examples;
    report.score.loss += output.weight * one.score.loss;
    report.score.loss_q24 += ops::loss_in_q24(
        output.weight * ops::loss_of(output.task.loss).op->loss_unit, one.score.loss_q24);
    report.score.outputs.push_back(one.score);
    report.score.outputs.back().output = output.name;
    report.scored.insert(report.scored.end(), one.scored.begin(), one.scored.end());
  }
  report.json = [outputs, data, reports = report.outputs, score = report.score](
                    const std::string& sha256, std::optional<double> seconds) {
    return to_json(*outputs, reports, score, data, sha256, seconds);
  };
  return report;
}

}  // namespace

Task several_outputs_task(std::vector<OutputTask> all, std::string data) {
  Task task{.counts_correct = false};
  for (const OutputTask& output : all) {
    task.guessing_loss += output.weight * output.task.guessing_loss;
    task.high_loss += output.weight * output.task.high_loss;
  }
  const Outputs outputs = std::make_shared<const std::vector<OutputTask>>(std::move(all));
  task.describe = [outputs](const Score& score) { return describe_outputs(outputs, score); };
  task.begin = [outputs, data = std::move(data)] {
    std::vector<Task::Measurement> measurements;
    for (const OutputTask& output : *outputs) measurements.push_back(output.task.begin());
    return Task::Measurement{
        .add =
            [measurements](const Programs& programs, const Batch& batch, const StepResult& step) {
              for (const Task::Measurement& one : measurements) one.add(programs, batch, step);
            },
        .report = [=] { return report_on(outputs, data, measurements); }};
  };
  return task;
}

}  // namespace mantissa
