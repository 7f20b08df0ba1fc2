// Losses and classes over some examples.
#pragma once

#include <algorithm>
#include <array>

#include "graph/graph.h"
#include "mantissa/training.h"
#include "ops/losses/loss_weight.h"
#include "ops/ops.h"
#include "runtime/executor.h"

namespace mantissa {

// Whether a loss compares with classes, not with numbers.
inline bool compares_classes(const Graph& graph, const Node& loss) {
  return loss.inputs.size() > 1 && graph.values[loss.inputs[1]].element == Element::kIndex;
}

// The sums of steps.
struct Sums {
  const Graph* graph;
  int64_t examples = 0, clipped = 0;
  std::array<LossTotals, kMostLosses> losses = {};

  void add(const StepResult& result) {
    examples += result.examples;
    clipped += result.saturated;
    for (size_t i = 0; i < losses.size(); ++i) losses[i] += result.losses[i];
  }

  StepReport report() const {
    StepReport report{.examples = examples, .clipped = clipped};
    report.loss_count = static_cast<int>(graph->losses.size());
    for (size_t i = 0; i < graph->losses.size(); ++i) {
      const Node& node = graph->nodes[graph->losses[i]];
      LossReport& loss = report.losses[i];
      const double weight = static_cast<double>(std::max<int64_t>(1, losses[i].weight_q10));
      loss.mean = static_cast<double>(losses[i].loss_q24) * node.op->loss_unit / weight * 0x1p10;
      report.loss += loss.mean * ops::loss_weight(node.attributes);
      loss.uncounted = losses[i].rows - losses[i].counted;
      // A distribution stands for its likeliest class.
      if (compares_classes(*graph, node) || node.op == &ops::kSoftCrossEntropy) {
        loss.accuracy = static_cast<double>(losses[i].correct) /
                        static_cast<double>(std::max<int64_t>(1, losses[i].counted));
      }
    }
    return report;
  }
};

}  // namespace mantissa
