// The factor of a loss in the sum of several. It multiplies gradients in training; the loss that is
// counted stays.
#pragma once

#include <bit>
#include <cstdint>
#include <string>

#include "graph/graph.h"
#include "kernels/common/row_weights.h"
#include "ops/loss.h"

namespace mantissa::ops {

constexpr int64_t kLossWeightOne = int64_t{1} << kernels::kRowWeightBits;
constexpr double kLeastLossWeight = 1.0 / kLossWeightOne;
constexpr double kMostLossWeight = static_cast<double>(kMostRowWeight) / kLossWeightOne;
inline constexpr const char* kLossWeightName = "loss_weight";

// The attribute in the schema of a loss whose struct is T. loss_weight_q10 reads it.
template <typename T>
consteval AttributeSpec loss_weight_spec() {
  return {.name = kLossWeightName,
          .type = AttributeType::kReal,
          .real = 1,
          .least = kLeastLossWeight,
          .most = kMostLossWeight,
          .set = [](void*, const AttributeSpec&, const AttributeValue&) {},
          .type_tag = &kTypeTag<T>};
}

// The factor in units of 2^-10: kLossWeightOne of losses that take none.
int64_t loss_weight_q10(const Attributes& attributes);

// Gives the loss that is compared with the input of this name a factor. Errors: there is no such
// loss, it takes no factor, or the factor is out of range.
Status set_loss_weight(Graph& graph, const std::string& compared, double weight);

// The unit in which a loss is counted among others: its own, times its factor.
double counted_unit(const Node& loss);

inline double loss_weight(const Attributes& attributes) {
  return static_cast<double>(loss_weight_q10(attributes)) / kLossWeightOne;
}

inline bool is_power_of_two(int64_t loss_weight) {
  return std::has_single_bit(static_cast<uint64_t>(loss_weight));
}

}  // namespace mantissa::ops
