// The exponents of a program: one row each, with its owner, and with the rule that decides it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "graph/op.h"
#include "numerics/exponent.h"
#include "plan/programs/state_layout.h"
#include "tensor/grid.h"

namespace mantissa {

enum class ExponentOwner : uint8_t {
  kValue,
  kGradient,         // from a node to its input
  kGradientSum,      // of an input's gradients, up to the node's
  kRoundedGradient,  // a gradient, rounded stochastically or to fewer bits
  kRoundedSum,       // a sum, rounded so
  kParameter,
  kParameterGradient,  // exact sums over the batch
  kVelocity,           // of a parameter
};

enum class ExponentRule : uint8_t {
  kNone,        // no exponent: indices, real numbers, floats
  kInherited,   // follows from the operands' exponents: sums of products, passed mantissas
  kOwnMaximum,  // of the wide results, in two passes
  kPredicted,   // as kOwnMaximum, in one pass with the exponent used last; again if that was wrong
  kHeadroom,    // the predictor plus one bit; again if a result outgrew it
  kDecided,     // the predictor, from the statistics of bits
  kCalibrated,  // as kOwnMaximum, and the wide results are counted
  kFixed,       // given: frozen, or set at the start of a step
  kRows,        // each row's own maximum
  kUpdated,     // of parameters: moves with the updates, so that none is clipped; state
};

struct Exponent {
  ExponentOwner owner = ExponentOwner::kValue;
  int of = -1;    // value, node or parameter
  int input = 0;  // gradients: which of the node's inputs
  ExponentRule rule = ExponentRule::kNone;
  int bits = 8;              // of the mantissas
  int limit = kExponentMax;  // the largest that readers need
  // Its place among the state's predictors, -1: none. Rules that use predictors take the exponent
  // from there; it is committed at the end of a step.
  int64_t predictor = -1;
  // Names the tensor in keys of random numbers. A number of the graph: it does not depend on this
  // table.
  int key = -1;
  bool operator==(const Exponent&) const = default;
};

// The rules for values and gradients in a program.
ExponentRule value_rule(const Op& producer, bool is_wide, ExponentMode mode);
// `rounds`: else mantissas are passed on. The grid is the value's.
ExponentRule gradient_rule(const Grid& grid, bool rounds, const Format& format);

// The row of a gradient of a node's input.
Exponent gradient_exponent(const ExponentSlots& slots, ExponentOwner owner, int node, int input,
                           const Grid& grid, bool rounds, const Format& format);

// Whether mantissas are rounded to such an exponent.
constexpr bool rounds(ExponentRule rule) {
  return rule != ExponentRule::kNone && rule != ExponentRule::kInherited;
}

// Whether the exponent is taken from its predictor.
constexpr bool is_predicted(const Exponent& exponent) {
  return exponent.rule == ExponentRule::kHeadroom || exponent.rule == ExponentRule::kDecided;
}

std::string_view exponent_rule_name(ExponentRule rule);

// "conv1", "gradient of conv1 by relu1", ... .
std::string exponent_name(const Graph& graph, const Exponent& exponent);

}  // namespace mantissa
