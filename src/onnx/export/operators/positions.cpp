// Positions of sequences: trained rows that are added or stand in front, sines and cosines, and
// channels that turn with the position.
#include <cmath>
#include <numbers>
#include <vector>

#include "onnx/export/inputs.h"
#include "onnx/export/operators.h"
#include "onnx/export/parameters.h"
#include "onnx/export/rows.h"
#include "ops/attributes.h"
#include "ops/sequences/angles.h"

namespace mantissa::onnx {
namespace {

// The positions of what the node reads: int64 [sequence].
std::string positions_of(ExportContext& context, const Node& node) {
  const Shape& shape = context.shape(node.inputs[0]);
  return positions(context, context.input(node).side, shape[shape.rank - 2]);
}

// The angle by which a pair turns with each position.
double frequency(int64_t pair, int64_t pairs, double base) {
  return std::pow(base, -static_cast<double>(pair) / static_cast<double>(pairs));
}

// By which the angles of a pair are divided.
double factor_of(const ops::RotaryAttributes& attributes, int64_t pair) {
  const WholeList& factors = attributes.factors;
  if (factors.empty()) return 1;
  return std::ldexp(factors[factors.size() == 1 ? 0 : static_cast<size_t>(pair)],
                    -ops::kFactorBits);
}

// Positions times a frequency for each channel: float32 [sequence, channels].
std::string angles(ExportContext& context, const Node& node,
                   const std::vector<float>& frequencies) {
  ExportBuilder& to = context.builder;
  const std::string& name = node.name;
  const std::string numbers =
      to.cast(name + "/positions", positions_of(context, node), ElementType::kFloat);
  const std::string column =
      to.add("Unsqueeze", name + "/column", {numbers, to.list("last_axis", {-1})});
  return to.add("Mul", name + "/angles",
                {column, to.numbers(name + "/frequencies", ElementType::kFloat,
                                    {std::ssize(frequencies)}, frequencies)});
}

}  // namespace

Result<Exported> export_row_positions(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  MANTISSA_ASSIGN(const std::string rows,
                  table_rows(context, node.parameters[0], positions_of(context, node),
                             node.name + "/positions"));
  return Exported{
      context.builder.add("Add", context.output_name(node), {context.input(node).name, rows}),
      Form::kRows};
}

// A cosine is the sine of a quarter turn more.
Result<Exported> export_row_sinusoids(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  const auto& attributes = node.attributes.as<ops::SinusoidalAttributes>();
  const int64_t channels = context.shape(node.inputs[0]).last(), pairs = channels / 2;
  const ops::PairPlaces places(attributes.interleaved, pairs);
  std::vector<float> frequencies(static_cast<size_t>(channels));
  std::vector<float> starts(static_cast<size_t>(channels));
  for (int64_t i = 0; i < pairs; ++i) {
    const auto turn = static_cast<float>(frequency(i, pairs, attributes.base));
    frequencies[static_cast<size_t>(places.first(i))] = turn;
    frequencies[static_cast<size_t>(places.second(i))] = turn;
    starts[static_cast<size_t>(places.second(i))] = std::numbers::pi_v<float> / 2;
  }
  ExportBuilder& to = context.builder;
  const std::string& name = node.name;
  const std::string turned =
      to.add("Add", name + "/turned",
             {angles(context, node, frequencies),
              to.numbers(name + "/starts", ElementType::kFloat, {channels}, starts)});
  const std::string sines = to.add("Sin", name + "/sines", {turned});
  return Exported{to.add("Add", context.output_name(node), {context.input(node).name, sines}),
                  Form::kRows};
}

// Each channel times its cosine, and its partner in the pair times the sine, with a sign. Channels
// that do not turn are their own partners, with a frequency of 0.
Result<Exported> export_row_rotary(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  const auto& attributes = node.attributes.as<ops::RotaryAttributes>();
  if (node.inputs.size() > 1) {
    return invalid_input("reads segments of packed sequences, which the exported form lacks");
  }
  const int64_t channels = context.shape(node.inputs[0]).last();
  const int64_t of_head = channels / attributes.heads;
  const int64_t pairs = (attributes.channels == 0 ? of_head : attributes.channels) / 2;
  const ops::PairPlaces places(attributes.interleaved, pairs);
  std::vector<float> frequencies(static_cast<size_t>(of_head));
  std::vector<float> signs(static_cast<size_t>(of_head));
  std::vector<int64_t> partners(static_cast<size_t>(of_head));
  for (int64_t i = 0; i < of_head; ++i) partners[static_cast<size_t>(i)] = i;
  for (int64_t i = 0; i < pairs; ++i) {
    const auto first = static_cast<size_t>(places.first(i));
    const auto second = static_cast<size_t>(places.second(i));
    frequencies[first] =
        static_cast<float>(frequency(i, pairs, attributes.base) / factor_of(attributes, i));
    frequencies[second] = frequencies[first];
    signs[first] = -1, signs[second] = 1;
    std::swap(partners[first], partners[second]);
  }
  ExportBuilder& to = context.builder;
  const std::string& name = node.name;
  const std::string by_head = to.list(name + "/head_axis", {1});
  const std::string turn = to.add("Unsqueeze", name + "/turn",
                                  {angles(context, node, frequencies), by_head});
  const std::string cosines = to.add("Cos", name + "/cosines", {turn});
  const std::string sines =
      to.add("Mul", name + "/sines",
             {to.add("Sin", name + "/plain_sines", {turn}),
              to.numbers(name + "/signs", ElementType::kFloat, {of_head}, signs)});
  const std::string heads =
      to.add("Reshape", name + "/heads",
             {context.input(node).name,
              to.list(name + "/heads/shape", {0, 0, attributes.heads, of_head})});
  const std::string others =
      to.add("Gather", name + "/others", {heads, to.list(name + "/partners", partners)},
             {{"axis", int64_t{3}}});
  const std::string kept = to.add("Mul", name + "/kept", {heads, cosines});
  const std::string added = to.add("Mul", name + "/added", {others, sines});
  const std::string all = to.add("Add", name + "/all", {kept, added});
  return Exported{to.add("Reshape", context.output_name(node),
                         {all, to.list(name + "/joined", {0, 0, channels})}),
                  Form::kRows};
}

// The rows for each example, before those of the example.
Result<Exported> export_row_prepend(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  const Exported& in = context.input(node);
  if (has_padding(context, in.side)) return invalid_input("moves the positions that a mask counts");
  const int64_t rows = node.attributes.as<ops::PrependAttributes>().rows;
  ExportBuilder& to = context.builder;
  const std::string& name = node.name;
  std::vector<int64_t> all(static_cast<size_t>(rows));
  for (int64_t i = 0; i < rows; ++i) all[static_cast<size_t>(i)] = i;
  MANTISSA_ASSIGN(const std::string table,
                  table_rows(context, node.parameters[0], to.list(name + "/all", all),
                             name + "/trained"));
  const std::string shape = to.add("Shape", name + "/shape", {in.name});
  const std::string examples = to.add(
      "Gather", name + "/examples",
      {shape, to.list(name + "/first", {0})});
  const std::string wanted =
      to.add("Concat", name + "/wanted",
             {examples, to.list(name + "/size", {rows, context.shape(node.inputs[0]).last()})},
             {{"axis", int64_t{0}}});
  const std::string front = to.add("Expand", name + "/front", {table, wanted});
  return Exported{to.add("Concat", context.output_name(node), {front, in.name},
                         {{"axis", int64_t{1}}}),
                  Form::kRows};
}

}  // namespace mantissa::onnx
