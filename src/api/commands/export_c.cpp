#include "api/commands/export_c.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "api/commands/exported_run.h"
#include "base/files/atomic_file.h"
#include "base/files/file_system.h"
#include "device/export_c.h"
#include "device/export_training.h"
#include "networks/frozen_graph.h"
#include "run/checkpoint.h"
#include "run/plan/steps.h"
#include "run/settings/starting_point.h"

namespace mantissa {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kExportRecord = "export.json";

std::string bytes_text(int64_t bytes) { return std::to_string(bytes) + " bytes"; }

// The folder is new, empty, or holds an earlier export: nothing else is overwritten.
Status check_folder(const std::string& folder) {
  MANTISSA_ASSIGN(const PathKind kind, path_kind(folder));
  if (kind == PathKind::kNothing) return {};
  MANTISSA_ASSIGN(const auto names, list_names(folder));
  if (names.empty() || std::ranges::find(names, kExportRecord) != names.end()) return {};
  return invalid_input("--out: '" + folder + "' is not empty, and no earlier export");
}

Status write_sources(const fs::path& folder, const std::vector<device::SourceFile>& files) {
  for (const device::SourceFile& file : files) {
    const fs::path path = folder / file.path;
    MANTISSA_RETURN_IF_ERROR(make_folder(path.parent_path()));
    MANTISSA_RETURN_IF_ERROR(write_text_atomically(path, file.text));
  }
  return {};
}

Outcome<ExportedModel> written(const CExport& request, int64_t nodes,
                               Result<device::CProgram> program) {
  if (!program.ok()) {
    return make_error(program.error().code, request.checkpoint + ": " + program.error().message);
  }
  MANTISSA_RETURN_IF_ERROR(write_sources(request.out, program->files));
  const std::string memory = program->state_bytes > 0
                                 ? "state " + bytes_text(program->state_bytes) + ", arena "
                                 : "memory ";
  return ExportedModel{
      .file = request.out,
      .nodes = nodes,
      .notes = {memory + bytes_text(program->arena_bytes) + ", constants " +
                bytes_text(program->constant_bytes) + "; docs/device.md says how to build it"}};
}

// The rates from a step on, each where it changes. A schedule that changes them in each step makes
// a table of them all.
Result<std::vector<std::pair<int64_t, double>>> learning_rates(const RunConfig& config,
                                                               int64_t total_steps, int64_t from,
                                                               int64_t reductions) {
  constexpr size_t kMost = 4096;
  std::vector<std::pair<int64_t, double>> rates;
  for (int64_t step = from; step < std::max(total_steps, from + 1); ++step) {
    const int64_t last = std::min(step, std::max<int64_t>(0, total_steps - 1));
    const double rate = scalars_at(config, total_steps, reductions, last).learning_rate;
    if (rates.empty() || rates.back().second != rate) rates.emplace_back(step, rate);
    if (rates.size() <= kMost) continue;
    return invalid_input("the schedule changes the learning rate in more than " +
                         std::to_string(kMost) +
                         " steps, too many for a table: train with --schedule constant or step");
  }
  return rates;
}

// The state of the run: of its newest checkpoint, or before its first step.
Result<CheckpointInfo> load_state(const CExport& request, const ExportedRun& run, State& state) {
  const RunConfig& config = run.config;
  if (request.from_initial) {
    if (config.format.float_steps() > 0) {
      return invalid_input("--initial: the run began with steps in fp32; leave it out");
    }
    initialise(run.plan.graph, config.format, config.seed, state);
    if (config.start) {
      MANTISSA_ASSIGN(const TrainedFile trained, reread(*config.start));
      MANTISSA_RETURN_IF_ERROR(take_trained(run.plan.graph, config.format, trained, state));
    }
    return CheckpointInfo{};
  }
  MANTISSA_ASSIGN(const auto found,
                  load_newest_checkpoint(request.checkpoint, run.identity, state));
  if (found) return *found;
  return invalid_input("'" + request.checkpoint + "' has no checkpoint; --initial begins anew");
}

// The frozen network of a run, with weights of zero.
Result<FrozenNetwork> frozen_zeros(const RunConfig& config, const RunPlan& plan) {
  const FrozenForm form = frozen_form(plan.graph, config.format);
  MANTISSA_ASSIGN(State state, State::create(plan.frozen_layout));
  return FrozenNetwork{.description = {.network = plan.network,
                                       .options = plan.options,
                                       .format = config.format,
                                       .class_names = {},
                                       .data = config.data,
                                       .weights_sha256 = {},
                                       .form = form},
                       .graph = frozen_graph_of(config, plan),
                       .state = std::move(state)};
}

}  // namespace

