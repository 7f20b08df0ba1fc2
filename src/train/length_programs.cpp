#include "train/length_programs.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "graph/input_shapes.h"
#include "ops/ops.h"
#include "runtime/observation.h"
#include "train/text_settings.h"

namespace mantissa {
namespace {

constexpr size_t kInputsWithLengths = 4;  // of attention: queries, keys, values, lengths

// A division of layers by hand says how many stages there are.
bool is_one_program(const RunConfig& config) {
  const PipelineConfig& way = config.pipeline;
  return way.stages == 1 && way.replicas == 1 && way.first_layers.empty() && !way.as_graph_says;
}

// Whether a text's result would be another with other padding behind it.
bool reads_padding(const Graph& network, int n) {
  const Node& node = network.nodes[n];
  const bool has_lengths = node.op == &ops::kAttention && node.inputs.size() == kInputsWithLengths;
  return !node.op->traits.row_by_row && !has_lengths && !network.is_loss(n);
}

// Lengths may differ in the order of instructions, and in what is written beside the tensors.
// Sums of one value's gradients have one name, and follow each other in one order: they are
// counted.
using ObservedKey = std::tuple<ObservedKind, Phase, int, std::string, int, int>;

std::vector<ObservedKey> keys_of_tensors(const Program& program) {
  std::vector<ObservedKey> keys;
  std::map<ObservedKey, int> counts;
  const Observations observations(program);
  for (const TensorObservation& seen : observations.tensors()) {
    const Instruction& writer = program.instructions[seen.instruction];
    ObservedKey key(seen.kind, writer.phase, writer.node, writer.name, seen.operand, 0);
    std::get<5>(key) = counts[key]++;
    keys.push_back(std::move(key));
  }
  return keys;
}

}  // namespace

int64_t padded_sequence(const RunConfig& config) {
  if (config.table.text.sequence > 0) return config.table.text.sequence;
  return text_options(config).task == TextTask::kTranslation ? config.sequence : 0;
}

BatchLengths batch_lengths(const RunConfig& config) {
  const int64_t sequence = padded_sequence(config);
  return sequence == 0 ? BatchLengths{} : batch_lengths(sequence, config.buckets);
}

BatchLengths evaluation_lengths(const RunConfig& config) {
  const bool has_row_exponents = !config.format.is_float() && !config.format.tensor_values;
  return has_row_exponents ? BatchLengths{} : batch_lengths(config);
}

Status check_lengths(const Graph& network, bool labels_texts, const BatchLengths& lengths) {
  for (const int64_t length : lengths) {
    const auto other = with_length(network, lengths.back(), length);
    if (!other.ok()) return other.error();
  }
  for (int n = 0; n < std::ssize(network.nodes); ++n) {
    if (!labels_texts || !reads_padding(network, n)) continue;
    return invalid_input("node '" + network.nodes[n].name +
                         "' reads padding, so that labels would depend on it");
  }
  return {};
}

Result<Graph> with_length(const Graph& network, int64_t whole, int64_t length) {
  std::vector<Shape> shapes;
  for (const int input : network.inputs) {
    Shape shape = network.values[input].shape;
    if (shape.rank > 0 && shape[0] == whole) shape.dims[0] = length;
    shapes.push_back(shape);
  }
  return with_input_shapes(network, shapes);
}

Result<std::vector<LengthProgram>> shorter_programs(const Graph& graph, const Program& training,
                                                    const BatchLengths& lengths,
                                                    const PlanningContext& planning) {
  std::vector<LengthProgram> programs;
  for (size_t i = 0; i + 1 < lengths.size(); ++i) {
    LengthProgram shorter;
    MANTISSA_ASSIGN(shorter.graph, with_length(graph, lengths.back(), lengths[i]));
    MANTISSA_ASSIGN(shorter.program, compile(shorter.graph, training.options, planning));
    if (places_of_tensors(training, shorter.program).empty()) {
      return failed("buckets: a program for " + std::to_string(lengths[i]) +
                    " tokens would write other tensors; --buckets 1 pads all batches");
    }
    programs.push_back(std::move(shorter));
  }
  return programs;
}

std::vector<int> places_of_tensors(const Program& whole, const Program& shorter) {
  const std::vector<ObservedKey> ours = keys_of_tensors(whole), theirs = keys_of_tensors(shorter);
  std::map<ObservedKey, int> place_of;
  for (const ObservedKey& key : theirs) place_of.emplace(key, static_cast<int>(place_of.size()));
  std::vector<int> places;
  for (const ObservedKey& key : ours) {
    const auto found = place_of.find(key);
    if (found == place_of.end()) return {};
    places.push_back(found->second);
  }
  const bool are_all = place_of.size() == theirs.size() && ours.size() == theirs.size();
  return are_all ? places : std::vector<int>{};
}

int64_t arena_bytes(const std::vector<LengthProgram>& programs) {
  int64_t bytes = 0;
  for (const LengthProgram& each : programs) bytes = std::max(bytes, each.program.arena_bytes);
  return bytes;
}

Status check_buckets(const RunConfig& config) {
  if (config.buckets == 1) return {};
  const std::string choice = "buckets " + std::to_string(config.buckets) + ": ";
  const int64_t sequence = padded_sequence(config);
  if (sequence == 0) {
    return invalid_input(
        choice +
        "are for networks that translate and for texts with labels; other examples "
        "are all as long: leave it out");
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
