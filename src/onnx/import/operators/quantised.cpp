// Pairs of QuantizeLinear and DequantizeLinear of values. Between them a value is on a grid: a
// `quantise` node, whose range training does not change. The factor between its power of two and
// the model's scale goes to the layers that read it. Pairs of constants are folded before.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "onnx/import/grids.h"
#include "onnx/import/operators.h"
#include "onnx/import/rows.h"
#include "ops/attributes.h"
#include "ops/ops.h"
#include "ops/pixels.h"

namespace mantissa::onnx {
namespace {

bool is_pixels(const ImportContext& context, const Imported& value) {
  const Graph& graph = context.builder.graph();
  const int producer = graph.values[value.value].producer;
  return producer >= 0 && graph.nodes[producer].op == &ops::kNormaliseInput;
}

std::string short_text(double number) {
  std::array<char, 32> text{};
  constexpr int kDigits = 4;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), number,
                                 std::chars_format::general, kDigits);
  return {text.data(), end.ptr};
}

// Pixels are already whole numbers from 0 to 255, so their grid is left out. A grid that clips some
// of them was not made for these pixels.
Status check_holds_pixels(const ImportContext& context, const Imported& value, const Grid& grid) {
  const Graph& graph = context.builder.graph();
  const Node& node = graph.nodes[graph.values[value.value].producer];
  const auto means = ops::pixel_means(node.attributes.as<ops::InputAttributes>());
  const double least = (static_cast<double>(grid.low) - 1) * grid.scale;
  const double most = (static_cast<double>(grid.high) + 1) * grid.scale;
  for (size_t c = 0; c < std::max<size_t>(value.scale.size(), 1); ++c) {
    const double unit = std::ldexp(value.scale.empty() ? 1.0 : value.scale[c], ops::kPixelExponent);
    const double black = -means[c] * unit, white = (255 - means[c]) * unit;
    if (std::min(black, white) >= least && std::max(black, white) <= most) continue;
    return invalid_input("cuts pixels, which enter as " + short_text(black) + " to " +
                         short_text(white) + ": it holds " + short_text(least + grid.scale) +
                         " to " + short_text(most - grid.scale) +
                         "; --input-mean and --input-std say how pixels enter");
  }
  return {};
}

// The value's one factor, which the grid takes; values with one for each channel get a node.
Result<double> take_factor(ImportContext& context, Imported& value) {
  if (value.scale.empty()) return 1.0;
  const double first = value.scale[0];
  const bool alike = std::all_of(value.scale.begin(), value.scale.end(),
                                 [&](double factor) { return factor == first; });
  if (alike && first > 0) {
    value.scale.clear();
    return first;
  }
  if (value.form == Form::kRows) {
    MANTISSA_ASSIGN(value, without_factor(context, std::move(value)));
    return 1.0;
  }
  const bool is_last = turn_channels_first(value);
  MANTISSA_ASSIGN(value.value, images_of(context, value));
  value.scale.clear();
  turn_back(is_last, value);
  return 1.0;
}

// A value whose pair is left out is still cut where the grid ends: quantisers leave out a Relu, or
// a Clip from 0 to 6, if the grid behind it begins at 0. `node` is the QuantizeLinear.
Result<Imported> cut_by(ImportContext& context, const NodeData& node, Imported value,
                        const Grid& grid) {
  constexpr double kRelu6 = 6;
  if (grid.low > 0 || grid.high <= 0) {
    return invalid_input("cuts all numbers " + std::string(grid.low > 0 ? "below " : "above ") +
                         short_text(static_cast<double>(grid.low > 0 ? grid.low : grid.high) *
                                    grid.scale) +
                         ", where its grid ends; a grid with 0 inside, or one that begins at 0 as "
                         "behind a Relu, is possible");
  }
  if (grid.low < 0 || is_never_negative(context, value.value)) return value;
  const double most = static_cast<double>(grid.high) * grid.scale;
  const bool is_relu6 = std::abs(most - kRelu6) <= grid.scale;
  MANTISSA_RETURN_IF_ERROR(add_elementwise(context, node, is_relu6 ? ops::kRelu6 : ops::kRelu));
  note_once(context,
            "where a pair of QuantizeLinear and DequantizeLinear is left out and its grid begins "
            "at 0, a ReLU does what the grid did");
  value = std::move(context.values[node.outputs[0]]);  // which are whole numbers in the model
  context.values.erase(node.outputs[0]);
  return value;
}

