#include "plan/stages/stages.h"

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "base/checked.h"
#include "plan/programs/optimizer.h"

namespace mantissa {
namespace {

constexpr int64_t kAlignment = 64;

// The parts of a micro-batch's work in a stage.
enum class Part : uint8_t { kForward, kGradInput, kGradWeights, kUpdate };

// By instruction. Gradients of weights can be apart unless grad_input, which comes after them,
// reads their results; updates at once follow them. Values are computed again before they are read
// first: with grad_input if it reads them at all.
std::vector<Part> parts_of(const Program& program, bool apart) {
  std::vector<Part> parts;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    const SegmentKind kind = kind_of(instruction);
    const bool saves = !instruction.of(Role::kSaved).empty();
    if (is_forward(instruction)) {
      parts.push_back(Part::kForward);
    } else if (instruction.once_per_step) {
      parts.push_back(Part::kUpdate);
    } else if (apart && kind == SegmentKind::kGradWeights && !saves) {
      parts.push_back(Part::kGradWeights);
    } else if (apart && kind == SegmentKind::kUpdate) {
      parts.push_back(Part::kGradWeights);
    } else {
      parts.push_back(Part::kGradInput);
    }
  }
  std::vector<bool> read_early(program.buffers.size(), false);
  for (size_t i = parts.size(); apart && i-- > 0;) {
    const Instruction& instruction = program.instructions[i];
    if (instruction.again && !read_early[instruction.output().index]) {
      parts[i] = Part::kGradWeights;
    }
    if (parts[i] == Part::kGradInput) {
      for_each_buffer(instruction, [&](int buffer) { read_early[buffer] = true; });
    }
  }
  return parts;
}

class StagePlanner {
 public:
  StagePlanner(const Graph& graph, const Program& program, const StateLayout& layout,
               std::span<const int> stage_of, const pipeline::Schedule& schedule)
      : graph_(graph),
        program_(program),
        layout_(layout),
        stage_of_(stage_of),
        options_(schedule.options),
        parts_(parts_of(program, schedule.options.splits_backward())),
        uses_(program.buffers.size()) {
    const pipeline::Options& options = schedule.options;
    for (size_t s = 0; s < schedule.windows.size(); ++s) {
      StagePlan& stage = plan_.stages.emplace_back();
      stage.window = schedule.windows[s];
      // The forward pass of an update's first micro-batch may come before the previous update.
      if (options.mode != pipeline::Mode::kFlush) {
        stage.updates_in_flight = (stage.window - 1) / options.accumulate + 2;
      }
      stage.offsets.assign(program.buffers.size(), -1);
      stage.copies.assign(program.buffers.size(), Copies::kOne);
    }
  }

  Result<PipelinePlan> run() {
    MANTISSA_RETURN_IF_ERROR(check_prediction());
    MANTISSA_RETURN_IF_ERROR(check_parameters());
    MANTISSA_RETURN_IF_ERROR(divide_instructions());
    MANTISSA_RETURN_IF_ERROR(find_transfers());
    for (size_t s = 0; s < plan_.stages.size(); ++s) {
      if (options_.mode != pipeline::Mode::kFlush) put_updates_behind_gradients(plan_.stages[s]);
      place_buffers(static_cast<int>(s));
      find_versions(static_cast<int>(s));
      place_parameters(static_cast<int>(s));
    }
    return std::move(plan_);
  }

 private:
  // The places where the buffer is used.
  struct Use {
    int instruction;
    int stage;
    bool writes;
  };

  Status check_prediction() const {
    const Optimizer& row = optimizer(program_.options.optimizer);
    if (!options_.predicts_weights || row.prediction != nullptr) return {};
    return invalid_input("predict-weights: " + std::string(row.name) +
                         " keeps nothing to predict weights from; momentum, nesterov, adam and "
                         "adamw do (momentum 0 takes the steps of sgd)");
  }

  Status check_parameters() const {
    std::vector<int> stage_of_parameter(graph_.parameters.size(), -1);
    const std::vector<bool> written = written_parameters(graph_, program_);
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      for (const int parameter : graph_.nodes[n].parameters) {
        if (!written[parameter]) continue;
        int& stage = stage_of_parameter[parameter];
        if (stage >= 0 && stage != stage_of_[n]) {
          return invalid_input("'" + graph_.parameters[parameter].name +
                               "' is shared by layers of several stages (stage " +
                               std::to_string(stage + 1) + " and " +
                               std::to_string(stage_of_[n] + 1) + "): put them into one");
        }
        stage = stage_of_[n];
      }
    }
    return {};
  }

