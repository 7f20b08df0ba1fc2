// The losses by name, and networks with them.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "numerics/nearest_fraction.h"
#include "ops/attributes.h"
#include "ops/loss.h"
#include "ops/losses/dice.h"
#include "ops/losses/example_losses.h"
#include "ops/losses/loss_weight.h"
#include "ops/losses/named_loss.h"
#include "ops/ops.h"
#include "tensor/table_numbers.h"

namespace mantissa::ops {
namespace {

constexpr Loss kLosses[] = {{LossKind::kCrossEntropy, "cross-entropy", &kSoftmaxCrossEntropy, true},
                            {LossKind::kSquaredError, "mse", &kMeanSquaredError, false},
                            {LossKind::kSigmoids, "sigmoid", &kSigmoidCrossEntropy, true},
                            {LossKind::kOrdinal, "ordinal", &kSigmoidCrossEntropy, true},
                            {LossKind::kDice, "dice", &kDiceLoss, false},
                            {LossKind::kDiceCrossEntropy, "dice-cross-entropy", &kDiceLoss, false},
                            {LossKind::kCtc, "ctc", &kCtcLoss, false},
                            {LossKind::kRegression, "regression", &kRegressionError, false},
                            {LossKind::kAbsolute, "l1", &kRegressionError, false},
                            {LossKind::kHuber, "huber", &kRegressionError, false}};

Penalty penalty_of(LossKind kind) {
  if (kind == LossKind::kAbsolute) return Penalty::kAbsolute;
  return kind == LossKind::kHuber ? Penalty::kHuber : Penalty::kSquared;
}

// The attributes of a loss's node.
Attributes attributes_of_loss(const LossOptions& options) {
  switch (options.kind) {
    case LossKind::kCrossEntropy:
      return {{"smoothing", options.smoothing}};
    case LossKind::kSigmoids:
      return {{"smoothing", options.smoothing},
              {"focal", options.focal},
              {"positive_weights", options.positive_weights}};
    case LossKind::kOrdinal:
      return {{"smoothing", options.smoothing},
              {"focal", options.focal},
              {"positive_weights", options.positive_weights},
              {"ordinal", int64_t{1}}};
    case LossKind::kDiceCrossEntropy:
      return {{"cross_entropy", 1.0}};
    case LossKind::kAbsolute:
      return {{"penalty", "absolute"}};
    case LossKind::kHuber:
      return {{"penalty", "huber"}, {"delta", options.delta}};
    case LossKind::kSquaredError:
    case LossKind::kDice:
    case LossKind::kCtc:
    case LossKind::kRegression:
      break;
  }
  return {};
}

}  // namespace

int64_t loss_in_q24(double unit, int64_t loss_q24) {
  return static_cast<int64_t>(std::nearbyint(std::ldexp(unit, 24) * static_cast<double>(loss_q24)));
}

namespace {

// The place of the factor; the end: the loss takes none.
template <typename Items>
auto find_loss_weight(Items& items) {
  return std::find_if(items.begin(), items.end(), [](const AttributeItem& item) {
    return item.first == kLossWeightName;
  });
}

}  // namespace

int64_t loss_weight_q10(const Attributes& attributes) {
  const auto found = find_loss_weight(attributes.items());
  if (found == attributes.items().end()) return kLossWeightOne;
  return nearest_whole(std::get<double>(found->second), kLossWeightOne);
}

double counted_unit(const Node& loss) {
  return loss.op->loss_unit * loss_weight(loss.attributes);
}

Status set_loss_weight(Graph& graph, const std::string& compared, double weight) {
  for (const int n : graph.losses) {
    Node& loss = graph.nodes[n];
    if (loss.inputs.size() < 2 || graph.values[loss.inputs[1]].name != compared) continue;
    std::vector<AttributeItem> items = loss.attributes.items();
    const auto item = find_loss_weight(items);
    if (item == items.end()) {
      return invalid_input("the loss of '" + compared + "', " + loss.op->name +
                           ", takes no weight among several; softmax_cross_entropy, " +
                           "sigmoid_cross_entropy, mean_squared_error and regression_error do");
    }
    item->second = weight;
    MANTISSA_ASSIGN(loss.attributes, complete(Attributes(std::move(items)), loss.op->attributes));
    return {};
  }
  return invalid_input("no loss is compared with '" + compared + "'");
}

Shape rows_shape(const Shape& logits) { return labels_shape(logits, false); }

Shape labels_shape(const Shape& logits, bool by_output) {
  Shape shape = logits;
  if (by_output || shape.rank == 0) return shape;
  shape.dims[static_cast<size_t>(--shape.rank)] = 1;
  return shape;
}

void count_rows(const kernels::RowWeights& weights, int64_t rows, LossTotals& totals) {
  totals.rows += rows;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t factor = weights.factor(row);
    totals.counted += factor > 0;
    totals.weight_q10 += factor << (kernels::kRowWeightBits - weights.bits());
  }
}

