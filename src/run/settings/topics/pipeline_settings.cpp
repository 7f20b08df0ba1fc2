#include <iterator>
#include <string>

#include "run/settings/topics.h"

namespace mantissa {
namespace {

// A division by hand, which also sets the number of stages unless the settings do.
Status take_division(RunConfig& config) {
  PipelineConfig& way = config.pipeline;
  const bool by_graph =
      way.as_graph_says || (way.stages > 1 && !way.partition && way.first_layers.empty() &&
                            !config.network_stages.empty());
  if (by_graph && config.network_stages.empty()) {
    return invalid_input(
        "partition graph: is for a network from a file whose nodes have \"stage\" "
        "(docs/networks.md)");
  }
  if (by_graph) way.first_layers = config.network_stages;
  const auto count = std::ssize(way.first_layers);
  if (count == 0) return {};
  if (count == 1) return invalid_input("partition: names one stage; a pipeline has several");
  if (way.stages == 1) way.stages = count;
  if (way.stages == count) return {};
  return invalid_input(
      (by_graph ? config.network_file + ": has nodes of " : "partition: names the layers of ") +
      std::to_string(count) + " stages, and --stages says " + std::to_string(way.stages) +
      "; --partition operations divides them anew");
}

Status check_sync_last(const RunConfig& config) {
  const PipelineConfig& way = config.pipeline;
  if (way.sync_last == 0) return {};
  if (way.stages == 1 || !way.is_asynchronous()) {
    return invalid_input(
        "sync-last: is for asynchronous pipelines of several stages (--pipeline async, stash or "
        "2bw); others flush in all steps");
  }
  if (config.early_stop > 0) {
    return invalid_input("sync-last: no one knows the last steps of a run with --early-stop");
  }
  return {};
}

}  // namespace

Status resolve_pipeline(RunConfig& config) {
  PipelineConfig& way = config.pipeline;
  if (way.accumulate > 0 && config.micro_batch_size * way.accumulate != config.batch_size) {
    return invalid_input("accumulate " + std::to_string(way.accumulate) + " and micro-batch-size " +
                         std::to_string(config.micro_batch_size) + " do not make batch-size " +
                         std::to_string(config.batch_size));
  }
  MANTISSA_RETURN_IF_ERROR(take_division(config));
  MANTISSA_RETURN_IF_ERROR(check_sync_last(config));
  if (way.predicts_weights && !way.is_asynchronous()) {
    return invalid_input(
        "predict-weights: with --pipeline flush no micro-batch misses an update; choose async, "
        "stash or 2bw");
  }
  if (way.stage_warmup > 0 && !way.is_asynchronous()) {
    return invalid_input(
        "stage-warmup: with --pipeline flush no micro-batch misses an update; choose async, stash "
        "or 2bw, or --warmup for all layers alike");
  }
  if (way.stages == 1) {
    way.mode = pipeline::Mode::kFlush;
    way.predicts_weights = false;
    way.stage_warmup = 0;
  }
  // Estimated times are a machine's own: results must not depend on them.
  if (!way.partition && way.first_layers.empty()) {
    way.partition =
        way.is_asynchronous() ? pipeline::Balance::kOperations : pipeline::Balance::kTime;
  }
  if (way.is_asynchronous() && way.partition == pipeline::Balance::kTime) {
    return invalid_input(
        "partition time: goes with --pipeline flush; in others the division "
        "decides results, which must not depend on a machine's times");
  }
  if (way.stages == 1 && way.stage_memory > 0) {
    return invalid_input("stage-memory: is for --stages 2 and more; --memory-budget is for one");
  }
  if (way.stages == 1 && !config.trace.empty()) {
    return invalid_input("trace: is of a pipeline: say how many --stages");
  }
  if (way.stages == 1 && way.replicas == 1) return {};
  if (config.clip_norm > 0) {
    return invalid_input("clip-norm: no stage of a pipeline knows the norm of all gradients");
  }
  if (config.planner == Planner::kExact) {
    return invalid_input("plan exact: is for one stage; --plan search is for several");
  }
  return {};
}

}  // namespace mantissa