// The value on the grid.
Result<Imported> quantised(ImportContext& context, const NodeData& node, Imported value,
                           const Grid& grid) {
  // A grid of pixels in their own steps, or in others. Both have 8 bits.
  if (is_pixels(context, value)) {
    MANTISSA_RETURN_IF_ERROR(check_holds_pixels(context, value, grid));
    note_once(context,
              "the pair of QuantizeLinear and DequantizeLinear of the input is left out: "
              "pixels are whole numbers from 0 to 255 already");
    return value;
  }
  constexpr int64_t k16Bits = 65534;
  if (grid.high - grid.low >= k16Bits) {
    note_once(context,
              "pairs of QuantizeLinear and DequantizeLinear with 16 bits are left out: "
              "the format says how many bits values have");
    return cut_by(context, node, std::move(value), grid);
  }
  MANTISSA_ASSIGN(const GridKind kind, kind_of(context, grid));
  if (value.form == Form::kRows && is_on_grid(context, value, grid, kind)) return value;
  MANTISSA_ASSIGN(const double factor, take_factor(context, value));
  const double step = grid.scale / factor;
  const int exponent = std::ilogb(step);
  const bool has_offset = grid.low < 0 && !kind.is_signed;
  std::vector<std::vector<double>> numbers = {{step * static_cast<double>(kind.steps)}};
  if (has_offset) numbers.push_back({step * static_cast<double>(grid.low)});
  const std::string name = node_name(context, node);
  MANTISSA_ASSIGN(value.value, add_node(context, ops::kQuantise, name, {value.value},
                                        {{"bits", kind.bits},
                                         {"exponent", int64_t{exponent}},
                                         {"signed", kind.is_signed ? 1 : 0},
                                         {"learns", "clip"},
                                         {"offset", has_offset ? 1 : 0}},
                                        std::move(numbers)));
  context.untrained.insert(name + ".range");
  context.untrained.insert(name + ".offset");
  const double left = grid.scale * std::ldexp(1.0, -exponent);
  const bool is_rows = value.form == Form::kRows;  // which have one number for all channels
  const auto channels =
      is_rows ? size_t{1} : static_cast<size_t>(context.builder.shape(value.value).last());
  if (left != 1) value.scale.assign(channels, left);
  return value;
}

// Defines the results of all DequantizeLinear after the whole numbers of `quantise`, or of `node`,
// a Clip of them.
Status finish_pairs(ImportContext& context, const NodeData& quantise, const NodeData& node,
                    const Imported& value, const Grid& grid) {
  const bool may_clip = &quantise == &node;
  const auto readers = context.readers.find(node.outputs[0]);
  if (readers == context.readers.end() || context.results.contains(node.outputs[0])) {
    return invalid_input("has a result of whole numbers that no DequantizeLinear reads");
  }
  std::optional<Imported> made;
  for (const NodeData* reader : readers->second) {
    if (reader->op_type == "Clip" && may_clip) {
      Grid narrowed = grid;
      MANTISSA_RETURN_IF_ERROR(clip_grid(context, *reader, narrowed));
      MANTISSA_RETURN_IF_ERROR(finish_pairs(context, quantise, *reader, value, narrowed));
      context.done.insert(reader);
      continue;
    }
    if (reader->op_type != "DequantizeLinear" || reader->inputs[0] != node.outputs[0]) {
      return invalid_input("makes whole numbers that a node of " + readable(reader->op_type) +
                           " reads; only DequantizeLinear can");
    }
    MANTISSA_RETURN_IF_ERROR(check_pair(context, *reader, grid));
    const bool ends_model = context.results.contains(reader->outputs[0]) ||
                            ((context.signal != SignalAxes::kNone || value.form == Form::kRows) &&
                             is_result(context, reader->outputs[0]));
    if (ends_model) {
      note_once(context, "the quantisation of the output is left out: the loss reads the sums");
      MANTISSA_ASSIGN(Imported cut, cut_by(context, quantise, value, grid));
      define(context, reader->outputs[0], std::move(cut));
    } else {
      if (!made) {
        MANTISSA_ASSIGN(made, quantised(context, quantise, value, grid));
      }
      define(context, reader->outputs[0], *made);
    }
    context.done.insert(reader);
  }
  return {};
}

}  // namespace

Status import_quantise_linear(ImportContext& context, const NodeData& node) {
  MANTISSA_ASSIGN(const Grid grid, grid_of(context, node));
  if (scores_of(context, node, 0) != nullptr) return pass_scores(context, node, grid);
  MANTISSA_ASSIGN(Imported value, input_of(context, node, 0));
  return finish_pairs(context, node, node, value, grid);
}

// A DequantizeLinear that belongs to a pair is already imported.
Status import_dequantise_linear(ImportContext&, const NodeData&) {
  return invalid_input("reads whole numbers that no QuantizeLinear before it makes");
}

}  // namespace mantissa::onnx
