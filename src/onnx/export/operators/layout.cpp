// Operators that move numbers and compute nothing. Images are [N, C, H, W] in the model and
// [H, W, C] here; vectors have our own order in both.
#include <algorithm>
#include <limits>
#include <vector>

#include "onnx/export/inputs.h"
#include "onnx/export/operators.h"
#include "onnx/export/rows.h"
#include "onnx/export/volumes.h"
#include "ops/attributes.h"
#include "ops/ops.h"

namespace mantissa::onnx {
namespace {

// Whether the elements of an image lie in the same order with the channels first and last.
bool is_one_order(const Shape& image) { return image[2] == 1 || image[0] * image[1] == 1; }

// A value as a vector; `shape` is its own.
std::string flat(ExportContext& context, std::string tensor, const Shape& shape,
                 const std::string& name) {
  if (shape.rank == 3 && !is_one_order(shape)) {
    tensor = context.builder.add("Transpose", name + "/channels_last", {tensor},
                                 {ints("perm", {0, 2, 3, 1})});
  }
  return context.builder.add("Flatten", name, {tensor});
}

// A value of one shape, a vector or an image, as one of another.
std::string as_image(ExportContext& context, std::string tensor, const Shape& from,
                     const Shape& image, const std::string& name) {
  if (from == image) return tensor;
  if (image.rank == 1) return flat(context, tensor, from, name);
  ExportBuilder& to = context.builder;
  if (from.rank == 3) tensor = flat(context, tensor, from, name + "/vector");
  const bool one_order = is_one_order(image);
  const std::vector<int64_t> dims = one_order
                                        ? std::vector<int64_t>{0, image[2], image[0], image[1]}
                                        : std::vector<int64_t>{0, image[0], image[1], image[2]};
  tensor = to.add("Reshape", one_order ? name : name + "/channels_last",
                  {tensor, to.list(name + "/shape", dims)});
  if (one_order) return tensor;
  return to.add("Transpose", name, {tensor}, {ints("perm", {0, 3, 1, 2})});
}

// Mantissas joined along an axis of the file's layout.
Result<Exported> joined(ExportContext& context, int n, int64_t axis) {
  const Node& node = context.graph.nodes[n];
  std::vector<std::string> inputs;
  bool any_signed = false;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const Exported& in = context.input(node, i);
    inputs.push_back(real(context, in, node.name + "/" + std::to_string(i)));
    any_signed = any_signed || in.is_signed();
  }
  return quantised(
      context, n,
      context.builder.add("Concat", node.name + "/real", std::move(inputs), {{"axis", axis}}),
      any_signed && is_signed(context, n));
}

}  // namespace

Result<Exported> export_identity(ExportContext& context, int n) {
  return context.input(context.graph.nodes[n]);
}

Result<Exported> export_concat(ExportContext& context, int n) {
  return joined(context, n, 1);
}

Result<Exported> export_concat_positions(ExportContext& context, int n) {
  return joined(context, n, 3);
}

Result<Exported> export_flatten(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  Exported out = whole_input(context, node);
  out.name = flat(context, out.name, whole_shape(context.shape(node.inputs[0])),
                  context.output_name(node));
  return out;
}

Result<Exported> export_reshape(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  const Shape& result = context.shape(node.outputs[0]);
  const Shape from = whole_shape(context.shape(node.inputs[0])), image = whole_shape(result);
  const std::string name = context.output_name(node);
  if (context.shape(node.inputs[0]) == result) return context.input(node);
  Exported out = whole_input(context, node);
  if (ops::is_volume(result)) {
    out.name = as_image(context, out.name, from, image, name + "/whole_image");
    out.name = image_as_volume(context, out.name, result, name);
    return out;
  }
  out.name = as_image(context, out.name, from, image, name);
  return out;
}

Result<Exported> export_pad(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  const auto& side = node.attributes.as<ops::PadAttributes>();
  ExportBuilder& to = context.builder;
  Exported out = context.input(node);
  const std::string sides =
      to.list(node.name + "/sides", {0, 0, side.top, side.left, 0, 0, side.bottom, side.right});
  const std::string zero = out.form == Form::kBytes ? to.byte(out.zero) : to.scalar(0, "zero");
  out.name = to.add("Pad", context.output_name(node), {out.name, sides, zero});
  return out;
}

