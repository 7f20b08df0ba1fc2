// `simulate`: a pipeline of any size, on given times.
#include "pipeline/simulate.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "api/formatted.h"
#include "api/outcome.h"
#include "api/settings/commands.h"
#include "api/settings/settings.h"
#include "base/files/atomic_file.h"
#include "mantissa/mantissa.h"
#include "pipeline/diagram.h"
#include "pipeline/trace.h"
#include "run/logs/trace_file.h"

namespace mantissa {
namespace {

using S = const std::string&;

// "50us", "1.5ms", "3s", "200ns": in nanoseconds.
Result<double> parse_time(const std::string& name, const std::string& text) {
  constexpr std::array<std::pair<const char*, double>, 4> kUnits = {
      {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}}};
  for (const auto& [unit, factor] : kUnits) {
    if (!text.ends_with(unit)) continue;
    const std::string number = text.substr(0, text.size() - std::string(unit).size());
    const auto value = parse_real(name, number, 0, 1e9);
    if (value.ok()) return *value * factor;
    break;
  }
  return invalid_input(name + ": '" + text + "' is not a time such as 50us, 1.5ms or 2s");
}

struct SimulationConfig {
  pipeline::Options options;
  pipeline::StageTimes times;
  std::vector<pipeline::StageTimes> measured;  // of each stage, from a trace
  int64_t traced_steps = 0;
  pipeline::Conditions conditions;
  std::string straggler, svg, trace, from_trace;
  bool draws = false;
};

Status parse_times(S name, S text, SimulationConfig& config) {
  pipeline::StageTimes& times = config.times;
  const auto first = text.find(','), second = text.find(',', first + 1);
  if (first == std::string::npos || second == std::string::npos) {
    return invalid_input("times: '" + text + "' is not three times such as 1ms,1ms,1ms");
  }
  MANTISSA_ASSIGN(times.forward, parse_time(name, text.substr(0, first)));
  MANTISSA_ASSIGN(times.grad_input, parse_time(name, text.substr(first + 1, second - first - 1)));
  MANTISSA_ASSIGN(times.grad_weights, parse_time(name, text.substr(second + 1)));
  return {};
}

template <auto kPart, auto kField>
Status parse_duration(S name, S text, SimulationConfig& config) {
  return assign(parse_time(name, text), config.*kPart.*kField);
}

// "3x2.5": the third stage takes 2.5 times as long.
Status parse_straggler(const std::string& text, const pipeline::Options& options,
                       pipeline::Conditions& conditions) {
  const auto by = text.find('x');
  const auto stage = parse_integer("straggler", text.substr(0, by), 1, options.stages);
  const auto factor = by == std::string::npos
                          ? Result<double>(invalid_input(""))
                          : parse_real("straggler", text.substr(by + 1), 1, 1e6);
  if (!stage.ok() || !factor.ok()) {
    return invalid_input("straggler: '" + text + "' is not a stage and a factor such as 3x2.5");
  }
  conditions.straggler = static_cast<int>(*stage) - 1;
  conditions.straggler_factor = *factor;
  return {};
}

constexpr auto kOptions = &SimulationConfig::options;
constexpr auto kTimes = &SimulationConfig::times;
constexpr auto kConditions = &SimulationConfig::conditions;

constexpr SettingOf<SimulationConfig> kSimulateRows[] = {
    {"stages", "stages, all alike, up to 1000", "4",
     parse_whole<1, pipeline::kMostStages, kOptions, &pipeline::Options::stages>},
    {"pipeline", "flush, async, stash or 2bw, as in train", "flush",
     parse_by<pipeline::parse_mode, kOptions, &pipeline::Options::mode>},
    {"flush-form", "order of a flush: gpipe, 1f1b, or split (grad_weights apart)", "split",
     parse_by<pipeline::parse_flush_form, kOptions, &pipeline::Options::form>},
    {"windows", "micro-batches in flight, of the others: lean or full", "lean",
     parse_by<pipeline::parse_windows, kOptions, &pipeline::Options::windows>},
    {"accumulate", "micro-batches of an update", "1",
     parse_whole<1, 1 << 20, kOptions, &pipeline::Options::accumulate>},
    {"updates", "updates to simulate (0: enough to fill the pipeline several times)", "0",
     parse_whole<0, 1 << 20, kOptions, &pipeline::Options::updates>},
    {"times", "forward, grad_input and grad_weights of a micro-batch at a stage", "1ms,1ms,1ms",
     parse_times},
    {"update-time", "time of an update at a stage", "0s",
     parse_duration<kTimes, &pipeline::StageTimes::update>},
    {"hop", "time from one stage to the next", "0s",
     parse_duration<kConditions, &pipeline::Conditions::hop>},
    {"jitter", "each piece of work takes 1 +- so much of its time", "0",
     [](S name, S text, SimulationConfig& config) {
       return assign(parse_real(name, text, 0, 1), config.conditions.jitter);
     }},
    {"straggler", "a slower stage and how many times: 3x2.5", "",
     parse_text<&SimulationConfig::straggler>},
    {"seed", "of the jitter", "0",
     parse_whole<0, INT64_MAX, kConditions, &pipeline::Conditions::seed>},
    {"fused", "gradients go on only behind grad_weights", "false",
     parse_switch<kTimes, &pipeline::StageTimes::fused>, traits::kSwitch},
    {"diagram", "draw who works on which micro-batch when, for three updates of each stage",
     "false", parse_switch<&SimulationConfig::draws>, traits::kSwitch},
    {"svg", "file to draw it to, in true proportions", "", parse_text<&SimulationConfig::svg>},
    {"trace", "file for its first steps, as Perfetto and Chrome show it", "",
     parse_text<&SimulationConfig::trace>},
    {"from-trace",
     "a file that train --trace wrote: stages, times and pipeline are those that it has", "",
     parse_text<&SimulationConfig::from_trace>}};
constexpr CommandOf<SimulationConfig> kSimulateCommand = {"simulate", kSimulateRows};

// A pipeline that was traced: its stages, their times and its way, unless settings say otherwise.
Status take_trace(const Settings& settings, SimulationConfig& request) {
  const auto file = settings.find("from-trace");
  if (file == settings.end() || file->second.empty()) return {};
  for (const char* name : {"stages", "times", "update-time", "fused"}) {
    if (!settings.contains(name)) continue;
    return invalid_input(std::string(name) + ": comes from the trace; leave it out");
  }
  MANTISSA_ASSIGN(const pipeline::Trace trace, read_trace(file->second));
  auto times = pipeline::measured_times(trace);
  if (!times.ok()) return invalid_input(file->second + ": " + times.error().message);
  request.measured = std::move(*times);
  request.options = trace.options;
  request.options.updates = 0;
  request.traced_steps = pipeline::traced_steps(trace);
  return {};
}

// The times of each stage. A measured pipeline may be simulated in another form: then the gradients
// of weights are fused with the others, or not, as that form has it.
Result<std::vector<pipeline::StageTimes>> times_of(const SimulationConfig& request) {
  const bool splits = request.options.splits_backward();
  std::vector<pipeline::StageTimes> times = request.measured;
  if (times.empty()) times.assign(static_cast<size_t>(request.options.stages), request.times);
  for (pipeline::StageTimes& stage : times) {
    if (splits && stage.fused) {
      return invalid_input(
          "flush-form split: wants the gradients of weights apart, and these times have them "
          "together with the others; --flush-form 1f1b does not");
    }
    if (!request.measured.empty()) stage.fused = !splits;
  }
  return times;
}

// Writes the first steps as a trace.
Status write_trace(const std::string& path, const pipeline::Schedule& schedule,
                   const pipeline::Simulation& simulation) {
  const int64_t of_step = pipeline::traced_cells(schedule.options, 1);
  const int64_t steps = pipeline::kMostTracedCells / of_step;
  if (steps == 0) {
    return invalid_input("trace: a step has " + std::to_string(of_step) +
                         " pieces of work; at most " + std::to_string(pipeline::kMostTracedCells) +
                         " can be traced");
  }
  return write_text_atomically(path,
                               trace_json(pipeline::simulated_trace(schedule, simulation, steps)));
}

// The fraction of the total time in which each stage waited, filling and emptying included.
std::vector<double> idle_of_all(const pipeline::Simulation& simulation) {
  std::vector<double> idle;
  for (const auto& stage : simulation.stages) {
    double busy = 0;
    for (const auto& interval : stage.intervals) busy += interval.end - interval.start;
    idle.push_back(simulation.total > 0 ? 1 - busy / simulation.total : 0);
  }
  return idle;
}

std::vector<double> idle_once_filled(const pipeline::Simulation& simulation) {
  std::vector<double> idle;
  for (const auto& stage : simulation.stages) idle.push_back(stage.idle);
  return idle;
}

double most_idle(const pipeline::Simulation& simulation) {
  double most = 0;
  for (const auto& stage : simulation.stages) most = std::max(most, stage.idle);
  return most;
}

Result<SimulationConfig> simulation_config(Settings settings) {
  MANTISSA_RETURN_IF_ERROR(check_known(kSimulateCommand.name, settings));
  auto config = default_config<SimulationConfig>(kSimulateRows);
  MANTISSA_RETURN_IF_ERROR(take_trace(settings, config));
  MANTISSA_RETURN_IF_ERROR(take_settings<SimulationConfig>(kSimulateRows, settings, config));
  // After the others: it names a stage.
  if (!config.straggler.empty()) {
    MANTISSA_RETURN_IF_ERROR(parse_straggler(config.straggler, config.options, config.conditions));
  }
  pipeline::Options& options = config.options;
  // Enough updates to fill the pipeline several times, and to cover the traced steps.
  const int filling = 10 * options.stages / options.accumulate;
  const auto traced = static_cast<int>(config.traced_steps);
  if (options.updates == 0) options.updates = std::max({8, filling, traced});
  return config;
}

Simulation described(const pipeline::Schedule& schedule, const pipeline::Simulation& simulation) {
  int stale = 0, in_flight = 0;
  for (const auto& stage : schedule.stages) {
    stale = std::max(stale, std::ranges::max(pipeline::staleness(stage)));
    in_flight = std::max(in_flight, pipeline::peak_in_flight(stage));
  }
  const int versions = std::ranges::max(schedule.versions);
  const double per_second = simulation.micro_batches_per_time * 1e9;
  const nlohmann::ordered_json json = {{"stages", schedule.options.stages},
                                       {"pipeline", pipeline::mode_name(schedule.options.mode)},
                                       {"accumulate", schedule.options.accumulate},
                                       {"updates", schedule.options.updates},
                                       {"idle_fraction", simulation.idle},
                                       {"most_idle_fraction", most_idle(simulation)},
                                       {"stage_idle_fraction", idle_once_filled(simulation)},
                                       {"whole_idle_fraction", idle_of_all(simulation)},
                                       {"micro_batches_per_second", per_second},
                                       {"seconds", simulation.total / 1e9},
                                       {"staleness", stale},
                                       {"in_flight", in_flight},
                                       {"weight_versions", versions}};
  return {.text = "idle once filled   " + formatted("%.2f %%", 100 * simulation.idle) +
                  formatted(" (at most %.2f %% of a stage)", 100 * most_idle(simulation)) +
                  "\nmicro-batches      " + formatted("%.1f a second", per_second) +
                  "\nall updates        " + formatted("%.3f s", simulation.total / 1e9) +
                  "\nmissed updates     up to " + std::to_string(stale) +
                  "\nin flight          up to " + std::to_string(in_flight) +
                  " micro-batches\nweights            " + std::to_string(versions) + " versions\n",
          .json = json.dump(2)};
}

}  // namespace

