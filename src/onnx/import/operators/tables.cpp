// Tables of rows: one for each token, or one for each position.
#include <optional>
#include <string>
#include <utility>

#include "onnx/import/rows.h"
#include "ops/ops.h"

namespace mantissa::onnx {
namespace {

constexpr int64_t kMostNumbers = int64_t{1} << 28;

// The constant for each number of a value as the graph has it, without the examples; an error where
// it does not broadcast to the value, or differs between examples.
Result<std::vector<double>> table_of(const ImportContext& context, const TensorData& tensor,
                                     const Imported& value) {
  MANTISSA_ASSIGN(const std::vector<double> numbers, numbers_of(tensor));
  const std::vector<int64_t> dims = value.layout.dims(), places = value.layout.places();
  const auto front = static_cast<int64_t>(dims.size() - tensor.dims.size());
  if (front < 0) return invalid_input("its constant has more dimensions than its input");
  for (size_t i = 0; i < tensor.dims.size(); ++i) {
    if (tensor.dims[i] != 1 && tensor.dims[i] != dims[front + static_cast<int64_t>(i)]) {
      return invalid_input("its constant does not have the shape of its input");
    }
  }
  const int64_t size = context.builder.shape(value.value).count(), count = value.layout.count();
  if (count > kMostNumbers) {
    return invalid_input(
        "adds a constant to more than 2^28 numbers; a model that is exported with "
        "fewer examples has fewer");
  }
  std::vector<double> table(static_cast<size_t>(size), 0.0);
  for (int64_t element = 0; element < count; ++element) {
    int64_t at = 0, step = 1, rest = element;
    for (auto i = std::ssize(dims) - 1; i >= 0; --i) {
      const int64_t place = rest % dims[i];
      rest /= dims[i];
      if (i < front) continue;
      if (tensor.dims[i - front] != 1) at += place * step;
      step *= tensor.dims[i - front];
    }
    const int64_t stored = places.empty() ? element : places[element];
    if (stored >= size && table[stored % size] != numbers[at]) {
      return invalid_input("its constant differs between examples");
    }
    table[stored % size] = numbers[at];
  }
  return table;
}

}  // namespace

Status add_table(ImportContext& context, const NodeData& node, size_t value_input,
                 const TensorData& tensor) {
  MANTISSA_ASSIGN(Imported value, plain_input(context, node, value_input));
  const Shape shape = context.builder.shape(value.value);
  if (shape.rank != 2) return invalid_input("adds a constant to something without positions");
  MANTISSA_ASSIGN(std::vector<double> table, table_of(context, tensor, value));
  const std::string name = layer_name(context, node, tensor);
  MANTISSA_ASSIGN(value.value, add_node(context, ops::kPositionEmbedding, name, {value.value},
                                        {{"positions", shape[0]}, {"least_bits", kWideBits}},
                                        {std::move(table)}));
  context.notes.push_back("the constant that " + name +
                          " adds to each position is a table, which is trained");
  define(context, node.outputs[0], std::move(value));
  return {};
}

Status add_embedding(ImportContext& context, const NodeData& node, const TensorData& table) {
  MANTISSA_ASSIGN(Imported tokens, input_of(context, node, 1));
  const Graph& graph = context.builder.graph();
  if (graph.values[tokens.value].element != Element::kIndex || table.dims.size() != 2 ||
      whole_of(node, "axis", 0) != 0) {
    return invalid_input("picks something else than rows of a matrix by tokens");
  }
  MANTISSA_ASSIGN(std::vector<double> numbers, numbers_of(table));
  const auto readers = context.readers.find(node.outputs[0]);
  std::string result = node.outputs[0];
  // If its result is multiplied by a factor, as in Vaswani et al., the table takes the factor.
  if (readers != context.readers.end() && readers->second.size() == 1) {
    if (const auto factor = factor_of(context, *readers->second[0])) {
      for (double& number : numbers) number *= factor->number;
      context.done.insert(readers->second[0]);
      result = readers->second[0]->outputs[0];
    }
  }
  MANTISSA_ASSIGN(
      tokens.value,
      add_node(context, ops::kEmbedding, layer_name(context, node, table), {tokens.value},
               {{"rows", table.dims[0]}, {"channels", table.dims[1]}}, {std::move(numbers)}));
  tokens.layout.append(table.dims[1]);
  define(context, result, std::move(tokens));
  return {};
}

}  // namespace mantissa::onnx
