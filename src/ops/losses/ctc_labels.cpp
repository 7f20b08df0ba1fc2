#include <algorithm>
#include <string>

#include "ops/losses/ctc.h"

namespace mantissa::ops {
namespace {

// Without the padding behind them.
std::span<const int32_t> known_labels(const int32_t* labels, int64_t most) {
  const int32_t* const end = std::find_if(labels, labels + most, [](int32_t l) { return l < 0; });
  return {labels, end};
}

}  // namespace

int64_t CtcStates::least_positions() const {
  int64_t repeated = 0;
  for (size_t i = 1; i < labels.size(); ++i) repeated += labels[i] == labels[i - 1];
  return std::ssize(labels) + repeated;
}

CtcExample ctc_example(const OpContext& c, int64_t n) {
  const int64_t most = c.inputs[1].shape.last();
  const bool has_lengths = c.inputs.size() > 2;
  return {{known_labels(c.inputs[1].as<int32_t>() + n * most, most),
           c.attributes<CtcAttributes>().blank},
          has_lengths ? c.inputs[2].as<int32_t>()[n] : c.inputs[0].shape[1]};
}

Status check_ctc_example(const Graph& graph, const Node& loss, const int32_t* labels,
                         int64_t positions) {
  const Shape& logits = graph.values[loss.inputs[0]].shape;
  const int64_t most = graph.values[loss.inputs[1]].shape.last(), classes = logits.last();
  const int32_t blank = loss.attributes.as<CtcAttributes>().blank;
  const CtcStates states{known_labels(labels, most), blank};
  for (int64_t i = 0; i < most; ++i) {
    const int32_t label = labels[i];
    if (i < std::ssize(states.labels) ? label < classes && label != blank : label == -1) continue;
    if (i >= std::ssize(states.labels)) {
      return invalid_input("has the label " + std::to_string(label) +
                           " behind -1, which ends them");
    }
    return invalid_input("has the label " + std::to_string(label) + ": labels are from 0 to " +
                         std::to_string(classes - 1) + ", without the blank " +
                         std::to_string(blank));
  }
  if (positions < 1 || positions > logits[0]) {
    return invalid_input("has the length " + std::to_string(positions) + ", and the logits have " +
                         std::to_string(logits[0]) + " positions");
  }
  const int64_t least = states.least_positions();
  if (least <= positions) return {};
  return invalid_input("has " + std::to_string(states.labels.size()) + " labels, which take " +
                       std::to_string(least) + " positions with a blank between equal ones, and " +
                       "only " + std::to_string(positions) + " are there");
}

Status check_ctc_labels(const Graph& graph, const Node& loss, const int32_t* labels,
                        const int32_t* lengths, int64_t examples) {
  const Value& value = graph.values[loss.inputs[1]];
  const int64_t most = value.shape.last(), all = graph.values[loss.inputs[0]].shape[0];
  for (int64_t n = 0; labels != nullptr && n < examples; ++n) {
    const Status fits =
        check_ctc_example(graph, loss, labels + n * most, lengths != nullptr ? lengths[n] : all);
    if (fits.ok()) continue;
    return invalid_input("'" + value.name + "', example " + std::to_string(n) +
                         " of a batch: " + fits.error().message);
  }
  return {};
}

}  // namespace mantissa::ops
