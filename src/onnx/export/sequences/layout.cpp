// Operators that take positions and channels apart and together.
#include <limits>

#include "onnx/export/context.h"
#include "onnx/export/sequences/operators.h"

namespace mantissa::onnx {
namespace {

using Form = SequenceValue::Form;

}  // namespace

Result<SequenceValue> export_flat_rows(SequenceContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  const SequenceValue& in = context.input(node);
  if (context.shape(node.outputs[0]).rank != 1) {
    return invalid_input("changes the shape of a sequence whose length is open");
  }
  if (in.form != Form::kRows) return in;
  ExportBuilder& to = context.builder;
  return SequenceValue{
      to.add("Reshape", output_name(context, node), {in.name, to.list("flat_shape", {0, -1})}),
      Form::kFlat, in.side, in.repeats_last};
}

Result<SequenceValue> export_slice_of_rows(SequenceContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  SequenceValue in = context.input(node);
  const int64_t first = node.attributes.whole("first");
  const int64_t channels = node.attributes.whole("channels");
  const int64_t position = node.attributes.whole("position");
  ExportBuilder& to = context.builder;
  const Shape shape = context.shape(node.inputs[0]);
  const auto other_position = [] {
    return invalid_input(
        "takes another position than the first or last of a sequence whose length is open");
  };
  const auto check_last = [&]() -> Status {
    if (!context.has_padding(in.side) || in.repeats_last) return {};
    return invalid_input("takes the last position, which may be padding");
  };
  if (position >= 0) {
    const bool is_last = position > 0;
    if (is_last && position + 1 != shape[shape.rank - 2]) return other_position();
    if (is_last) MANTISSA_RETURN_IF_ERROR(check_last());
    const std::string place =
        to.numbers<int64_t>(is_last ? "positions/last" : "positions/zero", ElementType::kInt64, {},
                            {is_last ? int64_t{-1} : 0});
    in.name = to.add("Gather", output_name(context, node) + "/position", {in.name, place},
                     {{"axis", int64_t{1}}});
    in.form = Form::kVector;
    if (channels == shape.last()) return in;
  }
  const auto slice = [&](int64_t begin, int64_t end) -> SequenceValue {
    return {to.add("Slice", output_name(context, node),
                   {in.name, to.list(node.name + "/first", {begin}),
                    to.list(node.name + "/end", {end}), to.list("last_axis", {-1})}),
            in.form == Form::kRows ? Form::kRows : Form::kVector, in.side};
  };
  if (in.form != Form::kFlat || first == 0) return slice(first, first + channels);
  if (first + channels != shape.last()) return other_position();
  MANTISSA_RETURN_IF_ERROR(check_last());
  return slice(-channels, std::numeric_limits<int64_t>::max());
}

Result<SequenceValue> export_concat_of_rows(SequenceContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  MANTISSA_ASSIGN(std::vector<std::string> inputs, inputs_of_one_form(context, node));
  return SequenceValue{context.builder.add("Concat", output_name(context, node), std::move(inputs),
                                           {{"axis", int64_t{-1}}}),
                       context.input(node).form};
}

// Here padding counts, too; in the model there is as much of it as its user likes.
Result<SequenceValue> export_mean_of_rows(SequenceContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  const SequenceValue& in = context.input(node);
  if (in.form != Form::kRows) return invalid_input("is no mean over positions");
  if (context.has_padding(in.side)) return invalid_input("is a mean that counts padding");
  ExportBuilder& to = context.builder;
  return SequenceValue{to.add("ReduceMean", output_name(context, node),
                              {in.name, to.list("sequence_axis", {1})}, {{"keepdims", int64_t{0}}}),
                       Form::kVector};
}

// Padding comes first, then, and in the model there is as much of it as its user likes.
Result<SequenceValue> export_reversed_rows(SequenceContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  const SequenceValue& in = context.input(node);
  if (in.form != Form::kRows) return invalid_input("reverses no positions");
  if (context.has_padding(in.side)) return invalid_input("puts padding in front of a sequence");
  ExportBuilder& to = context.builder;
  return SequenceValue{to.add("Slice", output_name(context, node),
                              {in.name, to.list("reverse/first", {-1}),
                               to.list("reverse/end", {std::numeric_limits<int64_t>::min()}),
                               to.list("sequence_axis", {1}), to.list("reverse/step", {-1})}),
                       Form::kRows};
}

}  // namespace mantissa::onnx
