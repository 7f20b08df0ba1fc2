// Stages of a pipeline.
#include "run/division.h"
#include "run/settings/table/rows.h"

namespace mantissa {
namespace {

using namespace traits;

constexpr int64_t kMostSteps = int64_t{1} << 40;
constexpr auto kWay = &Config::pipeline;

// A balance, a division's file, its text, or "graph".
Status parse_partition(S, S text, Config& config) {
  PipelineConfig& way = config.pipeline;
  way.partition.reset();
  way.first_layers.clear();
  way.as_graph_says = text == "graph";
  if (way.as_graph_says || text.empty()) return {};
  if (text.ends_with(".json")) return assign(read_division(text), way.first_layers);
  if (text.starts_with('[')) return assign(parse_division(text), way.first_layers);
  const Result<pipeline::Balance> balance = pipeline::parse_balance(text);
  if (!balance.ok()) return invalid_input(balance.error().message + ", nor graph, nor NAME.json");
  way.partition = *balance;
  return {};
}

const Setting kPipelineRows[] = {
    {"stages",
     "stages of a pipeline, each with its part of the layers and of the threads "
     "(docs/pipelines.md)",
     "1", parse_whole<1, pipeline::kMostStages, kWay, &PipelineConfig::stages>, kIfGiven | kSteps,
     print_unless<1, kWay, &PipelineConfig::stages>},
    {"replicas",
     "copies of all stages, each with its part of a batch's micro-batches; they are processes "
     "(mantissa launch) and change no result but in fp32 and in an asynchronous pipeline",
     "1", parse_whole<1, 1024, kWay, &PipelineConfig::replicas>, kIdentity | kIfGiven | kSteps,
     print_unless<1, kWay, &PipelineConfig::replicas>},
    {"pipeline",
     "when layers are updated: flush (all together: the bits of one stage), async (each as soon as "
     "its own gradients are there), stash or 2bw (the same, with the weights of the forward pass "
     "in the backward pass)",
     "flush", parse_by<pipeline::parse_mode, kWay, &PipelineConfig::mode>,
     kIdentity | kIfGiven | kSteps,
     [](const Config& c) {
       return c.pipeline.is_asynchronous() ? std::string(pipeline::mode_name(c.pipeline.mode)) : "";
     }},
    {"flush-form",
     "order of a flush: gpipe (all forward, all backward), 1f1b (backward as soon as it can), or "
     "split (gradients of weights fill the time in which a stage would wait); changes no result",
     "split", parse_by<pipeline::parse_flush_form, kWay, &PipelineConfig::form>, kIfGiven | kSteps,
     [](const Config& c) {
       return c.pipeline.stages > 1 && !c.pipeline.is_asynchronous()
                  ? std::string(pipeline::flush_form_name(c.pipeline.form))
                  : "";
     }},
    {"windows",
     "micro-batches in flight in an asynchronous pipeline: lean (as many as stages are left) or "
     "full (twice as many, less one)",
     "lean", parse_by<pipeline::parse_windows, kWay, &PipelineConfig::windows>, kIfGiven | kSteps,
     [](const Config& c) {
       return c.pipeline.is_asynchronous() ? std::string(pipeline::windows_name(c.pipeline.windows))
                                           : "";
     }},
    {"partition",
     "what stages get equal parts of: time (estimated; the default of flush), operations (the "
     "default of others), parameters or layers; or a file NAME.json with the first layer of each "
     "stage, {\"stages\": [\"stem\", \"stage2.0.conv1\"]}; or graph: as the nodes of the network's "
     "file say",
     "", parse_partition, kIfGiven | kSteps,
     [](const Config& c) {
       const PipelineConfig& way = c.pipeline;
       if (way.stages > 1 && !way.first_layers.empty()) return division_text(way.first_layers);
       return way.partition ? std::string(pipeline::balance_name(*way.partition)) : "";
     }},
    {"stage-memory",
     "most memory for each stage of a pipeline (64MiB): decides where it is divided, and what is "
     "computed again",
     "", parse_by<parse_bytes, kWay, &PipelineConfig::stage_memory>, kIfGiven | kSteps,
     [](const Config& c) {
       return c.pipeline.stage_memory > 0 ? std::to_string(c.pipeline.stage_memory) + "B"
                                          : std::string();
     }},
    {"accumulate",
     "micro-batches of an update: another way to say the micro-batch size; or cycles of the "
     "pipeline, 8:cycles, of which each has one micro-batch",
     "0",
     [](S name, S text, Config& c) {
       constexpr std::string_view kCycles = ":cycles";
       const size_t end = text.ends_with(kCycles) ? text.size() - kCycles.size() : text.size();
       return assign(parse_integer(name, text.substr(0, end), 0, 1 << 20), c.pipeline.accumulate);
     },
     kIfGiven | kSteps},
    {"drain-every",
     "steps after which an asynchronous pipeline runs empty, so that a checkpoint can be written "
     "(0: an epoch)",
     "0", parse_whole<0, kMostSteps, kWay, &PipelineConfig::drain_every>, kIfGiven | kSteps,
     [](const Config& c) {
       return c.pipeline.is_asynchronous() && c.pipeline.drain_every > 0
                  ? std::to_string(c.pipeline.drain_every)
                  : "";
     }},
    {"predict-weights",
     "let forward passes of an asynchronous pipeline meet weights predicted to the update of their "
     "micro-batch, from the optimiser's velocity",
     "false", parse_switch<kWay, &PipelineConfig::predicts_weights>,
     kSwitch | kIdentity | kIfGiven | kSteps,
     [](const Config& c) { return std::string(c.pipeline.predicts_weights ? "true" : ""); }},
    {"stage-warmup",
     "steps over which the learning rates of an asynchronous pipeline's stages rise to the run's, "
     "from one part in as many as they miss updates (0: none)",
     "0", parse_whole<0, kMostSteps, kWay, &PipelineConfig::stage_warmup>,
     kIdentity | kIfGiven | kSteps, print_unless<0, kWay, &PipelineConfig::stage_warmup>},
    {"sync-last",
     "steps at the end of a run in which an asynchronous pipeline flushes: no micro-batch misses "
     "an update",
     "0", parse_whole<0, kMostSteps, kWay, &PipelineConfig::sync_last>, kIfGiven | kSteps,
     [](const Config& c) {
       return c.pipeline.sync_last > 0 ? std::to_string(c.pipeline.sync_last) : "";
     }},
};

}  // namespace

std::span<const Setting> pipeline_rows() { return kPipelineRows; }

}  // namespace mantissa
