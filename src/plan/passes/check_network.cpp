#include <algorithm>
#include <map>

#include "graph/sharing.h"
#include "ops/attributes.h"
#include "ops/losses/loss_weight.h"
#include "ops/ops.h"
#include "plan/passes/compile_passes.h"
#include "plan/passes/network_format.h"
#include "plan/programs/optimizer.h"

namespace mantissa {
namespace {

Error in_node(const ProgramWriter& writer, const Node& node, const std::string& what) {
  return invalid_input(writer.graph().name + ", node '" + node.name + "' (" + node.op->name +
                       "): " + what);
}

// The length of the rows that have an exponent each: for a view, the rows of the value it shows.
int64_t row_length(const ProgramWriter& writer, int value) {
  return writer.graph().values[writer.values().canonical[value]].shape.last();
}

// Whether a value shows rows of another value as they are.
bool has_own_rows(const ProgramWriter& writer, int value) {
  const Value& shown = writer.graph().values[value];
  return shown.element != Element::kMantissa || shown.shape.last() == row_length(writer, value);
}

// Whether a slice takes one row, of a position or of the rows that its input shows as one, as a
// classifier does with the first token; or channels of each row of a sequence.
bool slices_rows(const ProgramWriter& writer, const Node& node) {
  if (node.op != &ops::kSlice) return false;
  const auto& slice = node.attributes.as<ops::SliceAttributes>();
  const int input = node.inputs[0];
  const bool has_positions = writer.graph().values[input].shape.rank > 1;
  if (has_positions && slice.position < 0) return has_own_rows(writer, input);
  return slice.channels == row_length(writer, input) && slice.first % slice.channels == 0;
}

// Values whose rows have exponents of their own.
Status check_row_exponents(const ProgramWriter& writer) {
  if (!writer.format().has_row_exponents()) return {};
  const auto is_own = [&](int value) { return has_own_rows(writer, value); };
  for (int n = 0; n < writer.node_count(); ++n) {
    const Node& node = writer.node(n);
    if (writer.is_left_out(n) || slices_rows(writer, node)) continue;
    if (node.op->traits.takes != TakenExponents::kOfRows && !writer.graph().is_loss(n)) {
      return in_node(writer, node,
                     "takes values with one exponent, not blocks=token; choose blocks=tensor");
    }
    if (!std::ranges::all_of(node.inputs, is_own)) {
      return in_node(
          writer, node,
          "reads rows in another shape than they have their exponents in (blocks=token); "
          "choose blocks=tensor");
    }
  }
  if (std::ranges::all_of(writer.graph().outputs, is_own)) return {};
  return invalid_input(writer.graph().name +
                       ": a result shows rows in another shape than they have their exponents in "
                       "(blocks=token); choose blocks=tensor");
}

Status check_node(const ProgramWriter& writer, int n) {
  const Node& node = writer.node(n);
  const OpRows& op = writer.operands().rows(*node.op);
  if (!op.forward) {
    return in_node(writer, node, "does not compute in " + to_string(writer.format()));
  }
  if (op.check != nullptr) {
    const Status status = writer.operands().with_shapes(node, op.check);
    if (!status.ok()) return in_node(writer, node, status.error().message);
  }
  const bool counts = writer.options().exponents == ExponentMode::kCalibrate;
  if (counts && node.outputs.size() > 1 && !passes_mantissas(*node.op)) {
    return in_node(writer, node, "narrows several outputs; only one can be calibrated");
  }
  return {};
}

// Weights in blocks become mantissas of 8 bits with an exponent for each row.
Status check_blocks(const ProgramWriter& writer) {
  const Format& format = writer.format();
  for (const Node& node : writer.graph().nodes) {
    if (node.parameters.empty()) continue;
    const Parameter& weights = writer.graph().parameters[node.parameters[0]];
    if (weights.storage != Storage::kBlocks) continue;
    if (weights.trained) return in_node(writer, node, "weight_blocks cannot be trained");
    if (!format.is_dynamic() && format.even_ties) continue;
    return in_node(writer, node,
                   format.is_dynamic()
                       ? "weight_blocks have an exponent for each row, which dynamic fixed point "
                         "does not; choose block floating point (bfp8) or fp32"
                       : "weight_blocks become weights of 8 bits, and ties=up is for up to 7; "
                         "leave ties out");
  }
  return {};
}

Status check_rows(const ProgramWriter& writer) {
  for (int n = 0; n < writer.node_count(); ++n) {
    const Node& node = writer.node(n);
    if (writer.computes_rows(n) && !writer.operands().may_compute_rows(node)) {
      return in_node(writer, node, "its update cannot compute the gradient by rows");
    }
  }
  return {};
}

// The update of a node's first parameter may compute its gradient itself, so that a node trains all
// of its parameters or none, and nodes that share a parameter share all of them.
Status check_parameters(const ProgramWriter& writer) {
  std::map<int, std::vector<int>> of_first;  // parameters of the node that uses one as its first
  for (const Node& node : writer.graph().nodes) {
    if (node.parameters.empty()) continue;
    const auto [known, is_new] = of_first.try_emplace(node.parameters[0], node.parameters);
    const bool is_shared_alike = is_new || known->second == node.parameters;
    if (!is_shared_alike) {
      return in_node(writer, node, "shares only some of another node's parameters");
    }
    const bool trains = writer.operands().trains(node);
    for (const int parameter : node.parameters) {
      const Parameter& p = writer.graph().parameters[parameter];
      if (p.storage == Storage::kReal || p.trained == trains || !writer.training()) continue;
      return in_node(writer, node, "trains only some of its parameters, not '" + p.name + "'");
    }
  }
  return {};
}

bool has_same_grid(const ops::QuantiseAttributes& a, const ops::QuantiseAttributes& b) {
  return a.bits == b.bits && a.exponent == b.exponent && a.is_signed == b.is_signed &&
         a.offset == b.offset;
}

// A rescale with a range shares a quantise node's range and grid.
Status check_rescales(const ProgramWriter& writer) {
  const Graph& graph = writer.graph();
  for (int n = 0; n < writer.node_count(); ++n) {
    const Node& node = writer.node(n);
    if (node.op != &ops::kRescale) continue;
    const auto& grid = node.attributes.as<ops::QuantiseAttributes>();
    if (grid.bits == 0) continue;
    const int owner = parameter_owner(graph, n);
    const bool is_quantised = owner >= 0 && graph.nodes[owner].op == &ops::kQuantise;
    if (!is_quantised ||
        !has_same_grid(graph.nodes[owner].attributes.as<ops::QuantiseAttributes>(), grid)) {
      return in_node(writer, node,
                     "wants to share the parameters of a quantise node with the same bits, "
                     "exponent, signed and offset");
    }
  }
  return {};
}

Status check_losses(const ProgramWriter& writer) {
  const Graph& graph = writer.graph();
  if (writer.training() && graph.losses.empty()) {
    return invalid_input(graph.name + ": there is no loss to train for");
  }
  if (graph.losses.size() == 1 &&
      ops::loss_weight_q10(graph.nodes[graph.losses[0]].attributes) != ops::kLossWeightOne) {
    return invalid_input(graph.name + ": its one loss has a loss_weight, which is a factor among "
                         "several losses; leave it out");
  }
  for (const int loss : graph.losses) {
    const int logits = graph.nodes[loss].inputs[0];
    const int producer = graph.values[logits].producer;
    if (producer < 0 || !may_leave_wide(*graph.nodes[producer].op)) {
      const bool sigmoid = producer >= 0 && graph.nodes[producer].op == &ops::kSigmoid;
      return invalid_input(graph.name + ": the logits must come from a linear or convolution node" +
                           (sigmoid ? "; the sigmoid at the end belongs to the loss: leave it out "
                                      "and take sigmoid_cross_entropy"
                                    : ""));
    }
    if (!writer.values().is_wide[writer.values().canonical[logits]]) {
      return invalid_input(graph.name + ": the logits are read by another node");
    }
  }
  return {};
}

}  // namespace

Status check_network(const ProgramWriter& writer) {
  MANTISSA_RETURN_IF_ERROR(check_linear_values(writer.graph(), writer.format()));
  if (writer.training()) {
    MANTISSA_RETURN_IF_ERROR(check_inversion(writer.graph(), writer.format()));
  }
  MANTISSA_RETURN_IF_ERROR(check_row_exponents(writer));
  MANTISSA_RETURN_IF_ERROR(check_blocks(writer));
  MANTISSA_RETURN_IF_ERROR(check_rows(writer));
  MANTISSA_RETURN_IF_ERROR(check_rescales(writer));
  MANTISSA_RETURN_IF_ERROR(check_parameters(writer));
  MANTISSA_RETURN_IF_ERROR(check_losses(writer));
  for (int n = 0; n < writer.node_count(); ++n) {
    if (!writer.is_left_out(n)) MANTISSA_RETURN_IF_ERROR(check_node(writer, n));
  }
  if (!writer.training()) return {};
  const Op& update = *optimizer(writer.options().optimizer).update;
  if (writer.operands().rows(update).forward) return {};
  return invalid_input(writer.graph().name + ": " + update.name + " does not compute in " +
                       to_string(writer.format()));
}

}  // namespace mantissa