const Loss& loss_of(LossKind kind) { return kLosses[static_cast<size_t>(kind)]; }

const Loss* loss_of_node(const Node& node) {
  const auto found = std::find_if(std::begin(kLosses), std::end(kLosses), [&](const Loss& loss) {
    if (loss.op != node.op) return false;
    if (loss.op == &kSigmoidCrossEntropy) return is_ordinal(node) == (loss.kind == LossKind::kOrdinal);
    if (loss.op == &kDiceLoss) {
      const bool is_sum = node.attributes.as<DiceAttributes>().cross_entropy_q16 > 0;
      return is_sum == (loss.kind == LossKind::kDiceCrossEntropy);
    }
    if (!is_for_numbers(loss.kind)) return true;
    const auto& own = node.attributes.as<RegressionAttributes>();
    return own.penalty == penalty_of(loss.kind);
  });
  return found == std::end(kLosses) ? nullptr : &*found;
}

void add_loss(GraphBuilder& builder, int value, const LossOptions& options,
              const std::string& targets, const std::string& name) {
  const Shape shape = builder.shape(value);
  const int compared =
      is_for_numbers(options.kind)
          ? builder.add_numbers(targets, shape, kTargetExponent)
          : builder.add_input(targets, labels_shape(shape, options.by_output), Element::kIndex);
  builder.add_loss(*loss_of(options.kind).op, name, {value, compared},
                   attributes_of_loss(options));
}

Result<Graph> with_loss(Graph graph, const LossOptions& options) {
  const std::vector<int> results = graph.outputs;
  GraphBuilder builder(std::move(graph));
  add_loss(builder, results[0], options, is_for_numbers(options.kind) ? "targets" : "labels",
           "loss");
  return builder.finish(results);
}

Result<Graph> with_loss(Graph graph, LossKind kind, double smoothing, bool by_output) {
  return with_loss(std::move(graph),
                   {.kind = kind, .smoothing = smoothing, .by_output = by_output});
}

bool is_ordinal(const Node& loss) {
  return loss.op == &kSigmoidCrossEntropy && loss.attributes.as<SigmoidLossAttributes>().ordinal;
}

bool compares_examples(const Node& loss) {
  return loss.op == &kContrastiveLoss || loss.op == &kTripletLoss;
}

int64_t rows_of_example(const Graph& graph, const Node& loss) {
  const Shape& logits = graph.values[loss.inputs[0]].shape;
  return loss.op == &kCtcLoss ? 1 : logits.count() / logits.last();
}

size_t weights_input(const Node& loss) {
  return loss.op == &kDistilledCrossEntropy || loss.op == &kCtcLoss ? 3 : 2;
}

