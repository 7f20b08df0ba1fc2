#include "train/worker.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/system/thread_pool.h"
#include "kernels/kernel_table.h"
#include "models/json/network_json.h"
#include "networks/network.h"
#include "networks/segments.h"
#include "plan/passes/network_format.h"
#include "plan/passes/sliced_loss.h"
#include "plan/programs/program.h"
#include "runtime/memory.h"
#include "runtime/stages/pipeline.h"
#include "runtime/stages/stage_server.h"

namespace mantissa {
namespace {

using nlohmann::json;
using stage_messages::CommandKind;

constexpr int64_t kMostSetUpBytes = 2 * kMostNetworkBytes;

// The settings that a worker's program and division follow from.
struct SetUp {
  RunConfig config = default_run_config();
  Graph network;
  std::vector<bool> trained;  // by parameter
  std::vector<int> stage_of;
  std::vector<Retention> retention;
  pipeline::Options options;
};

std::string write_set_up(const RunConfig& config, const RunPlan& plan) {
  const StagedTraining& staged = *plan.staged;
  const std::vector<int> stage_of = stage_of_nodes(staged.layers, staged.division.first,
                                                   static_cast<int>(plan.graph.nodes.size()));
  std::vector<int> retention;
  for (const Retention state : plan.training.options.retention) {
    retention.push_back(static_cast<int>(state));
  }
  std::vector<bool> trained;
  for (const Parameter& parameter : plan.graph.parameters) trained.push_back(parameter.trained);
  return json{{"retention", retention},
              {"network", to_json(plan.network)},
              {"pack", config.pack},
              {"format", to_string(config.format)},
              {"trained", trained},
              {"optimizer", optimizer_name(config.optimizer)},
              {"batch", config.batch_size},
              {"micro_batch", config.micro_batch_size},
              {"threads", config.threads},
              {"stage_of", stage_of},
              {"mode", pipeline::mode_name(staged.options.mode)},
              {"form", pipeline::flush_form_name(staged.options.form)},
              {"windows", pipeline::windows_name(staged.options.windows)},
              {"stages", staged.options.stages},
              {"accumulate", staged.options.accumulate},
              {"predicts_weights", staged.options.predicts_weights},
              {"stage_warmup", staged.options.stage_warmup},
              {"replicas", config.pipeline.replicas}}
      .dump();
}

Result<SetUp> read_set_up(std::span<const std::byte> message) {
  const json text =
      json::parse(std::string_view(reinterpret_cast<const char*>(message.data()), message.size()),
                  nullptr, false);
  if (!text.is_object()) return failed("the first process sent no network");
  SetUp set_up;
  RunConfig& config = set_up.config;
  const auto word = [&](const char* name) { return text.at(name).get<std::string>(); };
  MANTISSA_ASSIGN(set_up.network, parse_network(word("network")));
  MANTISSA_ASSIGN(config.format, parse_format(word("format")));
  MANTISSA_ASSIGN(config.optimizer, parse_optimizer(word("optimizer")));
  MANTISSA_ASSIGN(set_up.options.mode, pipeline::parse_mode(word("mode")));
  MANTISSA_ASSIGN(set_up.options.form, pipeline::parse_flush_form(word("form")));
  MANTISSA_ASSIGN(set_up.options.windows, pipeline::parse_windows(word("windows")));
  config.pack = text.at("pack");
  set_up.trained = text.at("trained").get<std::vector<bool>>();
  config.batch_size = text.at("batch");
  config.micro_batch_size = text.at("micro_batch");
  config.threads = text.at("threads");
  config.pipeline.replicas = text.at("replicas");
  set_up.stage_of = text.at("stage_of").get<std::vector<int>>();
  for (const int state : text.at("retention").get<std::vector<int>>()) {
    set_up.retention.push_back(static_cast<Retention>(state));
  }
  set_up.options.stages = text.at("stages");
  set_up.options.accumulate = text.at("accumulate");
  set_up.options.predicts_weights = text.at("predicts_weights");
  set_up.options.stage_warmup = text.at("stage_warmup");
  set_up.options.updates = 2 * set_up.options.stages;
  config.pipeline.stages = set_up.options.stages;
  return set_up;
}

Status work_on(const SetUp& set_up, Transport& transport, MpiTransport* named) {
  const RunConfig& config = set_up.config;
  Graph network = set_up.network;
  if (config.pack) {
    MANTISSA_ASSIGN(network, with_segments(std::move(network)));
  }
  Graph graph = in_format(network, config.format);
  if (set_up.trained.size() != graph.parameters.size()) {
    return failed("the first process sent another number of parameters");
  }
  for (size_t i = 0; i < graph.parameters.size(); ++i) {
    graph.parameters[i].trained = set_up.trained[i];
  }
  const StateLayout layout = training_layout(graph, config.format, config.optimizer);
  const Isa isa = best_isa();
  const kernels::KernelTable table = kernels::select_kernels(isa);
  ProgramOptions program_options = with_slices(graph, training_options(config));
  program_options.retention = set_up.retention;
  MANTISSA_ASSIGN(const Program program, compile(graph, program_options, {&table, config.threads}));
  MANTISSA_ASSIGN(const pipeline::Schedule schedule, pipeline::make_schedule(set_up.options));
  MANTISSA_ASSIGN(const PipelinePlan plan,
                  plan_stages(graph, program, layout, set_up.stage_of, schedule));
  const Processes processes = processes_of(config, &transport);
  if (named != nullptr) {
    named->set_describe(describe_positions(graph, program, processes));
  }
  MANTISSA_ASSIGN(State state, State::create(layout));
  MANTISSA_ASSIGN(const AlignedMemory arena,
                  AlignedMemory::create(arena_bytes(plan, processes.stage(), 1)));
  Status served = serve_stage(graph, program, plan, set_up.options, state, arena.span(),
                              config.threads, isa, processes);
  if (named != nullptr) named->set_describe(nullptr);
  return served;
}

}  // namespace

Status divide_processes(int processes, RunConfig& config) {
  PipelineConfig& way = config.pipeline;
  if (processes == 1 && way.replicas > 1) {
    return invalid_input("replicas " + std::to_string(way.replicas) +
                         ": replicas are processes; start them with mantissa launch -n " +
                         std::to_string(way.replicas * way.stages) + " -- train ...");
  }
  if (processes == 1) return {};
  if (!config.trace.empty()) {
    return invalid_input("trace: is of stages that are threads of one process");
  }
  way.processes = processes;
  if (way.stages * way.replicas != processes) {
    return invalid_input(std::to_string(processes) + " processes were started, and stages " +
                         std::to_string(way.stages) + " times replicas " +
                         std::to_string(way.replicas) + " are " +
                         std::to_string(way.stages * way.replicas));
  }
  return {};
}

Processes processes_of(const RunConfig& config, Transport* transport) {
  return {transport, static_cast<int>(config.pipeline.replicas),
          static_cast<int>(config.pipeline.stages)};
}

void set_up_workers(const RunConfig& config, const RunPlan& plan, const Processes& processes) {
  const std::string text = write_set_up(config, plan);
  const auto bytes = std::as_bytes(std::span(text));
  for (int p = 1; p < processes.transport->processes(); ++p) {
    stage_messages::send_command(
        *processes.transport, p,
        {.kind = CommandKind::kSetUp, .bytes = static_cast<int64_t>(bytes.size())});
    processes.transport->send(p, stage_messages::kNetwork, {bytes.begin(), bytes.end()});
  }
}

void end_workers(Transport& transport) {
  for (int p = 1; p < transport.processes(); ++p) {
    stage_messages::send_command(transport, p, {.kind = CommandKind::kEnd});
  }
}

Status run_worker(Transport& transport, MpiTransport* named) {
  transport.expect(
      {0, stage_messages::kCommand, static_cast<int64_t>(sizeof(stage_messages::Command)), 4});
  transport.expect({0, stage_messages::kNetwork, kMostSetUpBytes, 1});
  MANTISSA_ASSIGN(const auto command, stage_messages::receive_command(transport));
  if (command.kind == CommandKind::kEnd) return {};
  MANTISSA_ASSIGN(const Message message, transport.receive(0, stage_messages::kNetwork));
  MANTISSA_ASSIGN(const SetUp set_up, read_set_up(message));
  return work_on(set_up, transport, named);
}

namespace {

MpiTransport::Describe describe_by(std::vector<std::string> names, int stages) {
  return [names = std::move(names), stages](int process, const Position& position) {
    std::string text = " (stage " + std::to_string(process % stages + 1) + ")";
    if (position.step < 0) return text + " before the first step";
    text += " in step " + std::to_string(position.step + 1) + ", micro-batch " +
            std::to_string(position.micro_batch + 1);
    const auto at = static_cast<size_t>(position.instruction);
    return position.instruction >= 0 && at < names.size() ? text + ", " + names[at] : text;
  };
}

}  // namespace

MpiTransport::Describe describe_stages(const Processes& processes) {
  return describe_by({}, processes.stages);
}

MpiTransport::Describe describe_positions(const Graph& graph, const Program& program,
                                          const Processes& processes) {
  std::vector<std::string> names;
  for (const Instruction& instruction : program.instructions) {
    const std::string node = instruction.node >= 0 ? graph.nodes[instruction.node].name + " " : "";
    names.push_back(node + std::string(phase_name(instruction)));
  }
  return describe_by(std::move(names), processes.stages);
}

}  // namespace mantissa
