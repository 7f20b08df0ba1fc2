#include "api/commands/stages.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "api/formatted.h"
#include "base/sizes.h"
#include "pipeline/diagram.h"
#include "pipeline/simulate.h"

namespace mantissa {
namespace {

// "stem to stage1.0.conv2".
std::string layers_of(const StagedTraining& staged, size_t s) {
  const std::vector<int>& first = staged.division.first;
  const size_t last = s + 1 < first.size() ? static_cast<size_t>(first[s + 1]) - 1
                                           : staged.layers.layers.size() - 1;
  const std::string& from = staged.layers.layers[first[s]].name;
  const std::string& to = staged.layers.layers[last].name;
  return from == to ? from : from + " to " + to;
}

int most_missed(const pipeline::Schedule& schedule, size_t s) {
  return std::ranges::max(pipeline::staleness(schedule.stages[s]));
}

// A column for each piece of work.
pipeline::StageTimes drawn_times(const pipeline::Options& options) {
  const bool splits = options.splits_backward();
  return {.grad_weights = splits ? 1.0 : 0.0, .update = 1, .fused = !splits};
}

}  // namespace

Result<StagesReport> report_stages(const RunConfig& config, const RunPlan& plan) {
  const StagedTraining& staged = *plan.staged;
  pipeline::Options options = staged.options;
  std::vector<pipeline::StageTimes> times =
      stage_times(plan.graph, plan.training, staged.plan, config.profile, staged.threads);
  // A stage without weights passes its gradient on as the others do.
  for (pipeline::StageTimes& stage : times) stage.fused = !options.splits_backward();
  options.updates = 8 * options.stages;
  MANTISSA_ASSIGN(const pipeline::Schedule schedule, pipeline::make_schedule(options));
  MANTISSA_ASSIGN(const pipeline::Simulation simulation, pipeline::simulate(schedule, times));
  StagesReport report;
  report.text = std::to_string(options.stages) + " stages, " +
                std::string(pipeline::mode_name(options.mode)) + ", " +
                std::to_string(options.accumulate) + " micro-batches of " +
                std::to_string(config.micro_batch_size) + " in an update; times are estimates\n";
  report.json["mode"] = pipeline::mode_name(options.mode);
  report.json["accumulate"] = options.accumulate;
  report.json["idle_fraction"] = simulation.idle;
  const auto names = staged.layer_names();
  for (const auto& layers : names) report.json["partition"].push_back(layers.front());
  for (size_t s = 0; s < schedule.stages.size(); ++s) {
    const StagePlan& stage = staged.plan.stages[s];
    const double ms = (times[s].forward + times[s].grad_input + times[s].grad_weights) / 1e6;
    const int missed = most_missed(schedule, s);
    report.text += "  stage " + std::to_string(s + 1) + "  " + layers_of(staged, s) + ": " +
                   formatted("%.2f ms", ms) + " a micro-batch, idle " +
                   formatted("%.1f %%", 100 * simulation.stages[s].idle) + ", " +
                   std::to_string(stage.window) + " in flight, misses up to " +
                   std::to_string(missed) + " updates, " + format_bytes(staged.bytes[s]) +
                   " (arena " + format_bytes(stage.arena_bytes()) + ")\n";
    report.json["stages"].push_back({{"layers", layers_of(staged, s)},
                                     {"first_layer", staged.division.first[s]},
                                     {"layer_names", names[s]},
                                     {"load", staged.division.load[s]},
                                     {"micro_batch_ms", ms},
                                     {"idle_fraction", simulation.stages[s].idle},
                                     {"window", stage.window},
                                     {"weight_versions", schedule.versions[s]},
                                     {"staleness", missed},
                                     {"arena_bytes", stage.arena_bytes()},
                                     {"bytes", staged.bytes[s]}});
  }
  MANTISSA_ASSIGN(report.diagram, pipeline::diagram_of_updates(schedule, drawn_times(options),
                                                               pipeline::kDrawnUpdates));
  report.svg = pipeline::diagram_svg(schedule, simulation, pipeline::kDrawnUpdates);
  return report;
}

}  // namespace mantissa