// Its factor in the sum of several losses stays.
void take_plain_loss(Node& loss) {
  if (loss.op == &kDistilledCrossEntropy) {
    loss.inputs.resize(2);
    replace_op(loss, kSoftmaxCrossEntropy);
    return;
  }
  loss.inputs.resize(std::min(loss.inputs.size(), weights_input(loss)));
  const AttributeItem factor = {kLossWeightName, loss_weight(loss.attributes)};
  if (loss.op == &kMeanSquaredError) replace_op(loss, kMeanSquaredError, {factor});
  const bool has_classes = loss.op == &kSoftmaxCrossEntropy || loss.op == &kDiceLoss;
  if (has_classes) replace_op(loss, kSoftmaxCrossEntropy, {factor});
  if (loss.op == &kSigmoidCrossEntropy) {
    replace_op(loss, kSigmoidCrossEntropy, {factor, {"ordinal", int64_t{is_ordinal(loss)}}});
  }
}

namespace {

// Adds an input of numbers of 16 bits to a graph that has its losses; returns its value.
int add_numbers_of_loss(Graph& graph, const char* name, const Shape& shape, int exponent) {
  Value value;
  value.name = name;
  value.shape = shape;
  value.element = Element::kNumber;
  value.type = DataType::kInt16;
  value.exponent = exponent;
  graph.inputs.push_back(static_cast<int>(graph.values.size()));
  graph.values.push_back(std::move(value));
  return graph.inputs.back();
}

}  // namespace

Status add_teacher(Graph& graph, double teacher_weight, double temperature) {
  const bool has_one = graph.losses.size() == 1;
  Node* const loss = has_one ? &graph.nodes[graph.losses[0]] : nullptr;
  if (!has_one || loss->op != &kSoftmaxCrossEntropy || loss->inputs.size() != 2) {
    return invalid_input("teacher: goes with --loss cross-entropy only");
  }
  if (loss->attributes.as<LossAttributes>().smoothing_q16 != 0) {
    return invalid_input("teacher: its probabilities are smooth targets; leave label-smoothing out");
  }
  const Shape shape = graph.values[loss->inputs[0]].shape;
  loss->inputs.push_back(add_numbers_of_loss(graph, kTeacherTensor, shape, kShareExponent));
  replace_op(*loss, kDistilledCrossEntropy,
             {{"temperature", temperature}, {"teacher_weight", teacher_weight}});
  return {};
}

Status add_row_weights(Graph& graph) {
  if (graph.losses.empty()) return invalid_input("the network has no loss to give weights to");
  const Node& loss = graph.nodes[graph.losses[0]];
  std::vector<int>& inputs = graph.nodes[graph.losses[0]].inputs;
  if (inputs.size() > weights_input(loss)) return invalid_input("the network's loss has weights of its own");
  const Shape rows = rows_shape(graph.values[inputs[0]].shape);
  inputs.push_back(add_numbers_of_loss(graph, "weights", rows, kWeightExponent));
  return {};
}

namespace {

// Losses that people look for here, and where they are instead.
struct Elsewhere {
  const char* name;
  const char* where;
};
constexpr Elsewhere kElsewhere[] = {
    {"ctc",
     "has the most labels of an example, which a network says itself: the node ctc_loss in JSON, "
     "Python or C++, with labels [N, most] in an NPZ file (docs/data.md)"},
    {"contrastive",
     "is for vectors, which no data set of a run has: a network of Python, C++ or JSON has the "
     "node contrastive_loss"},
    {"triplet",
     "is for vectors, which no data set of a run has: a network of Python, C++ or JSON has the "
     "node triplet_loss"}};

}  // namespace

Result<LossKind> parse_loss(std::string_view name) {
  for (const Elsewhere& each : kElsewhere) {
    if (name != each.name) continue;
    return invalid_input("'" + std::string(name) + "' " + each.where);
  }
  std::string names;
  for (const Loss& loss : kLosses) {
    if (loss.kind == LossKind::kRegression || loss.kind == LossKind::kCtc) continue;
    if (name == loss.name) return loss.kind;
    names += (names.empty() ? "" : ", ") + std::string(loss.name);
  }
  return invalid_input("unknown loss '" + std::string(name) + "'; choose one of " + names);
}

}  // namespace mantissa::ops
