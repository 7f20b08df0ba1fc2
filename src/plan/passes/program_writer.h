// Writes a program one instruction after the other. It gives values, gradients and workspaces their
// buffers and knows which values are there. The passes of compile_passes.h use it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "plan/passes/node_operands.h"
#include "plan/passes/resolved_values.h"
#include "plan/passes/sliced_loss.h"
#include "plan/programs/program.h"
#include "plan/programs/state_layout.h"

namespace mantissa {

class ProgramWriter {
 public:
  // All references outlive the writer.
  ProgramWriter(const Graph& graph, const ProgramOptions& options, const PlanningContext& planning);

  const Graph& graph() const { return graph_; }
  const Node& node(int n) const { return graph_.nodes[n]; }
  int node_count() const { return static_cast<int>(graph_.nodes.size()); }
  const ProgramOptions& options() const { return program_.options; }
  const Format& format() const { return program_.options.format; }
  bool training() const { return program_.options.kind == ProgramKind::kTraining; }
  const ResolvedValues& values() const { return values_; }
  const NodeOperands& operands() const { return nodes_; }
  const ExponentSlots& slots() const { return slots_; }

  // Whether the node is no instruction: a view, a fused ReLU, a loss that is not wanted, or a node
  // that the results do not need.
  bool is_left_out(int n) const;
  // Whether the update of the node's first parameter computes its gradient in every step.
  bool computes_rows(int n) const;

  // The nodes of a loss with logits in slices, and the gradient that it leaves for the layer's
  // input.
  const std::optional<SlicedLoss>& sliced() const { return sliced_; }
  const Operand& sliced_gradient() const { return sliced_gradient_; }
  void set_sliced_gradient(const Operand& gradient) { sliced_gradient_ = gradient; }

  // An instruction of a node, with no operands except its parameters.
  Instruction instruction_of(int n, const OpRow& row) const;
  // The forward instruction of a node, with a buffer for each output that is not there.
  Instruction forward_instruction(int n);
  // The forward data of a value, in its shape; none for a real number.
  Operand operand(int value);
  // A new buffer for a gradient of a value, with its exponent.
  Operand gradient_operand(int value, const Exponent& exponent);
  const Exponent& exponent_of(const Operand& operand) const {
    return program_.exponents[operand.exponent];
  }
  int add_exponent(const Exponent& exponent);
  // Adds the exponent of the sums of a parameter's gradient.
  int add_sum_exponent(int parameter, DataType type, bool measures_sums);
  int add_buffer(std::string name, BufferKind kind, int64_t bytes);
  void add_row_memory(Instruction& instruction, const RowMemory& memory);
  // The whole of a buffer: saved data, statistics, memory to work in.
  Operand memory_operand(int buffer) const;
  // Instructions from now on belong to this node.
  void begin_layer(int n) { layer_ = n; }
  // Instructions from now on run once in a step.
  void begin_end_of_step() { once_per_step_ = true; }
  void emit(Instruction instruction);

  // Whether the value has a buffer that was written, or needs none.
  bool is_there(int value) const;
  // At the end of the forward pass, or of a node's backward instructions: from now on values of
  // this retention, or all that are not kept, are not there.
  void forget_values(std::optional<Retention> retention = {});

  // Buffers that a node's forward instruction leaves to others; -1: none.
  struct NodeBuffers {
    int saved = -1;
    int statistics = -1;
  };
  NodeBuffers& left_by(int n) { return left_by_node_[n]; }
  // Adds these buffers of the instruction's node.
  void add_left(Instruction& instruction, Access access) const;

  // Sums of gradients of parameters that are there, by parameter.
  std::map<int, Operand>& sums() { return sums_; }

  Program& program() { return program_; }

 private:
  Exponent exponent_of_value(int value) const;
  void find_needed();
  // The index of a value among those that the caller gives, or -1.
  int given_place(int value) const;

  const Graph& graph_;
  Program program_;
  ResolvedValues values_;
  ExponentSlots slots_;
  NodeOperands nodes_;
  std::vector<int> buffer_of_value_;  // -1: not there
  std::vector<bool> is_needed_;       // by node
  std::vector<NodeBuffers> left_by_node_;
  std::map<int, Operand> sums_;  // by parameter
  std::optional<SlicedLoss> sliced_;
  Operand sliced_gradient_;
  int layer_ = -1;
  bool once_per_step_ = false;
};

}  // namespace mantissa
