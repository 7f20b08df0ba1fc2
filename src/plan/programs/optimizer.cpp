#include "plan/programs/optimizer.h"

#include <algorithm>

#include "numerics/exponent.h"
#include "ops/ops.h"

namespace mantissa {
namespace {

// So that Adam's first moments have the precision of the first gradient, however small.
constexpr int kLowest = kExponentMin;

// Kind, name, update; the tensors that it keeps, their first exponent, whether one is a velocity,
// whether gradients may come by rows;
// its settings, default learning rate and weight decay; how weights are predicted.
// clang-format off
const Optimizer kOptimizers[] = {
    {OptimizerKind::kSgd, "sgd", &ops::kUpdateSgd,
     {}, 0, false, false, {}, 0, 5e-4, nullptr},
    {OptimizerKind::kMomentum, "momentum", &ops::kUpdateMomentum,
     {"velocity"}, zero_exponent(16), true, true, {"momentum"}, 0, 5e-4, &ops::kPredictByVelocity},
    {OptimizerKind::kNesterov, "nesterov", &ops::kUpdateNesterov,
     {"velocity"}, zero_exponent(16), true, false, {"momentum"}, 0, 5e-4, &ops::kPredictByVelocity},
    {OptimizerKind::kAdam, "adam", &ops::kUpdateAdam,
     {"first_moment", "second_moment_root"}, kLowest, false, false, {"beta1", "beta2", "epsilon"}, 1e-3, 0,
     &ops::kPredictByAdam},
    {OptimizerKind::kAdamW, "adamw", &ops::kUpdateAdamW,
     {"first_moment", "second_moment_root"}, kLowest, false, false, {"beta1", "beta2", "epsilon"}, 1e-3, 0.01,
     &ops::kPredictByAdam},
};
// clang-format on

bool contains(std::span<const char* const> names, std::string_view wanted) {
  return std::any_of(names.begin(), names.end(),
                     [&](const char* name) { return name != nullptr && name == wanted; });
}

}  // namespace

std::span<const Optimizer> optimizers() { return kOptimizers; }

const Optimizer& optimizer(OptimizerKind kind) { return kOptimizers[static_cast<size_t>(kind)]; }

Result<OptimizerKind> parse_optimizer(std::string_view name) {
  for (const Optimizer& row : kOptimizers) {
    if (row.name == name) return row.kind;
  }
  return invalid_input("unknown optimizer '" + std::string(name) + "'; choose " +
                       optimizer_names());
}

std::string_view optimizer_name(OptimizerKind kind) { return optimizer(kind).name; }

std::string optimizer_names() {
  std::string names;
  for (size_t i = 0; i < std::size(kOptimizers); ++i) {
    if (i > 0) names += i + 1 == std::size(kOptimizers) ? " or " : ", ";
    names += kOptimizers[i].name;
  }
  return names;
}

bool is_optimizer_setting(std::string_view setting) {
  return std::any_of(std::begin(kOptimizers), std::end(kOptimizers),
                     [&](const Optimizer& row) { return contains(row.settings, setting); });
}

bool has_setting(OptimizerKind kind, std::string_view setting) {
  return contains(optimizer(kind).settings, setting);
}

}  // namespace mantissa