CommandInfo simulate_command() { return info_of<kSimulateCommand>(); }

Outcome<Simulation> simulate(const Settings& settings) {
  MANTISSA_ASSIGN(const SimulationConfig config, simulation_config(settings));
  MANTISSA_ASSIGN(const pipeline::Schedule schedule, pipeline::make_schedule(config.options));
  MANTISSA_ASSIGN(const std::vector<pipeline::StageTimes> times, times_of(config));
  MANTISSA_ASSIGN(const pipeline::Simulation simulation,
                  pipeline::simulate(schedule, times, config.conditions));
  Simulation result = described(schedule, simulation);
  if (config.draws) {
    pipeline::StageTimes ticks = {.grad_weights = times[0].fused ? 0.0 : 1.0, .update = 1};
    ticks.fused = times[0].fused;
    MANTISSA_ASSIGN(const std::string drawn,
                    pipeline::diagram_of_updates(schedule, ticks, pipeline::kDrawnUpdates));
    result.text += "\n" + drawn;
  }
  if (!config.svg.empty()) {
    MANTISSA_RETURN_IF_ERROR(write_text_atomically(
        config.svg, pipeline::diagram_svg(schedule, simulation, config.options.updates)));
  }
  if (!config.trace.empty()) {
    MANTISSA_RETURN_IF_ERROR(write_trace(config.trace, schedule, simulation));
  }
  return result;
}

}  // namespace mantissa
