// The losses: one line each, chosen by name.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"
#include "graph/op.h"
#include "kernels/common/row_weights.h"

namespace mantissa::ops {

// The last three are for numbers in the batch, with the square of errors, their magnitude, and
// Huber's penalty; the others are for labels.
enum class LossKind {
  kCrossEntropy,
  kSquaredError,
  kSigmoids,
  kOrdinal,           // sigmoids of ranks: classes in an order have one logit less
  kDice,              // of networks that give a class to each place of an example
  kDiceCrossEntropy,  // the sum of both
  kCtc,               // of networks that spell labels without places
  kRegression,
  kAbsolute,
  kHuber
};

constexpr bool is_for_numbers(LossKind kind) { return kind >= LossKind::kRegression; }

struct Loss {
  LossKind kind;
  const char* name;  // of --loss, which chooses among those for labels
  const Op* op;
  bool smooths;  // takes label smoothing
};

const Loss& loss_of(LossKind kind);
// The loss that a node computes, or null.
const Loss* loss_of_node(const Node& node);
Result<LossKind> parse_loss(std::string_view name);

// The ranges of a loss's numbers.
constexpr double kMostFocal = 5;
constexpr double kLeastDelta = 1.0 / 1024, kMostDelta = 1024;
constexpr double kMostTemperature = 100;
constexpr int64_t kMostRowWeight = 32767;  // in units of 2^-10

struct LossOptions {
  LossKind kind = LossKind::kCrossEntropy;
  double smoothing = 0;
  double focal = 0;                             // of sigmoids
  std::vector<int64_t> positive_weights = {};   // of sigmoids, in units of 2^-10
  double delta = 1;                             // of Huber's penalty
  bool by_output = false;                       // of sigmoids: a label for each output
};

// The graph with an input of labels or targets, and a loss between it and the graph's first result.
// Labels: one for each row of the first result [..., classes]; with by_output one for each number
// of it. Targets (tensor/table_numbers.h): if the loss is for numbers.
Result<Graph> with_loss(Graph graph, const LossOptions& options);
Result<Graph> with_loss(Graph graph, LossKind kind, double smoothing, bool by_output = false);

// The sum of losses that a step or an evaluation counted, in the loss's unit.
inline double loss_value(LossKind kind, int64_t loss_q24) {
  return static_cast<double>(loss_q24) * loss_of(kind).op->loss_unit;
}

// The same of a loss of some unit, in units of 2^-24, to nearest: sums of several losses are counted
// in these.
int64_t loss_in_q24(double unit, int64_t loss_q24);

// The shape of labels: one for each row of logits [..., classes].
Shape rows_shape(const Shape& logits);
// The same; with by_output a label for each logit.
Shape labels_shape(const Shape& logits, bool by_output);

// Whether the labels of a loss are ranks: a label r is the target 1 of the first r outputs.
bool is_ordinal(const Node& loss);

// The place of a loss's weights of rows among its inputs.
size_t weights_input(const Node& loss);

// Replaces a loss by the one that frozen networks are measured with: without weights, smoothing, a
// focal factor and a teacher, which are of training.
void take_plain_loss(Node& loss);

// Replaces the one loss, a softmax_cross_entropy without smoothing, by distilled_cross_entropy,
// whose soft targets are the input kTeacherTensor.
Status add_teacher(Graph& graph, double teacher_weight, double temperature);
inline constexpr const char* kTeacherTensor = "teacher";

// Gives the first loss an input of weights, one for each row: "weights", numbers at
// kWeightExponent. Fails if the loss has one.
Status add_row_weights(Graph& graph);

// Adds the rows that a loss counts.
void count_rows(const kernels::RowWeights& weights, int64_t rows, LossTotals& totals);

// Label smoothing is kept as a whole number of 2^-16.
constexpr int64_t kSmoothingOne = int64_t{1} << 16;

}  // namespace mantissa::ops
