#include "run/settings/run_lengths.h"

#include <string>

#include "infer/length_programs.h"

namespace mantissa {
namespace {

// A division of layers by hand says how many stages there are.
bool is_one_program(const RunConfig& config) {
  const PipelineConfig& way = config.pipeline;
  return way.stages == 1 && way.replicas == 1 && way.first_layers.empty() && !way.as_graph_says;
}

}  // namespace

int64_t padded_sequence(const RunConfig& config) {
  if (config.table.text.sequence > 0) return config.table.text.sequence;
  const TextOptions text = text_options(config);
  const bool pads = text.task == TextTask::kTranslation ||
                    (reads_conversations(config.data, text) && !text.packs);
  return pads ? config.sequence : 0;
}

BatchLengths batch_lengths(const RunConfig& config) {
  const int64_t sequence = padded_sequence(config);
  return sequence == 0 ? BatchLengths{} : batch_lengths(sequence, config.buckets);
}

BatchLengths evaluation_lengths(const RunConfig& config) {
  // Conversations are read by networks of any kind: attention may see their padding.
  const bool pads_all =
      config.format.has_row_exponents() || reads_conversations(config.data, text_options(config));
  return pads_all ? BatchLengths{} : batch_lengths(config);
}

Status check_buckets(const RunConfig& config) {
  if (config.buckets == 1) return {};
  const std::string choice = "buckets " + std::to_string(config.buckets) + ": ";
  const int64_t sequence = padded_sequence(config);
  if (sequence == 0) {
    return invalid_input(
        choice +
        "are for networks that translate, for texts with labels, and for conversations that "
        "are not packed; other examples are all as long: leave it out");
  }
  if (!is_one_program(config)) {
    return invalid_input(choice +
                         "stages and replicas work on batches of one length; --buckets 1 pads all "
                         "batches");
  }
  // Built-in networks can be brought to all lengths.
  const Status network = config.network
                             ? check_lengths(*config.network, config.table.text.sequence > 0,
                                             batch_lengths(sequence, config.buckets))
                             : Status();
  if (network.ok()) return {};
  return invalid_input(choice + network.error().message + "; --buckets 1 pads all batches");
}

}  // namespace mantissa
