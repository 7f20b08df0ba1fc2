#include "plan/stages/stage_layers.h"

#include <algorithm>
#include <map>

#include "ops/losses/slices/sliced_loss.h"
#include "plan/retention/recompute_model.h"

namespace mantissa {
namespace {

// By node: whether a stage may begin with it.
std::vector<bool> may_begin(const Graph& graph, const Program& program) {
  std::vector<bool> may(graph.nodes.size(), true);
  const auto together = [&](int first, int last) {
    for (int n = first + 1; n <= last; ++n) may[n] = false;
  };
  const std::vector<bool> written = written_parameters(graph, program);
  std::map<int, int> first_user;  // of parameters
  for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n) {
    const Node& node = graph.nodes[n];
    for (const int parameter : node.parameters) {
      if (written[parameter]) together(first_user.try_emplace(parameter, n).first->second, n);
    }
    for (const int input : node.inputs) {
      const int producer = graph.values[input].producer;
      if (producer >= 0 && program.guarded_channels[input] > 0) together(producer, n);
    }
  }
  // One instruction has the layer of the logits and the loss.
  for (const Instruction& instruction : program.instructions) {
    if (instruction.op != &ops::kSlicedCrossEntropy) continue;
    const int logits = graph.nodes[instruction.node].inputs[0];
    together(graph.values[logits].producer, instruction.node);
  }
  return may;
}

class Layers {
 public:
  Layers(const Graph& graph, const Program& program, const StateLayout& layout)
      : graph_(graph), program_(program), layout_(layout), layer_of_(graph.nodes.size()) {
    const std::vector<bool> may = may_begin(graph, program);
    for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n) {
      if (n == 0 || may[n]) {
        result_.first_node.push_back(n);
        result_.layers.push_back({.name = graph.nodes[n].name});
      }
      layer_of_[n] = static_cast<int>(result_.layers.size()) - 1;
    }
  }

  StageLayers run(const MachineProfile& profile, int threads, int64_t instruction_bytes) {
    for (const Instruction& instruction : program_.instructions) {
      const int node = instruction.layer >= 0 ? instruction.layer : instruction.node;
      if (node < 0) continue;
      pipeline::Layer& layer = result_.layers[layer_of_[node]];
      layer.time += estimated_ns(graph_, program_, instruction, profile, threads);
      // A sliced loss has the products of the logits' gradient, too, as many again.
      const bool has_both =
          instruction.op == &ops::kSlicedCrossEntropy && !instruction.grad_inputs().empty();
      if (is_forward(instruction)) {
        layer.multiply_adds += instruction.multiply_adds / (has_both ? 2 : 1);
      }
      layer.kept_bytes += instruction_bytes;
      add_sums(instruction, layer);
    }
    for (size_t p = 0; p < graph_.parameters.size(); ++p) add_parameter(static_cast<int>(p));
    for (const Buffer& buffer : program_.buffers) add_buffer(buffer);
    add_work();
    return std::move(result_);
  }

 private:
  void add_sums(const Instruction& instruction, pipeline::Layer& layer) {
    for (const Operand& sums : instruction.sums()) {
      if (sums.access != Access::kAccumulates) continue;
      const Buffer& buffer = program_.buffers[sums.index];
      if (lasts(buffer)) layer.state_bytes += buffer.bytes;
    }
  }

