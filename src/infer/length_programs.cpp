#include "infer/length_programs.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "graph/input_shapes.h"
#include "ops/ops.h"
#include "runtime/observation.h"

namespace mantissa {
namespace {

constexpr size_t kInputsWithLengths = 4;  // of attention: queries, keys, values, lengths

// Whether other padding after a text would change its result.
bool reads_padding(const Graph& network, int n) {
  const Node& node = network.nodes[n];
  const bool has_lengths = node.op == &ops::kAttention && node.inputs.size() == kInputsWithLengths;
  return !node.op->traits.row_by_row && !has_lengths && !network.is_loss(n);
}

// Lengths may differ in the order of instructions, and in other writes than to the tensors. The
// sums of one value's gradients share one name, and follow each other in one order: they are
// counted.
using ObservedKey = std::tuple<ObservedKind, SegmentKind, int, std::string, int, int>;

std::vector<ObservedKey> keys_of_tensors(const Program& program) {
  std::vector<ObservedKey> keys;
  std::map<ObservedKey, int> counts;
  const Observations observations(program);
  for (const TensorObservation& seen : observations.tensors()) {
    const Instruction& writer = program.instructions[seen.instruction];
    ObservedKey key(seen.kind, kind_of(writer), writer.node, writer.name, seen.operand, 0);
    std::get<5>(key) = counts[key]++;
    keys.push_back(std::move(key));
  }
  return keys;
}

}  // namespace

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

}  // namespace mantissa
