// Attention as exporters spell it out: products of queries and keys, a factor, a mask, a softmax,
// and the product with values. Scores and probabilities become no values of the graph.
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "onnx/import/operators.h"
#include "onnx/import/rows.h"
#include "ops/ops.h"

namespace mantissa::onnx {
namespace {

// The value's channels in heads, if its dimensions are examples and heads (one or two dimensions),
// positions, and the channels of a head.
struct Heads {
  int64_t count = 0, positions = 0, channels = 0;
};
Result<Heads> heads_of(const ImportContext& context, const Imported& value, const char* what) {
  const Shape shape = context.builder.shape(value.value);
  const std::vector<int64_t> dims = value.layout.dims();
  const Error fault = invalid_input(std::string("has ") + what +
                                    " that are not [examples, heads, positions, channels]");
  if (shape.rank != 2 || dims.size() < 2 || shape[1] % dims.back() != 0) return fault;
  const Heads heads{shape[1] / dims.back(), shape[0], dims.back()};
  Layout layout = value.layout;
  const int64_t wanted[] = {context.batch, heads.count, heads.positions, heads.channels};
  const int order[] = {0, 2, 1, 3};
  if (layout.reshape(wanted) && layout.lies_as(order)) return heads;
  return fault;
}

void swap_last(Layout& layout) {
  std::vector<int> order;
  const auto rank = static_cast<int>(layout.dims().size());
  for (int i = 0; i + 2 < rank; ++i) order.push_back(i);
  order.push_back(rank - 1);
  order.push_back(rank - 2);
  layout.transpose(order);
}

double scale_of(const Imported& value) { return value.scale.empty() ? 1 : value.scale[0]; }

// The keys that a mask hides from queries: later ones, and padding.
struct Mask {
  bool causal = false, padding = false;
};

// A constant that was made for the examples' lengths is [examples, ..., queries or 1, keys].
template <typename Hides>
std::optional<Mask> mask_of(const ImportContext& context, const TensorData& tensor,
                            int64_t positions, const Hides& hides) {
  const auto rank = std::ssize(tensor.dims);
  int64_t count = 1;
  for (const int64_t dim : tensor.dims) count *= dim;
  const bool has_keys = rank > 0 && tensor.dims[rank - 1] == positions;
  const bool has_queries = has_keys && rank > 1 && tensor.dims[rank - 2] == positions;
  const auto examples = std::ssize(context.mask_lengths);
  const bool has_examples = has_keys && rank > 2 && examples > 0 && count % examples == 0;
  const auto is = [&](const Mask& mask) {
    for (int64_t at = 0; at < count; ++at) {
      const int64_t query = at / positions % positions, key = at % positions;
      const bool hidden = (mask.causal && key > query) ||
                          (mask.padding && key >= context.mask_lengths[at / (count / examples)]);
      if (hides(at) != hidden) return false;
    }
    return true;
  };
  for (const Mask mask :
       {Mask{false, false}, Mask{true, false}, Mask{false, true}, Mask{true, true}}) {
    const bool fits = (has_queries || !mask.causal) && (has_examples || !mask.padding) &&
                      (has_keys || count == 1);
    if (fits && is(mask)) return mask;
  }
  return std::nullopt;
}

Status define_masked(ImportContext& context, const NodeData& node, Scores scores,
                     const std::optional<Mask>& mask) {
  if (scores.softmax) return invalid_input("changes attention's probabilities");
  if (!mask) {
    return invalid_input(
        "masks other scores than those of later positions and of padding; only such masks are "
        "possible");
  }
  scores.causal = scores.causal || mask->causal;
  scores.padded = scores.padded || mask->padding;
  context.scores[node.outputs[0]] = std::move(scores);
  return {};
}

int64_t positions_of(const ImportContext& context, const Scores& scores) {
  return context.builder.shape(scores.keys.value)[0];
}

}  // namespace

const Scores* scores_of(const ImportContext& context, const NodeData& node, size_t index) {
  if (!has_input(node, index)) return nullptr;
  const auto found = context.scores.find(node.inputs[index]);
  return found == context.scores.end() ? nullptr : &found->second;
}

Status import_scores(ImportContext& context, const NodeData& node) {
  Scores scores;
  MANTISSA_ASSIGN(scores.queries, input_of(context, node, 0));
  MANTISSA_ASSIGN(scores.keys, input_of(context, node, 1));
  if (scores.keys.layout.dims().size() < 2) return invalid_input("multiplies by a vector");
  swap_last(scores.keys.layout);
  MANTISSA_ASSIGN(const Heads queries, heads_of(context, scores.queries, "queries"));
  MANTISSA_ASSIGN(const Heads keys, heads_of(context, scores.keys, "keys"));
  if (queries.count != keys.count || queries.channels != keys.channels ||
      queries.positions != keys.positions) {
    return invalid_input(
        "has queries and keys of different numbers of heads, positions or channels");
  }
  scores.scale = scale_of(scores.queries) * scale_of(scores.keys);
  context.scores[node.outputs[0]] = std::move(scores);
  return {};
}

Status scale_scores(ImportContext& context, const NodeData& node, const Factor& factor) {
  Scores scores = *scores_of(context, node, factor.value_input);
  if (scores.softmax || scores.causal || scores.padded || scores.bias_width > 0)
    return invalid_input("has a factor behind attention's mask or bias");
  scores.scale *= factor.number;
  context.scores[node.outputs[0]] = std::move(scores);
  return {};
}

Status mask_scores(ImportContext& context, const NodeData& node, size_t scores_input) {
  const Scores scores = *scores_of(context, node, scores_input);
  MANTISSA_ASSIGN(const TensorData* tensor, weights_of(context, node, 1 - scores_input));
  MANTISSA_ASSIGN(const std::vector<double> numbers, numbers_of(*tensor));
  Scores with_bias = scores;
  const auto is_bias = [](double number) { return number != 0 && number > kMasked; };
  if (std::ranges::any_of(numbers, is_bias)) {
    MANTISSA_ASSIGN(const Heads heads, heads_of(context, scores.queries, "queries"));
    const int64_t positions = positions_of(context, scores);
    if (heads.positions != positions) {
      return invalid_input("adds numbers to scores of two sequences");
    }
    MANTISSA_RETURN_IF_ERROR(add_bias(tensor->dims, numbers, positions, heads.count, with_bias));
    note_once(context,
              "the constants that are added to attention's scores are biases by distance, which "
              "are trained");
  }
  return define_masked(context, node, with_bias,
                       mask_of(context, *tensor, positions_of(context, scores),
                               [&](int64_t at) { return numbers[at] <= kMasked; }));
}

// PyTorch asks whether a row had no key at all. Here each query meets a key.
Status import_is_nan(ImportContext& context, const NodeData& node) {
  const Scores* scores = scores_of(context, node, 0);
  if (scores == nullptr || !scores->softmax) {
    return invalid_input("asks for numbers that are none of something else than probabilities");
  }
  context.always_false.insert(node.outputs[0]);
  return {};
}

// Where(condition, scores, number) or Where(condition, number, scores).
Status import_where(ImportContext& context, const NodeData& node) {
  if (has_input(node, 0) && context.always_false.contains(node.inputs[0])) {
    const Scores* kept = scores_of(context, node, 2);
    if (kept == nullptr) return invalid_input("keeps something else than probabilities");
    const Scores copy = *kept;
    context.scores[node.outputs[0]] = copy;
    return {};
  }
  for (const size_t i : {1, 2}) {
    const Scores* scores = scores_of(context, node, i);
    if (scores == nullptr) continue;
    MANTISSA_ASSIGN(const TensorData* condition, weights_of(context, node, 0));
    MANTISSA_ASSIGN(const TensorData* other, weights_of(context, node, 3 - i));
    MANTISSA_ASSIGN(const std::vector<double> hides, numbers_of(*condition));
    MANTISSA_ASSIGN(const std::vector<double> numbers, numbers_of(*other));
    if (numbers.size() != 1 || numbers[0] > kMasked) {
      return invalid_input("puts numbers in the place of attention's scores");
    }
    return define_masked(context, node, *scores,
                         mask_of(context, *condition, positions_of(context, *scores),
                                 [&](int64_t at) { return (hides[at] != 0) == (i == 2); }));
  }
  return invalid_input("chooses between values; only attention's masks can be imported");
}

Status import_softmax(ImportContext& context, const NodeData& node) {
  const Scores* found = scores_of(context, node, 0);
  if (found == nullptr) return import_row_softmax(context, node);
  Scores scores = *found;
  const int64_t axis = whole_of(node, "axis", -1);
  const auto rank = std::ssize(scores.queries.layout.dims());
  if (scores.softmax || (axis != -1 && axis != rank - 1)) {
    return invalid_input("is over something else than attention's keys");
  }
  scores.softmax = true;
  context.scores[node.outputs[0]] = std::move(scores);
  return {};
}

Status drop_scores(ImportContext& context, const NodeData& node) {
  MANTISSA_ASSIGN(const auto ratio, scalar_of(context, node, 1, "ratio"));
  if (ratio.value_or(0.5) != 0) {
    context.notes.push_back("dropout of attention's probabilities is left out");
  }
  const Scores scores = *scores_of(context, node, 0);
  context.scores[node.outputs[0]] = scores;
  return {};
}

Status import_attention(ImportContext& context, const NodeData& node) {
  Scores scores = *scores_of(context, node, 0);
  if (!scores.softmax) return invalid_input("multiplies scores without a softmax");
  // A factor of the values is one of the result.
  MANTISSA_ASSIGN(Imported value, input_of(context, node, 1));
  MANTISSA_ASSIGN(const Heads heads, heads_of(context, value, "values"));
  MANTISSA_ASSIGN(const Heads of_keys, heads_of(context, scores.keys, "keys"));
  if (heads.count != of_keys.count || heads.positions != of_keys.positions ||
      heads.channels != of_keys.channels) {
    return invalid_input("has values of other heads, positions or channels than its keys");
  }
  const double wanted = 1 / std::sqrt(static_cast<double>(heads.channels));
  scores.queries.scale.clear();
  if (std::abs(scores.scale / wanted - 1) > 1e-5) {
    scores.queries.scale = {scores.scale / wanted};  // attention's own factor comes behind it
    MANTISSA_ASSIGN(scores.queries, without_factor(context, scores.queries));
  }
  std::vector<int> inputs = {scores.queries.value, scores.keys.value, value.value};
  if (scores.padded) inputs.push_back(lengths_of_mask(context));
  std::vector<std::vector<double>> biases;
  if (scores.bias_width > 0) biases.push_back(scores.bias);
  MANTISSA_ASSIGN(value.value,
                  add_node(context, ops::kAttention, node_name(context, node), std::move(inputs),
                           {{"heads", heads.count},
                            {"causal", scores.causal},
                            {"bias_height", scores.bias_height},
                            {"bias_width", scores.bias_width}},
                           std::move(biases)));
  define(context, node.outputs[0], std::move(value));
  return {};
}

}  // namespace mantissa::onnx
