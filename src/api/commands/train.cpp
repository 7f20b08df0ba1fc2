// The public interface, in terms of train/.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>

#include "api/commands/export_c.h"
#include "api/commands/stages.h"
#include "api/outcome.h"
#include "api/settings/commands.h"
#include "api/settings/settings.h"
#include "base/files/atomic_file.h"
#include "kernels/convolution/choice.h"
#include "kernels/kernel_table.h"
#include "mantissa/mantissa.h"
#include "models/models.h"
#include "numerics/format.h"
#include "plan/programs/program_text.h"
#include "run/plan/run_data.h"
#include "run/plan/run_plan.h"
#include "run/settings/run_network.h"
#include "start/fold_batch_norm.h"
#include "start/insert_batch_norm.h"
#include "train/trainer.h"
#include "train/worker.h"
#include "transport/mpi_transport.h"

namespace mantissa {
namespace {

constexpr const char* kVersion = "0.1.0";

nlohmann::ordered_json items_json(const std::vector<MemoryItem>& items) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const MemoryItem& item : items) json.push_back({{"name", item.name}, {"bytes", item.bytes}});
  return json;
}

// Decisions about values, or about gradients of parameters.
nlohmann::ordered_json decisions_json(const std::vector<ValueDecision>& decisions,
                                      bool of_gradients) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const ValueDecision& decision : decisions) {
    if (decision.is_gradient != of_gradients) continue;
    json.push_back({{"name", decision.name},
                    {"bytes", decision.bytes},
                    {"keep_us", decision.keep_us},
                    {"compute_us", decision.compute_us},
                    {"retention", decision.decision},
                    {"recomputations", decision.recomputations},
                    {"reason", decision.reason}});
  }
  return json;
}

// The part of a plan that is printed before its memory.
Result<std::string> shown(const std::string& what, const RunPlan& plan) {
  if (what == "decisions") return to_string(plan.decisions);
  if (what == "exponents") return exponents_to_string(plan.graph, plan.training);
  if (what == "schedule") return schedule_to_string(plan.training);
  if (what != "program") {
    return invalid_input("show: '" + what + "' is none of program, exponents, schedule and c");
  }
  return to_string(plan.graph) + "\n" + to_string(plan.graph, plan.training);
}

struct PlanConfig {
  bool explains = false;
  std::string show;
  bool draws = false;
  std::string svg;
};

constexpr const char* kConfigHelp = "TOML file with settings; those on the command line win";

struct NoConfig {};  // all settings are those of training
constexpr SettingOf<NoConfig> kTrainRows[] = {{kOfTraining}, {"config", kConfigHelp}};
constexpr CommandOf<NoConfig> kTrainCommand = {"train", kTrainRows};

constexpr SettingOf<PlanConfig> kPlanRows[] = {
    {kOfTraining},
    {"config", kConfigHelp},
    {"explain",
     "show per value what keeping it and computing it again takes, and what was decided, instead "
     "of the program",
     "false", parse_switch<&PlanConfig::explains>, traits::kSwitch},
    {"show",
     "what to print before the memory: program, exponents, schedule, or c: the bytes that export "
     "--target c needs",
     "program", parse_text<&PlanConfig::show>},
    {"diagram", "with --stages: draw who works on which micro-batch when, instead", "false",
     parse_switch<&PlanConfig::draws>, traits::kSwitch},
    {"svg", "with --stages: file to draw it to, in estimated proportions", "",
     parse_text<&PlanConfig::svg>}};
constexpr CommandOf<PlanConfig> kPlanCommand = {"plan", kPlanRows, traits::kInPlan};

}  // namespace