// A position of a sequence, or of an image of one row, as a vector.
Result<Exported> slice_position(ExportContext& context, const Node& node) {
  const auto& slice = node.attributes.as<ops::SliceAttributes>();
  const Shape image = context.image_shape(node.inputs[0]);
  if (image[0] != 1 || slice.channels != image[2]) {
    return invalid_input("takes a column of an image");
  }
  ExportBuilder& to = context.builder;
  Exported out = context.input(node);
  const std::string position =
      to.add("Slice", node.name + "/position",
             {out.name, to.list(node.name + "/first", {slice.position}),
              to.list(node.name + "/end", {slice.position + 1}), to.list("position_axis", {3})});
  out.name = to.add("Flatten", context.output_name(node), {position});
  return out;
}

Result<Exported> export_slice(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  const auto& slice = node.attributes.as<ops::SliceAttributes>();
  if (slice.position >= 0) return slice_position(context, node);
  const int64_t first = slice.first;
  ExportBuilder& to = context.builder;
  Exported out = context.input(node);
  out.name = to.add(
      "Slice", context.output_name(node),
      {out.name, to.list(node.name + "/first", {first}),
       to.list(node.name + "/end", {first + slice.channels}), to.list(node.name + "/axis", {1})});
  return out;
}

// The channels as a matrix of `groups` rows, transposed.
Result<Exported> export_channel_shuffle(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  const Shape shape = context.image_shape(node.outputs[0]);
  const int64_t groups = node.attributes.as<ops::ShuffleAttributes>().groups,
                channels = shape.last();
  ExportBuilder& to = context.builder;
  Exported out = context.input(node);
  std::vector<int64_t> rows = {0, groups, channels / groups}, back = {0, channels},
                       order = {0, 2, 1};
  if (shape.rank == 3) {
    rows.push_back(shape[0] * shape[1]);
    back.insert(back.end(), {shape[0], shape[1]});
    order.push_back(3);
  }
  const std::string matrix =
      to.add("Reshape", node.name + "/rows", {out.name, to.list(node.name + "/rows/shape", rows)});
  const std::string shuffled =
      to.add("Transpose", node.name + "/columns", {matrix}, {ints("perm", order)});
  out.name =
      to.add("Reshape", context.output_name(node), {shuffled, to.list(node.name + "/shape", back)});
  return out;
}

namespace {

// Whether rows of this shape, as an image, are the same rows to those who read them. The positions
// of an image of one column are its height: only means and sums take these for positions.
bool stay_rows(const ExportContext& context, const Shape& from, int value) {
  const Shape& shape = context.shape(value);
  if (shape.rank < 2 || shape.last() != from.last()) return false;
  if (shape.rank == 2 || shape[0] == 1) return true;
  const std::vector<int>& readers = context.readers[static_cast<size_t>(value)];
  return shape[1] == 1 && std::all_of(readers.begin(), readers.end(), [&](int reader) {
           const Op* op = context.graph.nodes[reader].op;
           return op == &ops::kGlobalAveragePool || op == &ops::kRescaledGlobalAverage ||
                  op == &ops::kReduceMean || op == &ops::kReduceSum;
         });
}

}  // namespace

Result<Exported> export_row_flatten(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  const Exported& in = context.input(node);
  const bool of_rows = in.form == Form::kRows;
  if (of_rows && stay_rows(context, context.shape(node.inputs[0]), node.outputs[0])) return in;
  if (context.shape(node.outputs[0]).rank != 1) {
    return invalid_input("changes the shape of a sequence whose length is open");
  }
  if (!of_rows) return in;
  ExportBuilder& to = context.builder;
  return Exported{.name = to.add("Reshape", context.output_name(node),
                                 {in.name, to.list("flat_shape", {0, -1})}),
                  .form = has_fixed_length(context.graph) ? Form::kVector : Form::kFlat,
                  .repeats_last = in.repeats_last};
}

