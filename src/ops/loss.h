// The losses: one line each, chosen by name.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "graph/graph.h"
#include "graph/op.h"
#include "kernels/common/row_weights.h"

namespace mantissa::ops {

// The last is for numbers in the batch, the others are for labels.
enum class LossKind { kCrossEntropy, kSquaredError, kSigmoids, kRegression };

struct Loss {
  LossKind kind;
  const char* name;  // of --loss, which chooses among those for labels
  const Op* op;
  bool smooths;  // takes label smoothing
};

const Loss& loss_of(LossKind kind);
Result<LossKind> parse_loss(std::string_view name);

// The graph with an input of labels or targets, and a loss between it and the graph's first result.
// Labels: one for each row of the first result [..., classes]; with by_output one for each number
// of it (kSigmoids). Targets (tensor/table_numbers.h): if the loss is for numbers.
Result<Graph> with_loss(Graph graph, LossKind kind, double smoothing, bool by_output = false);

// The sum of losses that a step or an evaluation counted, in the loss's unit.
inline double loss_value(LossKind kind, int64_t loss_q24) {
  return static_cast<double>(loss_q24) * loss_of(kind).op->loss_unit;
}

// The shape of labels: one for each row of logits [..., classes].
Shape rows_shape(const Shape& logits);
// The same; with by_output a label for each logit.
Shape labels_shape(const Shape& logits, bool by_output);

// Gives the first loss an input of weights, one for each row: "weights", numbers at
// kWeightExponent. Fails if the loss has one.
Status add_row_weights(Graph& graph);

// Adds the rows that a loss counts.
void count_rows(const kernels::RowWeights& weights, int64_t rows, LossTotals& totals);

// Label smoothing is kept as a whole number of 2^-16.
constexpr int64_t kSmoothingOne = int64_t{1} << 16;

}  // namespace mantissa::ops
