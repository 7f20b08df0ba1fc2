// The optimisers. One row each has the name, the tensors that it keeps, its settings and the
// instruction that updates a parameter. Layouts, programs, settings and help texts follow from the
// table.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "graph/op.h"
#include "ops/updates/predict_weights.h"

namespace mantissa {

enum class OptimizerKind { kSgd, kMomentum, kNesterov, kAdam, kAdamW };

struct Optimizer {
  OptimizerKind kind;
  const char* name;
  const Op* update;
  // Names of the tensors that it keeps for each parameter, in the order of ParameterView::moments;
  // null: no more.
  std::array<const char*, kMostMoments> moments;
  int moment_exponent;  // of these tensors, of 16 bits, before the first step
  bool has_velocity;    // whether the first is one: it has the format's u bits, all others have 16
  // Whether the update reads sums as ops/gradient_rows.h gives them, and never overwrites them.
  bool takes_gradient_rows;
  // Its own settings; null: no more.
  std::array<const char*, 3> settings;
  double learning_rate;  // if none is given; 0: the model's
  double weight_decay;   // if none is given
  // Null: nothing that it keeps from update to update says where weights go.
  const ops::WeightPrediction* prediction;
};

// In the order of OptimizerKind.
std::span<const Optimizer> optimizers();
const Optimizer& optimizer(OptimizerKind kind);

Result<OptimizerKind> parse_optimizer(std::string_view name);
std::string_view optimizer_name(OptimizerKind kind);

// "sgd, momentum or ...", for help and errors.
std::string optimizer_names();

// Whether the setting belongs to some optimiser, and whether it belongs to this one.
bool is_optimizer_setting(std::string_view setting);
bool has_setting(OptimizerKind kind, std::string_view setting);

}  // namespace mantissa