  Status divide_instructions() {
    for (int i = 0; i < static_cast<int>(program_.instructions.size()); ++i) {
      const Instruction& instruction = program_.instructions[i];
      if (instruction.layer < 0 && instruction.node < 0) {
        return invalid_input(
            "a pipeline of several stages cannot clip gradients by their common "
            "norm: no stage knows all of them");
      }
      const int stage = stage_of_[layer_of(i)];
      if (instruction.node >= 0 && stage_of_[instruction.node] != stage) {
        return invalid_input("'" + instruction.name + "' of stage " +
                             std::to_string(stage_of_[instruction.node] + 1) +
                             " would be computed again in stage " + std::to_string(stage + 1));
      }
      StagePlan& of = plan_.stages[stage];
      const std::array lists = {&of.forward, &of.grad_input, &of.grad_weights, &of.update};
      lists[static_cast<size_t>(parts_[i])]->push_back(i);
      note_uses(i, stage);
    }
    return {};
  }

  int layer_of(int i) const {
    const Instruction& instruction = program_.instructions[i];
    return instruction.layer >= 0 ? instruction.layer : instruction.node;
  }

  // The backward pass goes from the last layer to the first, and so do updates. Every reader of a
  // parameter belongs to a layer from its first user on, and the update comes with that first user.
  // So each reader has run by then, and the bits are the same as for updates after the whole
  // backward pass. Statistics of all micro-batches are no gradients, and stay at the end.
  void put_updates_behind_gradients(StagePlan& stage) const {
    const auto is_update = [&](int i) {
      return kind_of(program_.instructions[i]) == SegmentKind::kUpdate;
    };
    std::vector<int> updates;
    std::ranges::copy_if(stage.update, std::back_inserter(updates), is_update);
    if (updates.empty()) return;
    const auto layer = [this](int i) { return layer_of(i); };
    std::ranges::merge(stage.grad_input, updates, std::back_inserter(stage.last_grad_input),
                       std::ranges::greater(), layer, layer);
    std::ranges::copy_if(stage.update, std::back_inserter(stage.end_of_update),
                         std::not_fn(is_update));
  }

  void note_uses(int i, int stage) {
    for (const Operand& operand : program_.instructions[i].operands) {
      if (!operand.in_arena()) continue;
      const bool passes = operand.role <= Role::kGradInput;
      if (passes && operand.exponent >= 0) exponents_[operand.index].insert(operand.exponent);
      uses_[operand.index].push_back({i, stage, passes && writes(operand.access)});
    }
  }

  // A buffer is written in one stage: values that another reads are kept, and gradients are
  // written once.
  Status find_transfers() {
    for (int b = 0; b < static_cast<int>(uses_.size()); ++b) {
      const auto writer = std::ranges::find_if(uses_[b], &Use::writes);
      if (writer == uses_[b].end()) continue;
      std::set<int> readers;
      for (const Use& use : uses_[b]) {
        if (use.stage != writer->stage) readers.insert(use.stage);
      }
      for (const int row : exponents_[b]) {
        const bool is_value = program_.exponents[row].owner == ExponentOwner::kValue;
        if (readers.empty() || !is_value || program_.guarded_channels[row] == 0) continue;
        return invalid_input("'" + program_.buffers[b].name +
                             "' has exponents for its channels, which the batch norm behind it "
                             "decides: both belong to one stage");
      }
      for (const int reader : readers) {
        plan_.transfers.push_back({.from = writer->stage,
                                   .to = reader,
                                   .buffer = b,
                                   .backward = is_passed_back(b, *writer),
                                   .exponents = {exponents_[b].begin(), exponents_[b].end()}});
      }
    }
    return {};
  }

  // Gradients are, though a loss with logits in slices writes one in the forward pass.
  bool is_passed_back(int buffer, const Use& writer) const {
    return parts_[writer.instruction] == Part::kGradInput ||
           program_.buffers[buffer].kind == BufferKind::kGradient;
  }

