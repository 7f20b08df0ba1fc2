#include "train/quantise_source.h"

#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include "data/ordered_batches.h"
#include "kernels/kernel_table.h"
#include "runtime/memory.h"
#include "train/freeze.h"
#include "train/programs.h"

namespace mantissa {
namespace {

void add_values(const Tensor& values, quantize::ActivationStatistics& statistics) {
  const auto count = static_cast<size_t>(values.count());
  if (values.type == DataType::kInt8) {
    statistics.add(std::span<const int8_t>(values.as<int8_t>(), count), *values.exponent);
  } else {
    statistics.add(std::span<const int16_t>(values.as<int16_t>(), count), *values.exponent);
  }
}

}  // namespace

Result<QuantiseSource> load_source(const RunConfig& config, const TrainObserver& observer) {
  MANTISSA_ASSIGN(const DatasetInfo found, inspect_dataset(config.data, data_options(config)));
  MANTISSA_ASSIGN(RunPlan plan, plan_run(config, found));
  for (const std::string& note : found.notes) tell_message(observer, config.data + ": " + note);
  MANTISSA_ASSIGN(RunData data, load_run_data(config, found, plan));
  MANTISSA_RETURN_IF_ERROR(set_channel_means(config, channel_means(data.train), plan));
  if (!plan.taken.initial.empty()) {
    return invalid_input("from: " + config.start->source + " lacks " + plan.taken.initial[0] +
                         (plan.taken.initial.size() > 1 ? " and others" : "") +
                         ", without which the network cannot be quantised; name the folder of a "
                         "run, or a checkpoint");
  }
  MANTISSA_ASSIGN(State state, State::create(plan.layout));
  initialise(plan.graph, config.format, config.seed, state);
  MANTISSA_ASSIGN(TrainedFile trained, reread(*config.start));
  MANTISSA_RETURN_IF_ERROR(take_trained(plan.graph, config.format, trained, state));
  return QuantiseSource{config, std::move(plan), std::move(data), std::move(state),
                        std::move(trained)};
}

Result<std::vector<quantize::ActivationStatistics>> activation_statistics(
    QuantiseSource& source, const std::vector<QuantisedLayer>& layers, int64_t examples) {
  Graph watched = source.plan.graph;
  watched.outputs.clear();
  std::map<int, int> output_of;  // values to outputs
  for (const QuantisedLayer& layer : layers) {
    if (layer.bits.activations == kWholeBits) continue;
    const int value = watched.nodes[layer.node].inputs[0];
    if (output_of.try_emplace(value, static_cast<int>(watched.outputs.size())).second) {
      watched.outputs.push_back(value);
    }
  }
  std::vector<quantize::ActivationStatistics> counts(layers.size());
  if (watched.outputs.empty()) return counts;
  const RunConfig& config = source.config;
  const kernels::KernelTable table = kernels::select_kernels(config.isa);
  MANTISSA_ASSIGN(const Program program, compile(watched,
                                                 {.kind = ProgramKind::kInference,
                                                  .micro_batch_size = config.micro_batch_size,
                                                  .with_loss = false,
                                                  .exponents = ExponentMode::kCalibrate,
                                                  .format = config.format},
                                                 {&table, config.threads}));
  MANTISSA_ASSIGN(const AlignedMemory arena, AlignedMemory::create(program.arena_bytes));
  ThreadPool pool(config.threads);
  Programs programs(watched, source.state, {pool, arena.span(), config.isa});
  programs.add(program);
  const int64_t count = std::min(examples, source.data.train.count) / config.micro_batch_size *
                        config.micro_batch_size;
  MANTISSA_ASSIGN(
      OrderedBatches batches,
      OrderedBatches::create(picture_examples(source.data.train), config.micro_batch_size,
                             calibration_examples(source.data.train.count, config.seed,
                                                  std::max(config.micro_batch_size, count))));
  for (int64_t done = 0; done < batches.count(); done += config.micro_batch_size) {
    MANTISSA_RETURN_IF_ERROR(programs.infer(batches.next()));
    for (size_t i = 0; i < layers.size(); ++i) {
      if (layers[i].bits.activations == kWholeBits) continue;
      add_values(programs.outputs(output_of.at(watched.nodes[layers[i].node].inputs[0])),
                 counts[i]);
    }
  }
  return counts;
}

}  // namespace mantissa