Outcome<Plan> plan(const Settings& given) {
  Settings settings = given;
  // Settings of training about files mean nothing here, but may be given.
  auto own = default_config<PlanConfig>(kPlanRows);
  MANTISSA_RETURN_IF_ERROR(take_settings<PlanConfig>(kPlanRows, settings, own));
  MANTISSA_ASSIGN(RunConfig config, training_config(settings));
  if ((own.draws || !own.svg.empty()) && config.pipeline.stages == 1) {
    return invalid_input("diagram, svg: are of pipelines: say how many --stages");
  }
  MANTISSA_ASSIGN(const DatasetInfo data, inspect_run_data(config));
  MANTISSA_RETURN_IF_ERROR(adapt_classes(data, config));
  MANTISSA_ASSIGN(const RunPlan plan, plan_run(config, data));
  MANTISSA_RETURN_IF_ERROR(check_budget(plan.memory, config.memory_budget));
  Plan planned;
  if (own.show == "c" && !own.explains) {
    MANTISSA_ASSIGN(planned.text, memory_as_c(config, plan));
  } else {
    MANTISSA_ASSIGN(planned.text, shown(own.explains ? "decisions" : own.show, plan));
  }
  nlohmann::ordered_json stages = nullptr;
  if (plan.staged) {
    MANTISSA_ASSIGN(StagesReport report, report_stages(config, plan));
    if (own.draws) planned.text = std::move(report.diagram);
    planned.text += "\n" + report.text;
    stages = std::move(report.json);
    if (!own.svg.empty()) MANTISSA_RETURN_IF_ERROR(write_text_atomically(own.svg, report.svg));
  }
  if (config.start) planned.text += "\n" + to_string(plan.taken, config.start->source) + "\n";
  planned.text += "\n" + to_string(plan.memory);
  nlohmann::ordered_json json = {{"model", config.model},
                                 {"parameters", plan.graph.trained_parameters()},
                                 {"planned_peak_bytes", plan.memory.peak_bytes()},
                                 {"arena_bytes", plan.arena_bytes()},
                                 {"largest_live_set_bytes", plan.training.live_bytes},
                                 {"weight_state_bytes", plan.layout.weight_state_bytes()},
                                 {"instructions", plan.training.instructions.size()},
                                 {"memory", items_json(plan.memory.items)},
                                 {"arena", items_json(plan.memory.arena)},
                                 {"largest_buffers", items_json(plan.memory.consumers)},
                                 {"values", decisions_json(plan.decisions, false)},
                                 {"gradients", decisions_json(plan.decisions, true)}};
  if (!stages.is_null()) json["pipeline"] = std::move(stages);
  planned.json = json.dump(2);
  return planned;
}

CommandInfo plan_command() { return info_of<kPlanCommand>(); }

CommandInfo train_command() { return info_of<kTrainCommand>(); }

std::vector<std::pair<std::string, std::string>> built_in_models() {
  std::vector<std::pair<std::string, std::string>> list;
  for (const auto& infos : {models(), language_models()}) {
    for (const ModelInfo& model : infos) list.emplace_back(model.name, model.description);
  }
  return list;
}

int launched_process() { return MpiTransport::launched_process(); }

namespace {

// The settings of one of several processes. Each works on a stage. By default its threads are its
// share of the machine's processors.
Result<Settings> in_processes(Settings settings, int processes) {
  const auto replicas = settings.find("replicas");
  MANTISSA_ASSIGN(
      const int64_t copies,
      parse_integer("replicas", replicas == settings.end() ? "1" : replicas->second, 1, 1024));
  settings.insert({"stages", std::to_string(std::max<int64_t>(1, processes / copies))});
  const auto threads = settings.find("threads");
  if (threads != settings.end() && threads->second != "0") return settings;
  const int cores = processors();
  settings["threads"] = std::to_string(std::max(1, cores / MpiTransport::processes_here()));
  return settings;
}

// Joins the other processes of a launcher; null: there are none.
Result<std::unique_ptr<MpiTransport>> join_launched() {
  if (!MpiTransport::is_launched()) return std::unique_ptr<MpiTransport>();
  const char* const seconds = std::getenv("MANTISSA_DEADLINE");
  MANTISSA_ASSIGN(
      const int64_t deadline,
      parse_integer("MANTISSA_DEADLINE", seconds == nullptr ? "60" : seconds, 1, 86400));
  MANTISSA_ASSIGN(auto transport, MpiTransport::create(std::chrono::seconds(deadline)));
  if (transport->processes() == 1) transport.reset();
  const char* const status = std::getenv("MANTISSA_STATUS_FILE");
  if (transport != nullptr && status != nullptr) transport->set_status_file(status);
  return transport;
}

Outcome<TrainedRun> train_with(const Settings& settings, const Observer& observer,
                               MpiTransport* transport) {
  const int processes = transport == nullptr ? 1 : transport->processes();
  Settings own = settings;
  if (processes > 1) {
    MANTISSA_ASSIGN(own, in_processes(std::move(own), processes));
  }
  MANTISSA_ASSIGN(RunConfig config, training_config(own));
  MANTISSA_RETURN_IF_ERROR(divide_processes(processes, config));
  if (transport != nullptr) {
    transport->set_describe(describe_stages(processes_of(config, transport)));
  }
  const TrainObserver forward = forwarded(observer);
  MANTISSA_RETURN_IF_ERROR(begin_with_batch_norms(forward, config));
  MANTISSA_RETURN_IF_ERROR(begin_without_batch_norms(forward, config));
  MANTISSA_ASSIGN(TrainingResult result, train(config, forward, transport));
  return TrainedRun{std::move(result.summary_json), std::move(result.plan_text),
                    result.already_finished};
}

}  // namespace