  // Layers that share a parameter may be in stages of their own, which hold it each.
  void add_parameter(int p) {
    const int64_t mantissas = layout_.tensors[layout_.parameters[p].mantissa].bytes();
    int last = -1;
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      const std::vector<int>& used = graph_.nodes[n].parameters;
      if (layer_of_[n] == last || std::ranges::find(used, p) == used.end()) continue;
      pipeline::Layer& layer = result_.layers[layer_of_[n]];
      if (last < 0) layer.parameters += graph_.parameters[p].shape.count();
      layer.weight_bytes += mantissas;
      layer.state_bytes += state_bytes(layout_, p) - mantissas;
      last = layer_of_[n];
    }
  }

  // For the whole step: sums of an update.
  bool lasts(const Buffer& buffer) const {
    return program_.options.micro_batches > 1 &&
           (buffer.kind == BufferKind::kWeightGradient || buffer.kind == BufferKind::kStatistics);
  }

  bool is_kept(const Buffer& buffer) const {
    return is_forward(program_.instructions[buffer.first]) &&
           !is_forward(program_.instructions[buffer.last]);
  }

  // Bytes alive at once while a layer works, without those that it keeps.
  void add_work() {
    for (int i = 0; i < static_cast<int>(program_.instructions.size()); ++i) {
      const int at = layer_at(program_.instructions[i]);
      if (at < 0) continue;
      int64_t bytes = 0;
      for (const Buffer& buffer : program_.buffers) {
        if (buffer.first > i || i > buffer.last) continue;
        if (!lasts(buffer) && !is_kept(buffer)) bytes += buffer.bytes;
      }
      pipeline::Layer& layer = result_.layers[at];
      layer.work_bytes = std::max(layer.work_bytes, bytes);
    }
  }

  // Buffers live from one instruction to another. Buffers of the forward pass that the backward
  // pass still reads are kept. Buffers that live from one layer to the next are passed on.
  void add_buffer(const Buffer& buffer) {
    if (buffer.last < buffer.first || lasts(buffer)) return;
    const Instruction& first = program_.instructions[buffer.first];
    const int from = layer_at(first), to = layer_at(program_.instructions[buffer.last]);
    if (from < 0 || to < 0) return;
    const bool forward = is_forward(first);
    if (is_kept(buffer)) result_.layers[from].kept_bytes += buffer.bytes;
    const auto [low, high] = std::minmax(from, to);
    for (int l = low; l < high; ++l) {
      (forward ? result_.layers[l].passed_bytes : result_.layers[l].returned_bytes) += buffer.bytes;
    }
  }

  int layer_at(const Instruction& instruction) const {
    const int node = instruction.layer >= 0 ? instruction.layer : instruction.node;
    return node < 0 ? -1 : layer_of_[node];
  }

  const Graph& graph_;
  const Program& program_;
  const StateLayout& layout_;
  std::vector<int> layer_of_;  // by node
  StageLayers result_;
};

}  // namespace

StageLayers stage_layers(const Graph& graph, const Program& program, const StateLayout& layout,
                         const MachineProfile& profile, int threads, int64_t instruction_bytes) {
  return Layers(graph, program, layout).run(profile, threads, instruction_bytes);
}

std::vector<pipeline::StageTimes> stage_times(const Graph& graph, const Program& program,
                                              const PipelinePlan& plan,
                                              const MachineProfile& profile, int threads) {
  std::vector<pipeline::StageTimes> times;
  const auto sum = [&](const std::vector<int>& instructions) {
    double time = 0;
    for (const int i : instructions) {
      time += estimated_ns(graph, program, program.instructions[i], profile, threads);
    }
    return time;
  };
  for (const StagePlan& stage : plan.stages) {
    times.push_back({.forward = sum(stage.forward),
                     .grad_input = sum(stage.grad_input),
                     .grad_weights = sum(stage.grad_weights),
                     .update = sum(stage.update),
                     .fused = stage.grad_weights.empty()});
  }
  return times;
}

std::vector<int> stage_of_nodes(const StageLayers& layers, std::span<const int> first_layers,
                                int nodes) {
  std::vector<int> stages(static_cast<size_t>(nodes), 0);
  for (size_t s = 1; s < first_layers.size(); ++s) {
    const int first = layers.first_node[first_layers[s]];
    std::fill(stages.begin() + first, stages.end(), static_cast<int>(s));
  }
  return stages;
}

}  // namespace mantissa