Result<Exported> export_row_slice(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  Exported in = context.input(node);
  const auto [first, channels, position] = node.attributes.as<ops::SliceAttributes>();
  ExportBuilder& to = context.builder;
  const Shape shape = context.shape(node.inputs[0]);
  const auto other_position = [] {
    return invalid_input(
        "takes another position than the first or last of a sequence whose length is open");
  };
  const auto check_last = [&]() -> Status {
    if (!has_padding(context, in.side) || in.repeats_last) return {};
    return invalid_input("takes the last position, which may be padding");
  };
  if (position >= 0) {
    const bool is_last = position > 0 && position + 1 == shape[shape.rank - 2];
    const bool is_known = position == 0 || has_fixed_length(context.graph);
    if (!is_last && !is_known) return other_position();
    if (is_last) MANTISSA_RETURN_IF_ERROR(check_last());
    const std::string at = is_last         ? "positions/last"
                           : position == 0 ? "positions/zero"
                                           : "positions/at_" + std::to_string(position);
    const std::string place =
        to.numbers<int64_t>(at, ElementType::kInt64, {}, {is_last ? int64_t{-1} : position});
    in.name = to.add("Gather", context.output_name(node) + "/position", {in.name, place},
                     {{"axis", int64_t{1}}});
    in.form = Form::kVector;
    if (channels == shape.last()) return in;
  }
  const auto slice = [&](int64_t begin, int64_t end) -> Exported {
    return {to.add("Slice", context.output_name(node),
                   {in.name, to.list(node.name + "/first", {begin}),
                    to.list(node.name + "/end", {end}), to.list("last_axis", {-1})}),
            in.form == Form::kRows ? Form::kRows : Form::kVector};
  };
  if (in.form != Form::kFlat || first == 0) return slice(first, first + channels);
  if (first + channels != shape.last()) return other_position();
  MANTISSA_RETURN_IF_ERROR(check_last());
  return slice(-channels, std::numeric_limits<int64_t>::max());
}

Result<Exported> export_row_concat(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  MANTISSA_ASSIGN(std::vector<std::string> inputs, inputs_of_one_form(context, node));
  return Exported{context.builder.add("Concat", context.output_name(node), std::move(inputs),
                                      {{"axis", int64_t{-1}}}),
                  context.input(node).form};
}

Result<Exported> export_row_concat_positions(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  if (has_padding(context, context.input(node).side)) {
    return invalid_input("moves the positions that a mask counts");
  }
  MANTISSA_ASSIGN(std::vector<std::string> inputs, inputs_of_one_form(context, node));
  return Exported{context.builder.add("Concat", context.output_name(node), std::move(inputs),
                                      {{"axis", int64_t{1}}}),
                  Form::kRows};
}

Result<Exported> export_reverse(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  if (context.shape(node.inputs[0]).rank < 2) return invalid_input("reverses no positions");
  ExportBuilder& to = context.builder;
  Exported out = context.input(node);
  out.name = to.add("Slice", context.output_name(node),
                    {out.name, to.list("reverse/first", {-1}),
                     to.list("reverse/end", {std::numeric_limits<int64_t>::min()}),
                     to.list("position_axis", {3}), to.list("reverse/step", {-1})});
  return out;
}

// Padding comes first, then, and in the model there is as much of it as its user likes.
Result<Exported> export_row_reverse(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  const Exported& in = context.input(node);
  if (in.form != Form::kRows) return invalid_input("reverses no positions");
  if (has_padding(context, in.side)) return invalid_input("puts padding in front of a sequence");
  ExportBuilder& to = context.builder;
  return Exported{to.add("Slice", context.output_name(node),
                         {in.name, to.list("reverse/first", {-1}),
                          to.list("reverse/end", {std::numeric_limits<int64_t>::min()}),
                          to.list("sequence_axis", {1}), to.list("reverse/step", {-1})}),
                  Form::kRows};
}

}  // namespace mantissa::onnx
