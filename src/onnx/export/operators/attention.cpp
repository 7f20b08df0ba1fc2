// Attention of several heads: MatMul, Softmax, MatMul in float. Masks of padding and of the future
// are numbers that are added to the scores.
#include <cmath>
#include <limits>

#include "kernels/attention/attention.h"
#include "onnx/export/operators.h"
#include "onnx/export/parameters.h"
#include "onnx/export/rows.h"
#include "ops/sequences/segments.h"
#include "ops/attributes.h"

namespace mantissa::onnx {
namespace {

// Added if a key is not seen. No infinity: a sequence of padding alone has no maximum then.
std::string unseen(ExportBuilder& to) {
  return to.scalar(std::numeric_limits<float>::lowest(), "attention/unseen");
}

// The mask of padding as numbers to add, [batch, 1, 1, sequence]: 0, or the number of `unseen`.
std::string padding_mask(ExportBuilder& to, const std::string& mask) {
  const std::string name = mask + "/keys";
  if (to.makes(name)) return name;
  const std::string numbers = to.add("Mul", mask + "/numbers", {padding(to, mask), unseen(to)});
  return to.add("Unsqueeze", name, {numbers, to.list("attention/heads_and_queries", {1, 2})});
}

// The same by the order of positions, [sequence, sequence], queries first.
std::string causal_mask(ExportContext& context, Side side, int64_t length) {
  ExportBuilder& to = context.builder;
  const std::string keys = positions(context, side, length), name = keys + "/causal";
  if (to.makes(name)) return name;
  const std::string queries =
      to.add("Unsqueeze", keys + "/queries", {keys, to.list("attention/column", {1})});
  const std::string later = to.add("Greater", keys + "/later", {keys, queries});
  const std::string numbers = to.cast(keys + "/later_numbers", later, ElementType::kFloat);
  return to.add("Mul", name, {numbers, unseen(to)});
}

// [batch, sequence, channels] as heads, with its dimensions in this order:
// 0 batch, 1 sequence, 2 heads, 3 channels of a head.
std::string heads_of(ExportContext& context, const Node& node, size_t input,
                     std::vector<int64_t> order) {
  ExportBuilder& to = context.builder;
  const auto& attributes = node.attributes.as<ops::AttentionAttributes>();
  const int64_t heads = input == 0 ? attributes.heads : attributes.key_heads();
  const int64_t channels = context.shape(node.inputs[input]).last() / heads;
  const std::string name = node.name + "/" + std::to_string(input);
  std::string split =
      to.add("Reshape", name + "/split",
             {context.input(node, input).name, to.list(name + "/shape", {0, 0, heads, channels})});
  if (heads != attributes.heads) {
    // Each for several heads of queries, one after the other.
    std::vector<int64_t> readers;
    for (int64_t i = 0; i < attributes.heads; ++i) {
      readers.push_back(i / (attributes.heads / heads));
    }
    split = to.add("Gather", name + "/shared", {split, to.list(name + "/readers", readers)},
                   {{"axis", int64_t{2}}});
  }
  return to.add("Transpose", name, {split}, {ints("perm", std::move(order))});
}

// The same for keys too far from a query, on both sides: [sequence, sequence].
std::string window_mask(ExportContext& context, Side side, int64_t length, int64_t window) {
  ExportBuilder& to = context.builder;
  const std::string keys = positions(context, side, length);
  const std::string name = keys + "/window_" + std::to_string(window);
  if (to.makes(name)) return name;
  const std::string queries =
      to.add("Unsqueeze", name + "/queries", {keys, to.list("attention/column", {1})});
  const std::string distances =
      to.add("Abs", name + "/distances", {to.add("Sub", name + "/steps", {keys, queries})});
  const std::string most =
      to.numbers<int64_t>(name + "/most", ElementType::kInt64, {}, {window - 1});
  const std::string far = to.add("Greater", name + "/far", {distances, most});
  return to.add("Mul", name, {to.cast(name + "/numbers", far, ElementType::kFloat), unseen(to)});
}

// The biases by distance, [heads, sequence, sequence], queries first. A position has a number, and
// the difference of two numbers says which bias their distance has.
std::string distance_biases(ExportContext& context, const Node& node, int64_t length) {
  ExportBuilder& to = context.builder;
  const auto& attributes = node.attributes.as<ops::AttentionAttributes>();
  const int64_t width = attributes.bias_width, height = attributes.bias_height;
  std::vector<int64_t> numbers;
  for (int64_t place = 0; place < width * height; ++place) {
    numbers.push_back(place / width * (2 * width - 1) + place % width);
  }
  const std::string& name = node.name;
  const std::string keys =
      to.add("Gather", name + "/numbers",
             {to.list(name + "/numbers/all", numbers),
              positions(context, context.input(node).side, length)});
  const std::string queries =
      to.add("Unsqueeze", name + "/numbers/queries", {keys, to.list("attention/column", {1})});
  const std::string steps = to.add("Sub", name + "/steps", {queries, keys});
  const std::string least = to.numbers<int64_t>(name + "/steps/least", ElementType::kInt64, {},
                                                {numbers.back()});
  const std::string distances = to.add("Add", name + "/distances", {steps, least});
  return to.add("Gather", name + "/biases",
                {real_parameter(context, node.parameters[0]), distances}, {{"axis", int64_t{1}}});
}

// Scores of [batch, heads, queries, keys], masked.
std::string masked_scores(ExportContext& context, const Node& node) {
  ExportBuilder& to = context.builder;
  const auto& attributes = node.attributes.as<ops::AttentionAttributes>();
  const Shape& shape = context.shape(node.inputs[1]);
  const int64_t sequence_length = shape[shape.rank - 2];
  const int64_t channels = context.shape(node.inputs[0]).last() / attributes.heads;
  const std::string queries = heads_of(context, node, 0, {0, 2, 1, 3});
  const std::string keys = heads_of(context, node, 1, {0, 2, 3, 1});
  const std::string factor = to.scalar(static_cast<float>(1 / std::sqrt(double(channels))),
                                       "attention/factor_" + std::to_string(channels));
  const std::string raw = to.add("MatMul", node.name + "/products", {queries, keys});
  std::string scores = to.add("Mul", node.name + "/scores", {raw, factor});
  if (attributes.bias_width != 0) {
    scores = to.add("Add", node.name + "/biased",
                    {scores, distance_biases(context, node, sequence_length)});
  }
  if (node.inputs.size() > 3) {
    scores = to.add("Add", node.name + "/unpadded",
                    {scores, padding_mask(to, context.input(node, 3).name)});
  }
  if (attributes.causal) {
    scores = to.add("Add", node.name + "/past",
                    {scores, causal_mask(context, context.input(node).side, sequence_length)});
  }
  if (attributes.window != 0) {
    scores = to.add("Add", node.name + "/near",
                    {scores, window_mask(context, context.input(node).side, sequence_length,
                                         attributes.window)});
  }
  return scores;
}

// Whole numbers from 0 to 127 relative to the largest of their row, half up, over their sum.
std::string row_probabilities(ExportContext& context, const std::string& name,
                              const std::string& scores) {
  constexpr float kMost = (1 << kernels::kProbabilityBits) - 1;
  ExportBuilder& to = context.builder;
  const std::string axes = to.list("last_axis", {-1});
  const std::string largest = to.add("ReduceMax", name + "/largest", {scores, axes});
  const std::string below = to.add("Sub", name + "/below", {scores, largest});
  const std::string powers = to.add("Exp", name + "/powers", {below});
  const std::string units =
      to.add("Mul", name + "/units", {powers, to.scalar(kMost, "attention/most")});
  const std::string above =
      to.add("Add", name + "/above", {units, to.scalar(0.5F, "attention/half")});
  const std::string whole = to.add("Floor", name + "/whole", {above});
  return to.add("Div", name + "/rounded",
                {whole, to.add("ReduceSum", name + "/sum", {whole, axes})});
}

// The probabilities of the network's grid, half up, if values are mantissas: 7 bits, which logits
// show.
std::string probabilities(ExportContext& context, const Node& node, const std::string& scores) {
  constexpr float kOne = 1 << kernels::kProbabilityBits;
  ExportBuilder& to = context.builder;
  const bool is_of_row =
      node.attributes.as<ops::AttentionAttributes>().probabilities == ops::Probabilities::kOfRow;
  if (context.in_rows && is_of_row) {
    return row_probabilities(context, node.name + "/weights", scores);
  }
  const std::string weights =
      to.add("Softmax", node.name + "/weights", {scores}, {{"axis", int64_t{-1}}});
  if (!context.in_rows) return weights;
  const std::string units =
      to.add("Mul", node.name + "/weights/units", {weights, to.scalar(kOne, "attention/one")});
  const std::string above =
      to.add("Add", node.name + "/weights/above", {units, to.scalar(0.5F, "attention/half")});
  const std::string whole = to.add("Floor", node.name + "/weights/whole", {above});
  const std::string most = to.add("Min", node.name + "/weights/most",
                                  {whole, to.scalar(kOne - 1, "attention/most")});
  return to.add("Mul", node.name + "/weights/rounded",
                {most, to.scalar(1 / kOne, "attention/unit")});
}

// The sequences that the node reads: its inputs' must be those that the network says.
Status check_sides(const ExportContext& context, const Node& node) {
  const Side queries = context.input(node).side, keys = context.input(node, 1).side;
  if (keys != context.input(node, 2).side)
    return invalid_input("has keys and values of two sequences");
  if (!node.attributes.as<ops::AttentionAttributes>().cross && queries != keys) {
    return invalid_input("attends within one sequence, and reads two");
  }
  if (node.inputs.size() <= ops::kStartsOfAttention) return {};
  if (context.shape(node.inputs[ops::kStartsOfAttention]).rank > 0) {
    return invalid_input("reads segments of packed sequences, which the exported form lacks");
  }
  return check_lengths(context, node, 3, keys);
}

}  // namespace

Result<Exported> export_row_attention(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  MANTISSA_RETURN_IF_ERROR(check_sides(context, node));
  ExportBuilder& to = context.builder;
  const std::string weights = probabilities(context, node, masked_scores(context, node));
  const std::string values = heads_of(context, node, 2, {0, 2, 1, 3});
  const std::string heads = to.add("MatMul", node.name + "/heads", {weights, values});
  const std::string rows =
      to.add("Transpose", node.name + "/rows", {heads}, {ints("perm", {0, 2, 1, 3})});
  const int64_t channels = context.shape(node.outputs[0]).last();
  return Exported{to.add("Reshape", context.output_name(node),
                         {rows, to.list(node.name + "/joined", {0, 0, channels})}),
                  Form::kRows};
}

}  // namespace mantissa::onnx