  bool outlives_micro_batch(int buffer) const {
    const BufferKind kind = program_.buffers[buffer].kind;
    return program_.options.micro_batches > 1 &&
           (kind == BufferKind::kWeightGradient || kind == BufferKind::kStatistics);
  }

  // Buffers of the stage get lives in the order of its instructions: forward, backward, update.
  void place_buffers(int s) {
    StagePlan& stage = plan_.stages[s];
    std::map<int, int> position;  // of instructions
    for (const int i : stage.instructions()) {
      position.emplace(i, static_cast<int>(position.size()));
    }
    const auto forward_end = static_cast<int>(stage.forward.size());
    const int backward_end = forward_end + static_cast<int>(stage.completing_grad_input().size());
    std::array<std::vector<int>, 3> by_copies;
    std::vector<Buffer> buffers = program_.buffers;
    for (int b = 0; b < static_cast<int>(buffers.size()); ++b) {
      Buffer& buffer = buffers[b];
      std::set<Part> parts;
      buffer.first = static_cast<int>(position.size());
      buffer.last = -1;
      const auto extend = [&](int at) {
        buffer.first = std::min(buffer.first, at);
        buffer.last = std::max(buffer.last, at);
      };
      for (const Use& use : uses_[b]) {
        if (use.stage != s) continue;
        extend(position[use.instruction]);
        parts.insert(parts_[use.instruction]);
      }
      if (parts.empty()) continue;
      for (const Transfer& transfer : plan_.transfers) {
        if (transfer.buffer != b || (transfer.from != s && transfer.to != s)) continue;
        parts.insert(transfer.backward ? Part::kGradInput : Part::kForward);
        // There from the part's start, or to its end.
        const int begin = transfer.backward ? forward_end : 0;
        const int end = (transfer.backward ? backward_end : forward_end) - 1;
        extend(transfer.to == s ? begin : std::max(begin, end));
      }
      if (outlives_micro_batch(b)) {
        extend(0);
        extend(static_cast<int>(position.size()) - 1);
        if (buffer.kind == BufferKind::kStatistics) stage.copies[b] = Copies::kPerUpdate;
      } else if (parts.size() > 1) {
        stage.copies[b] = Copies::kPerInstance;
      }
      by_copies[static_cast<size_t>(stage.copies[b])].push_back(b);
    }
    stage.shared_bytes = pack(buffers, by_copies[0], 0, stage);
    stage.instance_bytes = pack(buffers, by_copies[1], stage.shared_bytes, stage);
    stage.update_bytes = pack(buffers, by_copies[2],
                              stage.shared_bytes + stage.window * stage.instance_bytes, stage);
  }

  // In kAsync a stage needs versions for predicted weights, which forward passes read, and if it
  // computes values again: one for each update that a micro-batch in flight may have missed, or for
  // each micro-batch.
  void find_versions(int s) {
    StagePlan& stage = plan_.stages[s];
    const int missed = pipeline::most_missed_updates(options_, stage.window);
    if (missed == 0) return;
    const bool is_async = options_.mode == pipeline::Mode::kAsync;
    bool computes_again = false;
    for (const auto* list : {&stage.forward, &stage.grad_input, &stage.grad_weights}) {
      for (const int i : *list) {
        const Instruction& instruction = program_.instructions[i];
        const bool again = instruction.again;
        const bool predicted = options_.predicts_weights && is_forward(instruction);
        const bool is_update = kind_of(instruction) == SegmentKind::kUpdate;
        if (is_async ? again || predicted : !is_update) stage.versioned.push_back(i);
        computes_again |= again;
      }
    }
    stage.versions = pipeline::weight_copies(options_, stage.window);
    if (is_async && computes_again) {
      stage.versions = options_.predicts_weights ? stage.window : missed + 1;
    }
  }

  // Mantissas and exponents, one parameter after the other.
  void place_parameters(int s) {
    StagePlan& stage = plan_.stages[s];
    std::set<int> parameters;
    for (const int i : stage.versioned) {
      for (const Operand& operand : program_.instructions[i].parameters()) {
        parameters.insert(operand.index);
      }
    }
    for (const int parameter : parameters) {
      const ParameterState& tensors = layout_.parameters[parameter];
      const auto place = [&](int tensor) {
        const int64_t bytes = tensor < 0 ? 0 : layout_.tensors[tensor].bytes();
        return std::exchange(stage.version_bytes,
                             stage.version_bytes + round_up(bytes, kAlignment));
      };
      const int64_t mantissas = place(tensors.mantissa);
      stage.parameters.push_back(
          {parameter, update_of(stage, parameter), mantissas, place(tensors.exponent)});
    }
  }

