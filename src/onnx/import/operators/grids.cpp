#include "onnx/import/grids.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>

#include "onnx/import/rows.h"
#include "ops/attributes.h"
#include "ops/ops.h"

namespace mantissa::onnx {
namespace {

constexpr int64_t kMostSteps = 255;  // of 8 bits

struct Limits {
  ElementType type;
  int64_t low, high;
};

std::optional<Limits> limits_of(ElementType type) {
  constexpr Limits kLimits[] = {
      {ElementType::kUint8, 0, 255},    {ElementType::kInt8, -128, 127},
      {ElementType::kUint16, 0, 65535}, {ElementType::kInt16, -32768, 32767},
      {ElementType::kUint4, 0, 15},     {ElementType::kInt4, -8, 7}};
  for (const Limits& limits : kLimits) {
    if (limits.type == type) return limits;
  }
  return std::nullopt;
}

// The whole number in a tensor of one such type; nothing if the tensor holds anything else.
std::optional<int64_t> whole_in(const TensorData& tensor) {
  int64_t count = 1;
  for (const int64_t dim : tensor.dims) count *= dim;
  const auto limits = limits_of(tensor.type);
  const size_t size =
      tensor.type == ElementType::kUint16 || tensor.type == ElementType::kInt16 ? 2 : 1;
  if (count != 1 || !limits || tensor.bytes.size() != size) return std::nullopt;
  int64_t number = static_cast<int64_t>(tensor.bytes[0]);
  if (size == 2) number += 256 * static_cast<int64_t>(tensor.bytes[1]);
  const int64_t span = limits->high - limits->low + 1;
  number %= span;  // 4-bit numbers are in the lower half of the byte
  return number > limits->high ? number - span : number;
}

}  // namespace

Result<Grid> grid_of(const ImportContext& context, const NodeData& node) {
  MANTISSA_ASSIGN(const TensorData* scale, weights_of(context, node, 1));
  MANTISSA_ASSIGN(const std::vector<double> scales, numbers_of(*scale));
  if (scales.size() != 1) return invalid_input("has a scale for each channel of a value");
  Grid grid{.scale = scales[0]};
  if (!(grid.scale > 0x1p-60 && grid.scale < 0x1p60)) {
    return invalid_input("has a scale of " + std::to_string(grid.scale));
  }
  const int64_t named = whole_of(node, "output_dtype", 0);
  auto type =
      named > 0 && named <= UINT8_MAX ? static_cast<ElementType>(named) : ElementType::kUint8;
  if (has_input(node, 2)) {
    MANTISSA_ASSIGN(const TensorData* zero, weights_of(context, node, 2));
    type = zero->type;
    const auto number = whole_in(*zero);
    if (!number) return invalid_input("has a zero point that is no single number of 4 to 16 bits");
    grid.zero = *number;
  }
  const auto limits = limits_of(type);
  if (!limits) return invalid_input(std::string("quantises to ") + element_name(type));
  grid.low = limits->low - grid.zero;
  grid.high = limits->high - grid.zero;
  return grid;
}

Status clip_grid(const ImportContext& context, const NodeData& node, Grid& grid) {
  for (const size_t i : {1, 2}) {
    if (!has_input(node, i)) continue;
    MANTISSA_ASSIGN(const TensorData* tensor, weights_of(context, node, i));
    const auto number = whole_in(*tensor);
    if (!number) return invalid_input("clips to something else than a number of its type");
    int64_t& end = i == 1 ? grid.low : grid.high;
    end = i == 1 ? std::max(end, *number - grid.zero) : std::min(end, *number - grid.zero);
  }
  return {};
}

Result<GridKind> kind_of(ImportContext& context, const Grid& grid) {
  const int64_t steps = grid.high - grid.low;
  const auto is_full = [](int64_t n) { return n > 0 && (n & (n + 1)) == 0; };  // 2^k - 1
  const auto bits = [](int64_t n) {
    return static_cast<int64_t>(std::bit_width(static_cast<uint64_t>(n)));
  };
  const bool is_symmetric = grid.low == -grid.high || grid.low == -grid.high - 1;
  if (is_symmetric && is_full(grid.high) && grid.high <= INT8_MAX) {
    if (grid.low < -grid.high) {
      note_once(context,
                "grids of whole numbers from -2^(k-1) are symmetric here: the lowest, such "
                "as -128, becomes the next");
    }
    return GridKind{1 + bits(grid.high), grid.high, true};
  }
  if (grid.low <= 0 && grid.high >= 0 && is_full(steps) && steps <= kMostSteps) {
    return GridKind{bits(steps), steps, false};
  }
  return invalid_input("has a grid of " + std::to_string(grid.low) + " to " +
                       std::to_string(grid.high) +
                       " steps around its zero point; of 1 to 8 bits, with zero among them, are "
                       "possible");
}

namespace {

// The real numbers of a parameter of the graph, which the import has set.
std::vector<double> numbers_of_parameter(const ImportContext& context, int parameter) {
  const std::string& name = context.builder.graph().parameters[parameter].name;
  for (const ImportedParameter& each : context.parameters) {
    if (each.name != name) continue;
    return each.doubles.empty() ? std::vector<double>(each.floats.begin(), each.floats.end())
                                : each.doubles;
  }
  return {};
}

// The node whose result the value is, behind nodes that only move numbers; null: an input.
const Node* maker_behind_moves(const Graph& graph, int value) {
  while (graph.values[value].producer >= 0) {
    const Node& node = graph.nodes[graph.values[value].producer];
    const bool moves = node.op == &ops::kSlice || node.op == &ops::kGatherRows ||
                       node.op == &ops::kReverse || is_view(*node.op);
    if (!moves) return &node;
    value = node.inputs[0];
  }
  return nullptr;
}

}  // namespace

bool is_on_grid(const ImportContext& context, const Imported& rows, const Grid& grid,
                const GridKind& kind) {
  const Node* node = maker_behind_moves(context.builder.graph(), rows.value);
  if (node == nullptr || node->op != &ops::kQuantise) return false;
  const auto& attributes = node->attributes.as<ops::QuantiseAttributes>();
  const double unit =
      std::ldexp(rows.scale.empty() ? 1.0 : rows.scale[0], attributes.exponent);
  const bool is_same = attributes.bits == kind.bits && attributes.is_signed == kind.is_signed &&
                       std::abs(unit / grid.scale - 1) < 0x1p-40;
  if (!is_same || !attributes.offset) return is_same && (grid.low == 0 || kind.is_signed);
  const double range = numbers_of_parameter(context, node->parameters[0])[0];
  const double offset = numbers_of_parameter(context, node->parameters[1])[0];
  return std::llround(offset / range * static_cast<double>(kind.steps)) == grid.low;
}

Status pass_scores(ImportContext& context, const NodeData& node, const Grid& grid) {
  const Scores scores = *scores_of(context, node, 0);
  if (grid.low > 0 || grid.high <= 0 || (grid.low == 0 && !scores.softmax)) {
    return invalid_input("cuts attention's scores");
  }
  note_once(context,
            "pairs of QuantizeLinear and DequantizeLinear of attention's scores and probabilities "
            "are left out: attention computes scores exactly, and probabilities with 7 bits");
  const auto readers = context.readers.find(node.outputs[0]);
  if (readers == context.readers.end()) return {};
  for (const NodeData* reader : readers->second) {
    if (reader->op_type != "DequantizeLinear" || reader->inputs[0] != node.outputs[0]) {
      return invalid_input("makes whole numbers that a node of " + readable(reader->op_type) +
                           " reads; only DequantizeLinear can");
    }
    MANTISSA_RETURN_IF_ERROR(check_pair(context, *reader, grid));
    context.scores[reader->outputs[0]] = scores;
    context.done.insert(reader);
  }
  return {};
}

Status check_pair(const ImportContext& context, const NodeData& node, const Grid& grid) {
  MANTISSA_ASSIGN(const Grid other, grid_of(context, node));
  if (other.scale == grid.scale && other.zero == grid.zero) return {};
  return invalid_input("has another scale or zero point than the DequantizeLinear behind it");
}

}  // namespace mantissa::onnx