Outcome<TrainedRun> train(const Settings& settings, const Observer& observer) {
  MANTISSA_ASSIGN(const std::unique_ptr<MpiTransport> joined, join_launched());
  MpiTransport* const transport = joined.get();
  if (transport != nullptr && transport->process() > 0) {
    MANTISSA_RETURN_IF_ERROR(run_worker(*transport, transport));
    return TrainedRun();
  }
  Outcome<TrainedRun> run = train_with(settings, observer, transport);
  if (transport != nullptr) end_workers(*transport);
  return run;
}

namespace {

constexpr kernels::ConvolutionShape kDense = {.batch = 64,
                                              .in_height = 16,
                                              .in_width = 16,
                                              .in_channels = 32,
                                              .out_height = 16,
                                              .out_width = 16,
                                              .out_channels = 32,
                                              .kernel_height = 3,
                                              .kernel_width = 3,
                                              .padding_height = 1,
                                              .padding_width = 1};

constexpr kernels::ConvolutionShape in_groups(kernels::ConvolutionShape s, int64_t groups) {
  s.groups = groups;
  return s;
}

constexpr kernels::ConvolutionShape with_dilation(kernels::ConvolutionShape s) {
  s.dilation = s.padding_height = s.padding_width = 2;
  return s;
}

std::vector<ConvolutionChoice> convolution_choices(kernels::ConvolutionRows rows) {
  using kernels::ConvolutionPass;
  const std::pair<const char*, kernels::ConvolutionWork> kinds[] = {
      {"3x3", {.shape = kDense}},
      {"3x3 in 4 groups", {.shape = in_groups(kDense, 4)}},
      {"3x3 depthwise", {.shape = in_groups(kDense, kDense.in_channels)}},
      {"3x3 with dilation", {.shape = with_dilation(kDense)}},
      {"linear of 4096 to 4096, batch 8",
       {.shape = {.batch = 8, .in_channels = 4096, .out_channels = 4096}}},
      {"3x3, weights' gradient from 32 bits", {ConvolutionPass::kGradWeights, kDense, 32}}};
  std::vector<ConvolutionChoice> choices;
  for (const auto& [shape, work] : kinds) {
    kernels::ExplainedChoice choice = kernels::explain_choice(rows, work);
    choices.push_back({shape, std::move(choice.chosen), std::move(choice.declined)});
  }
  return choices;
}

}  // namespace

Outcome<Info> info(const std::string& isa) {
  MANTISSA_ASSIGN(const Isa chosen, parse_isa(isa));
  Info info;
  const kernels::KernelTable table = kernels::select_kernels(chosen);
  info.version = kVersion;
  info.cpu = cpu_model_name();
  info.isa = isa_name(chosen);
  info.compiler = __VERSION__;
  info.kernels = {{"convolution", convolution_kernel_name(table.convolution, kDense)},
                  {"depthwise", convolution_kernel_name(table.convolution,
                                                        in_groups(kDense, kDense.in_channels))},
                  {"elementwise", table.elementwise->name},
                  {"batch_norm", table.batch_norm->name},
                  {"pooling", table.pooling->name},
                  {"softmax", table.softmax->name},
                  {"attention", table.attention->name},
                  {"recurrent", table.recurrent->name},
                  {"row_norms", table.row_norms->name},
                  {"squared_error", table.squared_error->name},
                  {"update", table.update->name},
                  {"rounding", table.rounding->name},
                  {"bit_counts", table.bit_counts->name},
                  {"wide", table.wide->name},
                  {"rescale", table.rescale->name},
                  {"blocks", table.blocks->name}};
  info.convolutions = convolution_choices(table.convolution);
  info.formats = format_choices();
  return info;
}

}  // namespace mantissa
