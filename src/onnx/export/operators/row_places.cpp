// Rows of a sequence by their places, and rows put at places of a longer one. Places are constants,
// or an input of the model. One row of zeros is added behind the others: rows that have no place,
// and places that have no row, read it. Nothing is computed, so every bit is the network's.
#include <vector>

#include "onnx/export/inputs.h"
#include "onnx/export/operators.h"
#include "onnx/export/rows.h"
#include "ops/attributes.h"
#include "ops/shapes/row_places.h"

namespace mantissa::onnx {
namespace {

constexpr int64_t kZeroRow = -1;  // the last one

// Where the positions of a value lie in the file: [N, C, H, W] or [N, T, C].
struct RowLayout {
  int64_t rank, axis;

  // `size` along the positions, `channels` along the channels, others one.
  std::vector<int64_t> dims(int64_t first, int64_t size, int64_t channels) const {
    if (rank == 3) return {first, size, channels};
    return {first, channels, 1, size};
  }
};
RowLayout row_layout(const Exported& value) {
  return value.is_mantissas() ? RowLayout{4, 3} : RowLayout{3, 1};
}

// The value with a row of zeros behind its positions.
std::string with_zeros(ExportContext& context, const Node& node) {
  const Exported& in = context.input(node);
  const RowLayout layout = row_layout(in);
  ExportBuilder& to = context.builder;
  std::vector<int64_t> sides(static_cast<size_t>(2 * layout.rank));
  sides[static_cast<size_t>(layout.rank + layout.axis)] = 1;
  const std::string zero = in.form == Form::kBytes ? to.byte(in.zero) : to.scalar(0, "zero");
  return to.add("Pad", node.name + "/with_zeros",
                {in.name, to.list(node.name + "/sides", sides), zero});
}

// The rows at constant places of a tensor.
std::string taken(ExportContext& context, const Node& node, const std::string& from,
                  const std::vector<int64_t>& places) {
  ExportBuilder& to = context.builder;
  return to.add("Gather", context.output_name(node),
                {from, to.list(node.name + "/places", places)},
                {{"axis", row_layout(context.input(node)).axis}});
}

// The rows at places that each example has: int64 [N, rows] or [N, rows, 1]. Negative ones count
// from the end.
std::string taken_by(ExportContext& context, const Node& node, const std::string& places) {
  ExportBuilder& to = context.builder;
  const RowLayout layout = row_layout(context.input(node));
  const std::string& name = node.name;
  const int64_t channels = context.shape(node.inputs[0]).last();
  const std::string column =
      to.add("Reshape", name + "/column",
             {places, to.list(name + "/column/shape", layout.dims(0, -1, 1))});
  const std::string shape = to.list(name + "/channels", layout.dims(1, 1, channels));
  const std::string all = to.add("Expand", name + "/all_channels", {column, shape});
  return to.add("GatherElements", context.output_name(node), {with_zeros(context, node), all},
                {{"axis", layout.axis}});
}

// Places that are none become -1 or the number of positions: both read the row of zeros.
std::string places_within(ExportContext& context, const Node& node, int64_t positions) {
  ExportBuilder& to = context.builder;
  const auto end = [&](const char* what, int64_t place) {
    return to.numbers<int64_t>(node.name + what, ElementType::kInt64, {}, {place});
  };
  return to.add("Clip", node.name + "/within",
                {context.input(node, 1).name, end("/before", kZeroRow), end("/behind", positions)});
}

// The last row of each place, -1 if there is none: [N, positions, 1].
std::string last_rows(ExportContext& context, const Node& node, int64_t positions) {
  ExportBuilder& to = context.builder;
  const std::string& name = node.name;
  std::vector<int64_t> places, numbers;
  for (int64_t place = 0; place < positions; ++place) places.push_back(place);
  const int64_t rows = ops::positions_of(context.shape(node.inputs[0]));
  for (int64_t row = 0; row < rows; ++row) numbers.push_back(row + 1);
  const std::string of_rows =
      to.add("Unsqueeze", name + "/of_rows", {context.input(node, 1).name,
                                              to.list(name + "/of_rows/axis", {1})});
  const std::string is_here =
      to.add("Equal", name + "/is_here",
             {of_rows, to.numbers(name + "/places", ElementType::kInt64, {positions, 1}, places)});
  const std::string counted =
      to.add("Mul", name + "/counted",
             {to.cast(name + "/is_here/number", is_here, ElementType::kInt64),
              to.list(name + "/numbers", numbers)});
  const std::string last = to.add("TopK", name + "/last", {counted, to.list("one_element", {1})},
                                  {{"axis", int64_t{2}}}, {name + "/last/place"});
  return to.add("Sub", name + "/last_row",
                {last, to.numbers<int64_t>(name + "/first", ElementType::kInt64, {}, {1})});
}

std::string gathered(ExportContext& context, const Node& node) {
  if (node.inputs.size() > 1) {
    const int64_t positions = ops::positions_of(context.shape(node.inputs[0]));
    return taken_by(context, node, places_within(context, node, positions));
  }
  const WholeList& rows = node.attributes.as<ops::RowsAttributes>().rows;
  return taken(context, node, context.input(node).name, {rows.begin(), rows.end()});
}

std::string scattered(ExportContext& context, const Node& node) {
  const auto& attributes = node.attributes.as<ops::RowsAttributes>();
  if (node.inputs.size() > 1) {
    return taken_by(context, node, last_rows(context, node, attributes.positions));
  }
  std::vector<int64_t> rows(static_cast<size_t>(attributes.positions), kZeroRow);
  for (int64_t row = 0; row < std::ssize(attributes.rows); ++row) {
    rows[static_cast<size_t>(attributes.rows[static_cast<size_t>(row)])] = row;
  }
  return taken(context, node, with_zeros(context, node), rows);
}

using Move = std::string (*)(ExportContext& context, const Node& node);

Result<Exported> moved(ExportContext& context, int n, Move move) {
  const Node& node = context.graph.nodes[n];
  Exported out = context.input(node);
  out.name = move(context, node);
  return out;
}

Result<Exported> moved_rows(ExportContext& context, int n, Move move) {
  const Exported& in = context.input(context.graph.nodes[n]);
  if (in.form != Form::kRows) return invalid_input("moves no positions");
  if (has_padding(context, in.side)) return invalid_input("moves the positions that a mask counts");
  MANTISSA_ASSIGN(Exported out, moved(context, n, move));
  out.repeats_last = false;
  return out;
}

}  // namespace

Result<Exported> export_gather_rows(ExportContext& context, int n) {
  return moved(context, n, gathered);
}

Result<Exported> export_row_gather_rows(ExportContext& context, int n) {
  return moved_rows(context, n, gathered);
}

Result<Exported> export_scatter_rows(ExportContext& context, int n) {
  return moved(context, n, scattered);
}

Result<Exported> export_row_scatter_rows(ExportContext& context, int n) {
  return moved_rows(context, n, scattered);
}

}  // namespace mantissa::onnx