  int update_of(const StagePlan& stage, int parameter) const {
    for (const int i : stage.instructions()) {
      const Instruction& instruction = program_.instructions[i];
      if (!updates_parameter(instruction)) continue;
      if (instruction.parameters()[0].index == parameter) return i;
    }
    return -1;
  }

  static int64_t pack(const std::vector<Buffer>& buffers, const std::vector<int>& which,
                      int64_t start, StagePlan& stage) {
    std::vector<Buffer> packed;
    for (const int b : which) packed.push_back(buffers[b]);
    if (packed.empty()) return 0;
    const int64_t bytes = round_up<int64_t>(pack_arena(packed), kAlignment);
    for (size_t i = 0; i < which.size(); ++i) stage.offsets[which[i]] = start + packed[i].offset;
    return bytes;
  }

  const Graph& graph_;
  const Program& program_;
  const StateLayout& layout_;
  std::span<const int> stage_of_;
  const pipeline::Options& options_;
  std::vector<Part> parts_;                 // by instruction
  std::vector<std::vector<Use>> uses_;      // by buffer
  std::map<int, std::set<int>> exponents_;  // by buffer: rows of the table
  PipelinePlan plan_;
};

}  // namespace

std::vector<int> StagePlan::instructions() const {
  std::vector<int> all;
  const std::vector<int>& end = updates_by_layer() ? end_of_update : update;
  for (const auto* list : {&forward, &completing_grad_input(), &grad_weights, &end}) {
    all.insert(all.end(), list->begin(), list->end());
  }
  return all;
}

Result<PipelinePlan> plan_stages(const Graph& graph, const Program& program,
                                 const StateLayout& layout, std::span<const int> stage_of,
                                 const pipeline::Schedule& schedule) {
  return StagePlanner(graph, program, layout, stage_of, schedule).run();
}

std::vector<bool> written_parameters(const Graph& graph, const Program& program) {
  std::vector<bool> written(graph.parameters.size(), false);
  for (const Instruction& instruction : program.instructions) {
    for (const Operand& operand : instruction.parameters()) {
      if (writes(operand.access)) written[operand.index] = true;
    }
  }
  return written;
}

int64_t state_bytes(const StateLayout& layout, int parameter) {
  const ParameterState& state = layout.parameters[parameter];
  std::vector<int> tensors = {state.mantissa, state.exponent, state.accumulator,
                              state.gradient_exponent};
  for (const MomentState& moment : state.moments) {
    tensors.insert(tensors.end(), {moment.mantissa, moment.exponent});
  }
  int64_t bytes = 0;
  for (const int tensor : tensors) bytes += tensor < 0 ? 0 : layout.tensors[tensor].bytes();
  return bytes;
}

std::vector<bool> passed_values(const Graph& graph, const Program& program,
                                std::span<const int> stage_of) {
  std::vector<bool> passed(graph.values.size(), false);
  std::vector<int> writer(graph.values.size(), -1);  // its stage
  for (const Instruction& instruction : program.instructions) {
    if (instruction.layer < 0) continue;
    const int stage = stage_of[instruction.layer];
    for (const Operand& output : instruction.outputs()) {
      if (!is_kept_value(program, output)) continue;
      if (is_forward(instruction)) writer[output.exponent] = stage;
    }
    for (const Role role : {Role::kInput, Role::kOutput}) {
      for (const Operand& operand : instruction.of(role)) {
        if (!is_kept_value(program, operand)) continue;
        if (writer[operand.exponent] != stage) passed[operand.exponent] = true;
      }
    }
  }
  return passed;
}

std::vector<int64_t> instance_offsets(const StagePlan& stage, int instance) {
  std::vector<int64_t> offsets = stage.offsets;
  for (size_t b = 0; b < offsets.size(); ++b) {
    if (stage.copies[b] == Copies::kPerInstance) offsets[b] += instance * stage.instance_bytes;
  }
  return offsets;
}

}  // namespace mantissa
