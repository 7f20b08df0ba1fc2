// The operands of a network's nodes in a format: their types, widths, bytes. All facts that the
// compiler needs before it decides on an instruction.
#pragma once

#include <vector>

#include "plan/passes/resolved_values.h"
#include "plan/programs/grids.h"
#include "plan/programs/program.h"

namespace mantissa {

// Rows of a gradient that each thread computes at once, and the bytes that all threads need for
// this.
struct RowsAtOnce {
  int64_t rows = 0;
  int64_t sum_bytes = 0, scratch_bytes = 0;
};

// The rows of an op in the arithmetic of a format, which is chosen here; none if the op has none.
const OpRows& rows_in(const Op& op, const Format& format);

class NodeOperands {
 public:
  NodeOperands(const Graph& graph, const ResolvedValues& values, const ProgramOptions& options,
               const PlanningContext& planning)
      : graph_(graph),
        values_(values),
        grids_(grids(graph, options.format)),
        options_(options),
        planning_(planning) {}

  const OpRows& rows(const Op& op) const { return rows_in(op, options_.format); }
  // Calls function(shapes) with the shapes of the node, for a micro-batch.
  template <typename Function>
  auto with_shapes(const Node& node, Function&& function) const {
    std::vector<Shape> inputs, parameters;
    std::vector<Grid> input_grids, parameter_grids;
    for (const int input : node.inputs) {
      inputs.push_back(shape_of(input));
      input_grids.push_back(grid_of(input));
    }
    for (const int parameter : node.parameters) {
      parameters.push_back(graph_.parameters[parameter].shape);
      parameter_grids.push_back(grids_.parameters[parameter]);
    }
    return function(OpShapes{.attributes = &node.attributes,
                             .inputs = inputs,
                             .output = shape_of(node.outputs[0]),
                             .parameters = parameters,
                             .output_type = type_of(node.outputs[0]),
                             .exponent_mode = options_.exponents,
                             .half_up = !options_.format.even_ties,
                             .input_grids = input_grids,
                             .parameter_grids = parameter_grids,
                             .gradient = grids_.gradient,
                             .wide_gradient = grids_.wide_gradient,
                             .cached_positions = options_.cached_positions});
  }
  // Multiply-adds of the forward pass.
  int64_t multiply_adds(const Node& node) const;
  // The op's own memory, for this node.
  OpMemory memory_of(const Node& node) const;
  // The same for some rows of its only input.
  OpMemory memory_of_rows(const Node& node, int64_t rows) const;

  bool trains(const Node& node) const { return mantissa::trains(graph_, node); }
  // Whether other nodes use the node's parameters, too: the sums are then added in int64.
  bool shares_parameters(const Node& node) const {
    return !node.parameters.empty() && values_.users[node.parameters[0]] > 1;
  }

  // Shape and grid of a value.
  Shape shape_of(int value) const;
  const Grid& grid_of(int value) const { return grids_.values[values_.canonical[value]]; }
  // Whether it holds 32-bit sums, as its producer leaves them.
  bool is_wide(int value) const { return values_.is_wide[values_.canonical[value]]; }
  DataType type_of(int value) const;

  const std::vector<Grid>& parameter_grids() const { return grids_.parameters; }

  bool wants_gradient(int value) const { return values_.wants_gradient[values_.canonical[value]]; }
  DataType gradient_type(int bits) const;
  // Width of a gradient that an op, or a layer, passes on: g bits from layers, gw bits from all
  // others.
  int kept_bits(bool is_layer) const;
  // The width that it writes if it narrows: more if stochastic rounding follows.
  int written_bits(bool is_layer) const;
  // Bits of the gradients that an instruction writes, from a gradient of `gradient_bits`.
  int grad_input_bits(GradientWidth width, int gradient_bits) const;
  // Width of the sums of a node's first parameter, or of its others.
  SumWidth sum_width(const Node& node, bool first) const;
  // The type of the memory for these sums.
  DataType weight_gradient_type(const Node& node, bool first) const;

  // Whether each update follows its gradient, and does not wait for the whole backward pass.
  bool updates_at_once() const;
  // Whether the update of the node's first parameter may compute its gradient a few rows at a time
  // in any step: sums of 32 bits.
  bool may_compute_rows(const Node& node) const;
  // Whether there is memory for sums of 32 bits only, and the update computes rows in steps whose
  // sums turn out not to fit. Only if rows need no more memory than this saves.
  bool falls_back_on_rows(const Node& node) const;
  RowsAtOnce rows_at_once(const Node& node) const;

  // Whether less memory is alive at once if the gradients of the inputs come before the sums of
  // the weights' gradients, which then get their room only afterwards. Assumes that the inputs
  // exist before, and end with the sums, or with the update if that may read them. If a node saves
  // nothing, neither leaves anything to the other.
  bool input_comes_first(const Node& node, const EmittedInstruction& weights,
                         const EmittedInstruction& input, int gradient_bits) const;

 private:
  bool has_rows(const Node& node) const;

  const Graph& graph_;
  const ResolvedValues& values_;
  Grids grids_;
  const ProgramOptions& options_;
  PlanningContext planning_;
};

}  // namespace mantissa
