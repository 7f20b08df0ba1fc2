#include "api/training/labels.h"

#include <algorithm>
#include <span>
#include <string>

#include "api/training/loss_sums.h"

namespace mantissa {
namespace {

Status check_classes_of(const std::string& name, std::span<const int32_t> labels) {
  const auto is_label = [](int32_t label) { return label != kIgnoredLabel; };
  const auto first = std::find_if(labels.begin(), labels.end(), is_label);
  if (labels.empty()) return {};
  if (first == labels.end()) {
    return invalid_input("'" + name + "' is -1 everywhere, which says that there is no label");
  }
  if (*first < 0) return {};  // no label of any network, which a step says
  const bool none_is_missing = std::all_of(labels.begin(), labels.end(), is_label);
  const auto is_other = [&](int32_t label) { return is_label(label) && label != *first; };
  if (none_is_missing || std::any_of(first, labels.end(), is_other)) return {};
  return invalid_input("'" + name + "' has -1 and " + std::to_string(*first) +
                       " alone: -1 says that there is no label, and one class is left; classes "
                       "are numbered 0, 1, ...");
}

}  // namespace

Status check_classes(const Graph& network, const BoundArrays& arrays) {
  for (const int n : network.losses) {
    const Node& loss = network.nodes[n];
    if (!compares_classes(network, loss) || loss.op == &ops::kCtcLoss) continue;
    const Value& labels = network.values[loss.inputs[1]];
    for (size_t i = 0; i < arrays.specs.size(); ++i) {
      if (arrays.specs[i].name != labels.name) continue;
      const auto count = static_cast<size_t>(arrays.count * labels.shape.count());
      MANTISSA_RETURN_IF_ERROR(
          check_classes_of(labels.name, {static_cast<const int32_t*>(arrays.data[i]), count}));
    }
  }
  return {};
}

}  // namespace mantissa
