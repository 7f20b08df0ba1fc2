// Networks of sequences: tokens or numbers in, logits for each position or for all of them out.
#include <algorithm>
#include <utility>

#include "onnx/import/form.h"
#include "onnx/import/sequences/rows.h"
#include "ops/loss.h"
#include "ops/ops.h"
#include "tensor/table_numbers.h"

namespace mantissa::onnx {
namespace {

// A function of each number, of a value without a pending factor.
template <ImportFunction kImport>
Status import_function(ImportContext& context, const NodeData& node) {
  MANTISSA_ASSIGN(const Imported value, plain_input(context, node, 0));
  static_cast<void>(value);
  return kImport(context, node);
}

constexpr ImportRow kSequenceRows[] = {
    {"Add", import_rows_add},
    {"Cast", import_rows_cast},
    {"Clip", import_function<import_clip>},
    {"Concat", import_rows_concat},
    {"Div", import_rows_divide},
    {"Dropout", import_rows_dropout},
    {"Flatten", import_rows_reshape},
    {"GRU", import_gru},
    {"Gather", import_rows_gather},
    {"Gelu", import_rows_gelu},
    {"Gemm", import_rows_gemm},
    {"HardSwish", import_function<import_hard_swish>},
    {"Identity", import_identity},
    {"IsNaN", import_is_nan},
    {"LSTM", import_lstm},
    {"LayerNormalization", import_rows_norm},
    {"LeakyRelu", import_function<import_leaky_relu>},
    {"MatMul", import_rows_matmul},
    {"Mul", import_rows_multiply},
    {"PRelu", import_function<import_prelu>},
    {"RMSNormalization", import_rows_norm},
    {"RNN", import_rnn},
    {"ReduceMean", import_rows_mean},
    {"Relu", import_function<import_relu>},
    {"Reshape", import_rows_reshape},
    {"Sigmoid", import_function<import_sigmoid>},
    {"Slice", import_rows_slice},
    {"Softmax", import_softmax},
    {"Split", import_rows_split},
    {"Squeeze", import_rows_reshape},
    {"Tanh", import_function<import_tanh>},
    {"Transpose", import_rows_transpose},
    {"Unsqueeze", import_rows_reshape},
    {"Where", import_where},
};

bool is_whole(ElementType type) {
  return type == ElementType::kInt64 || type == ElementType::kInt32;
}

constexpr int64_t kLongest = 1 << 20;

// Sizes of an input, with the chosen sizes for open ones; an error if one is not known.
Result<std::vector<int64_t>> sizes_of(const ValueData& input) {
  std::vector<int64_t> sizes;
  for (const Dimension& dimension : input.dims) sizes.push_back(dimension.size);
  const bool is_known = std::all_of(sizes.begin(), sizes.end(),
                                    [](int64_t size) { return size > 0 && size <= kLongest; });
  if (is_known) return sizes;
  return invalid_input("the input '" + readable(input.name) + "' is " + dims_text(input.dims) +
                       "; --sequence says how many positions a sequence has where the model "
                       "leaves that open");
}

// Whether it says which of two texts each token belongs to, [N, T], like BERT's token_type_ids.
bool is_segments(const ValueData& input) {
  return is_whole(input.type) && input.dims.size() == 2 &&
         input.name.find("token_type") != std::string::npos;
}

Status add_sequence(ImportContext& context, const ValueData& input) {
  MANTISSA_ASSIGN(std::vector<int64_t> sizes, sizes_of(input));
  const int axis = context.batch_axis;
  context.batch = sizes[axis];
  if (axis == 1) std::swap(sizes[0], sizes[1]);
  Imported value{-1, Layout::of(sizes), {}};
  if (axis == 1) {
    std::vector<int> order = {1, 0, 2};
    order.resize(sizes.size());
    value.layout.transpose(order);
  }
  if (is_whole(input.type)) {
    value.value = context.builder.add_input(is_segments(input) ? "segments" : "tokens",
                                            Shape{sizes[1]}, Element::kIndex);
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

Status add_inputs(ImportContext& context, std::span<const ValueData* const> inputs) {
  const auto count = [&](bool (*is)(const ValueData&)) {
    return std::count_if(inputs.begin(), inputs.end(),
                         [&](const ValueData* input) { return is(*input); });
  };
  const auto segments = count(is_segments), lengths = count(is_lengths);
  const auto sequences = count(is_sequence) - segments;
  if (sequences != 1 || segments > 1 || lengths > 1 ||
      std::ssize(inputs) != sequences + segments + lengths) {
    return other_inputs(inputs);
  }
  context.builder = GraphBuilder(new_name(context, graph_name(*context.model)));
  context.names = {"tokens", "segments", "numbers", "lengths", "labels", "loss", "input"};
  for (const ValueData* input : inputs) {
    if (is_sequence(*input)) MANTISSA_RETURN_IF_ERROR(add_sequence(context, *input));
  }
  for (const ValueData* input : inputs) {
    if (is_sequence(*input)) continue;
    if (input->dims[0].size != context.batch) return other_inputs(inputs);
    const int value = context.builder.add_input("lengths", Shape{}, Element::kIndex);
    define(context, input->name, {value, Layout::of(std::vector{context.batch}), {}});
  }
  return {};
}

const ImportRow* find(std::string_view op_type) {
  const auto* found = std::find_if(std::begin(kSequenceRows), std::end(kSequenceRows),
                                   [&](const ImportRow& row) { return row.op_type == op_type; });
  return found == std::end(kSequenceRows) ? nullptr : found;
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
  const ops::LossKind loss = context.loss.value_or(ops::LossKind::kCrossEntropy);
  if (*channels < 2 && loss != ops::LossKind::kSigmoids)
    return invalid_input("the output '" + readable(result) + "' has one channel");
  MANTISSA_ASSIGN(const int value, made_by_layer(context, found->second.value));
  MANTISSA_ASSIGN(Graph graph, finished(context, value));
  const bool by_output = loss == ops::LossKind::kSigmoids && *channels > 1;
  return ops::with_loss(std::move(graph), loss, 0, by_output);
}

}  // namespace

const ImportForm kSequences = {
    .add_inputs = add_inputs,
    .find_row = find,
    .reason_against = reason,
    .finish = finish,
};

bool is_sequence(const ValueData& input) {
  const bool is_real = input.type == ElementType::kFloat;
  return (is_whole(input.type) && input.dims.size() == 2) || (is_real && input.dims.size() == 3);
}

bool is_lengths(const ValueData& input) { return is_whole(input.type) && input.dims.size() == 1; }

void choose_sequence_size(const ImportOptions& options, int batch_axis, ValueData& input) {
  // With two examples, nodes that mix examples are noticed.
  constexpr int64_t kExamples = 2;
  const bool is_one = is_lengths(input);
  Dimension& batch = input.dims[is_one ? 0 : batch_axis];
  if (batch.size < 1) batch = {kExamples, ""};
  if (is_one) return;
  Dimension& positions = input.dims[1 - batch_axis];
  if (positions.size < 1 && options.sequence > 0) positions = {options.sequence, ""};
}

}  // namespace mantissa::onnx
