// Networks of sequences: tokens or numbers in, logits for each position or for all of them out.
#include <algorithm>
#include <utility>

#include "onnx/import_form.h"
#include "onnx/import_rows.h"
#include "ops/loss.h"
#include "ops/ops.h"
#include "tensor/table_numbers.h"

namespace mantissa::onnx {
namespace {

constexpr ImportRow kRows[] = {
    {"Add", import_rows_add},
    {"Cast", import_rows_cast},
    {"Clip", import_clip},
    {"Div", import_rows_divide},
    {"Dropout", import_rows_dropout},
    {"Flatten", import_rows_reshape},
    {"GRU", import_gru},
    {"Gather", import_rows_gather},
    {"Gelu", import_rows_gelu},
    {"Gemm", import_rows_gemm},
    {"HardSigmoid", import_hard_sigmoid},
    {"HardSwish", import_hard_swish},
    {"Identity", import_identity},
    {"LSTM", import_lstm},
    {"LayerNormalization", import_rows_norm},
    {"LeakyRelu", import_leaky_relu},
    {"MatMul", import_rows_matmul},
    {"Mul", import_rows_multiply},
    {"RNN", import_rnn},
    {"ReduceMean", import_rows_mean},
    {"Relu", import_relu},
    {"Reshape", import_rows_reshape},
    {"Sigmoid", import_sigmoid},
    {"Slice", import_rows_slice},
    {"Softmax", import_softmax},
    {"Split", import_rows_split},
    {"Squeeze", import_rows_reshape},
    {"Tanh", import_tanh},
    {"Transpose", import_rows_transpose},
    {"Unsqueeze", import_rows_reshape},
    {"Where", import_where},
};

bool is_whole(ElementType type) {
  return type == ElementType::kInt64 || type == ElementType::kInt32;
}

constexpr int64_t kLongest = 1 << 20;

Status add_input(ImportContext& context, const ValueData& input) {
  std::vector<int64_t> sizes;
  for (const Dimension& dimension : input.dims) sizes.push_back(dimension.size);
  const bool is_known = std::all_of(sizes.begin(), sizes.end(),
                                    [](int64_t size) { return size > 0 && size <= kLongest; });
  if (!is_known) {
    return invalid_input("the input '" + readable(input.name) + "' is " + dims_text(input.dims) +
                         "; --sequence says how many positions a sequence has where the model "
                         "leaves that open");
  }
  const int axis = context.batch_axis;
  context.batch = sizes[axis];
  if (axis == 1) std::swap(sizes[0], sizes[1]);
  Imported value{-1, Layout::of(sizes), {}};
  if (axis == 1) {
    std::vector<int> order = {1, 0, 2};
    order.resize(sizes.size());
    value.layout.transpose(order);
  }
  context.builder = GraphBuilder(new_name(context, graph_name(*context.model)));
  context.names = {"tokens", "numbers", "labels", "loss", "input"};
  if (is_whole(input.type)) {
    value.value = context.builder.add_input("tokens", Shape{sizes[1]}, Element::kIndex);
    define(context, input.name, std::move(value));
    return {};
  }
  const int numbers =
      context.builder.add_numbers("numbers", Shape{sizes[1], sizes[2]}, kFeatureExponent);
  MANTISSA_ASSIGN(value.value,
                  add_node(context, ops::kQuantiseInput, new_name(context, "quantise"), {numbers}));
  context.notes.emplace_back(
      "numbers enter as whole multiples of 1/4096, from -8 to 8: they should be standardised");
  define(context, input.name, std::move(value));
  return {};
}

const ImportRow* find(std::string_view op_type) {
  const auto* found = std::find_if(std::begin(kRows), std::end(kRows),
                                   [&](const ImportRow& row) { return row.op_type == op_type; });
  return found == std::end(kRows) ? nullptr : found;
}

std::string reason(std::string_view op_type) {
  if (find_row(op_type) == nullptr) return reason_against(op_type);
  return "this operator can be imported in networks of pictures only";
}

Result<Graph> finish(ImportContext& context, const std::string& result) {
  const auto found = context.values.find(result);
  if (found == context.values.end() || context.scores.contains(result)) {
    return invalid_input("the output '" + readable(result) +
                         "' is nothing that the graph computes");
  }
  const Result<int64_t> channels = channels_of(context, found->second);
  if (!channels.ok() || !found->second.scale.empty()) {
    return invalid_input("the output '" + readable(result) +
                         "' has its channels not in its last dimension, or a factor behind them");
  }
  if (*channels < 2) return invalid_input("the output '" + readable(result) + "' has one channel");
  MANTISSA_ASSIGN(const int value, made_by_layer(context, found->second.value));
  MANTISSA_ASSIGN(Graph graph, context.builder.finish(value));
  return ops::with_loss(std::move(graph), ops::LossKind::kCrossEntropy, 0);
}

}  // namespace

const ImportForm kSequences = {
    .add_input = add_input,
    .find_row = find,
    .reason_against = reason,
    .finish = finish,
};

bool is_sequence(const ValueData& input) {
  const bool is_real = input.type == ElementType::kFloat;
  return (is_whole(input.type) && input.dims.size() == 2) || (is_real && input.dims.size() == 3);
}

void choose_sequence_size(const ImportOptions& options, int batch_axis, ValueData& input) {
  // Of two examples what mixes them is seen.
  constexpr int64_t kExamples = 2;
  Dimension &batch = input.dims[batch_axis], &positions = input.dims[1 - batch_axis];
  if (batch.size < 1) batch = {kExamples, ""};
  if (positions.size < 1 && options.sequence > 0) positions = {options.sequence, ""};
}

}  // namespace mantissa::onnx