Result<std::string> memory_as_c(const RunConfig& config, const RunPlan& plan) {
  const Status fits = check_has_one_answer(config.model, plan.options);
  if (!fits.ok()) return "as C (export --target c)\n  " + fits.error().message + "\n";
  MANTISSA_ASSIGN(FrozenNetwork network, frozen_zeros(config, plan));
  const auto predicts = device::c_of_frozen(network, "mantissa");
  std::string text = "as C (export --target c)\n  predicting: ";
  text += predicts.ok() ? "memory " + bytes_text(predicts->arena_bytes) + ", weights " +
                              bytes_text(plan.frozen_layout.bytes) +
                              " or less if they are packed, stack below 2 KiB"
                        : predicts.error().message;
  const auto program =
      device::fitting_program(plan.graph, training_options(config), plan.layout, 0);
  text += "\n  training: ";
  if (!program.ok()) return text + program.error().message + "\n";
  MANTISSA_ASSIGN(State state, State::create(plan.layout));
  const auto trains = device::c_of_training({.prefix = "mantissa",
                                             .graph = &plan.graph,
                                             .program = &*program,
                                             .state = &state,
                                             .scalars = step_scalars(config),
                                             .learning_rates = {{0, config.learning_rate}},
                                             .total_steps = plan.total_steps});
  return text +
         (trains.ok() ? "state " + bytes_text(trains->state_bytes) + ", arena " +
                            bytes_text(trains->arena_bytes) + ", stack below 2 KiB"
                      : trains.error().message) +
         "\n";
}

Outcome<ExportedModel> export_to_c(const CExport& request) {
  MANTISSA_RETURN_IF_ERROR(check_folder(request.out));
  MANTISSA_ASSIGN(FrozenNetwork network, load_frozen(request.checkpoint));
  MANTISSA_RETURN_IF_ERROR(check_has_one_answer(request.checkpoint, network.description.options));
  if (network.description.options.loss == ops::LossKind::kOrdinal) {
    return invalid_input(request.checkpoint +
                         ": C takes the largest result for the best class, and results of ranks "
                         "(sigmoid_cross_entropy, ordinal) are not those of classes");
  }
  return written(request, std::ssize(network.graph.nodes),
                 device::c_of_frozen(network, request.prefix));
}

Outcome<ExportedModel> export_training_to_c(const CExport& request) {
  MANTISSA_RETURN_IF_ERROR(check_folder(request.out));
  MANTISSA_ASSIGN(const ExportedRun run, read_run(request.checkpoint));
  const RunConfig& config = run.config;
  const RunPlan& plan = run.plan;
  MANTISSA_RETURN_IF_ERROR(check_has_one_answer(request.checkpoint, plan.options));
  MANTISSA_ASSIGN(State state, State::create(plan.layout));
  const CExport of_folder = {config.out, request.prefix, request.out, request.from_initial,
                             request.memory_budget};
  MANTISSA_ASSIGN(const CheckpointInfo saved, load_state(of_folder, run, state));
  auto fitting = device::fitting_program(plan.graph, training_options(config), plan.layout,
                                         request.memory_budget);
  if (!fitting.ok()) {
    return make_error(fitting.error().code, request.checkpoint + ": " + fitting.error().message);
  }
  const Program& program = *fitting;
  MANTISSA_ASSIGN(auto rates,
                  learning_rates(config, plan.total_steps, saved.step, saved.reductions));
  StepScalars scalars = step_scalars(config);
  scalars.step = saved.step;
  const device::CTraining training = {.prefix = request.prefix,
                                      .graph = &plan.graph,
                                      .program = &program,
                                      .state = &state,
                                      .scalars = scalars,
                                      .learning_rates = std::move(rates),
                                      .total_steps = plan.total_steps};
  return written(of_folder, std::ssize(plan.graph.nodes), device::c_of_training(training));
}

}  // namespace mantissa
