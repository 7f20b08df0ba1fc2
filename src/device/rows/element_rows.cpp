// Inputs, element-wise operators and moves of frozen networks.
#include <algorithm>
#include <array>
#include <numeric>

#include "device/rows/frozen_rows.h"
#include "numerics/exponent.h"
#include "ops/attributes.h"
#include "ops/pixels.h"

namespace mantissa::device {
namespace {

Status write_pixels(CWriter& writer, const OpContext& c) {
  const auto& attributes = c.attributes<ops::InputAttributes>();
  const int64_t channels = c.output().shape.last();
  std::vector<int64_t> means(static_cast<size_t>(channels));
  std::copy(attributes.means.begin(), attributes.means.end(), means.begin());
  const int wide = ops::kPixelExponent - attributes.fraction_bits;
  writer.include("device/runtime/input.h");
  const std::string pixels =
      writer.structure("DevPixels", "pixels_in",
                       {{"pixels", writer.input()},
                        {"means", writer.table("int32_t", "means", means)},
                        {"out", writer.output()},
                        {"count", c_number(c.output().count() / channels)},
                        {"channels", c_number(channels)},
                        {"fraction", c_number(attributes.fraction_bits)},
                        {"shift", c_number(*c.output().exponent - wide + (c.mode.half_up ? 1 : 0))},
                        {"limit", c_number(mantissa_limit(c.output().bits))},
                        {"half_up", c.mode.half_up ? "true" : "false"}});
  writer.statement("dev_pixels(" + pixels + ");");
  return {};
}

Status write_numbers(CWriter& writer, const OpContext& c) {
  writer.include("device/runtime/input.h");
  const std::string numbers =
      writer.structure("DevNumbers", "numbers_in",
                       {{"numbers", writer.input()},
                        {"out", writer.output()},
                        {"count", c_number(c.output().count())},
                        {"shift", c_number(*c.output().exponent - *c.inputs[0].exponent)},
                        {"limit", c_number(mantissa_limit(c.output().bits))}});
  writer.statement("dev_numbers(" + numbers + ");");
  return {};
}

Status write_relu(CWriter& writer, const OpContext& c) {
  writer.include("reference/elements/elementwise.h");
  writer.statement("ref_relu(" + writer.input() + ", " + writer.output() + ", 0, " +
                   c_number(c.output().count()) + ");");
  return {};
}

Status write_add(CWriter& writer, const OpContext& c) {
  const int a = *c.inputs[0].exponent, b = *c.inputs[1].exponent;
  const int wide = aligned_exponent(a, b, kAlignBits8);
  writer.include("reference/elements/elementwise.h");
  const std::string add = writer.structure("RefAdd", "add",
                                           {{"a", writer.input(0)},
                                            {"b", writer.input(1)},
                                            {"shift_a", c_number(wide - a)},
                                            {"shift_b", c_number(wide - b)},
                                            {"relu", c.mode.relu ? "true" : "false"},
                                            {"shift", c_number(*c.output().exponent - wide)},
                                            {"out", writer.output()},
                                            {"bits", c_number(c.output().bits)}});
  writer.statement("(void)ref_add(" + add + ", 0, " + c_number(c.output().count()) + ");");
  return {};
}

// The same of the tie-free form (ops/pointwise/tie_free.cpp).
Status write_add_half_up(CWriter& writer, const OpContext& c) {
  enum { kMostAddShift = 40 };
  const int a = *c.inputs[0].exponent, b = *c.inputs[1].exponent, out = *c.output().exponent;
  const int unit = std::min({a, b, out});
  const auto above = [unit](int exponent) -> std::string {
    return c_number(std::min<int>(exponent - unit, kMostAddShift));
  };
  writer.include("device/runtime/half_up.h");
  const std::string add = writer.structure(
      "DevAddHalfUp", "add",
      {{"a", writer.input(0)},
       {"b", writer.input(1)},
       {"out", writer.output()},
       {"count", c_number(c.output().count())},
       {"left_a", above(a)},
       {"left_b", above(b)},
       {"shift", above(out)},
       {"least", c_number(c.mode.relu ? 0 : INT8_MIN)},
       {"most", c_number(c.mode.relu ? mantissa_limit(c.output().bits) : INT8_MAX)}});
  writer.statement("dev_add_half_up(" + add + ");");
  return {};
}

// Mantissas of 8 bits as the results.
Status write_widened(CWriter& writer, const OpContext& c) {
  writer.include("device/runtime/half_up.h");
  writer.statement("dev_widen(" + writer.input() + ", " +
                   writer.at(writer.instruction().output(), "int32_t") + ", " +
                   c_number(c.output().count()) + ");");
  return {};
}

// The results for all mantissas of 8 bits, by their byte: the exponents are fixed, so that the
// operator itself makes the table.
std::array<int8_t, 256> results_of_all(const CWriter& writer, const OpContext& c) {
  constexpr size_t kWorkspace = 1 << 16;  // of any operator on 256 elements
  std::array<int8_t, 256> from, to;
  std::iota(from.begin(), from.end(), int8_t{0});
  std::vector<std::byte> workspace(kWorkspace);
  Tensor in = c.inputs[0], out = c.output();
  in.data = from.data();
  out.data = to.data();
  in.shape = out.shape = Shape{1, 256};
  OpContext all = c;
  all.inputs = {&in, 1};
  all.outputs = {&out, 1};
  all.memory.workspace = workspace.data();
  writer.instruction().row->run(all);
  return to;
}

Status write_table(CWriter& writer, const OpContext& c) {
  const auto results = results_of_all(writer, c);
  writer.include("reference/elements/elementwise.h");
  writer.statement(
      "ref_look_up(" + writer.input() + ", " +
      writer.table("int8_t", "table", std::vector<int64_t>(results.begin(), results.end())) + ", " +
      writer.output() + ", 0, " + c_number(c.output().count()) + ");");
  return {};
}

Status write_concat(CWriter& writer, const OpContext& c) {
  const int64_t channels = c.output().shape.last();
  int64_t first = 0;
  writer.include("device/runtime/shapes.h");
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    const Tensor& part = c.inputs[i];
    const std::string what = "part" + c_number(static_cast<int64_t>(i));
    const std::string address =
        writer.structure("DevPart", what,
                         {{"from", writer.input(i)},
                          {"channels", c_number(part.shape.last())},
                          {"shift", c_number(*c.output().exponent - *part.exponent)},
                          {"out_channels", c_number(channels)},
                          {"rows", c_number(c.output().count() / channels)},
                          {"to", writer.output() + " + " + c_number(first)}});
    writer.statement("dev_part(" + address + ");");
    first += part.shape.last();
  }
  return {};
}

Status write_pad(CWriter& writer, const OpContext& c) {
  const auto& p = c.attributes<ops::PadAttributes>();
  const Shape& in = c.inputs[0].shape;
  writer.include("device/runtime/shapes.h");
  const std::string pad = writer.structure("DevPad", "pad",
                                           {{"from", writer.input()},
                                            {"batch", c_number(in[0])},
                                            {"height", c_number(in[1])},
                                            {"width", c_number(in[2])},
                                            {"channels", c_number(in[3])},
                                            {"top", c_number(p.top)},
                                            {"bottom", c_number(p.bottom)},
                                            {"left", c_number(p.left)},
                                            {"right", c_number(p.right)},
                                            {"to", writer.output()}});
  writer.statement("dev_pad(" + pad + ");");
  return {};
}

// The second input may be a gate: a factor for each channel of an image.
Status write_multiply(CWriter& writer, const OpContext& c) {
  const Shape &a = c.inputs[0].shape, &b = c.inputs[1].shape;
  const bool is_gate = a.count() != b.count();
  writer.include("device/runtime/products.h");
  const std::string multiply = writer.structure(
      "DevMultiply", "multiply",
      {{"a", writer.input(0)},
       {"b", writer.input(1)},
       {"out", writer.output()},
       {"count", c_number(a.count())},
       {"image", c_number(a.count() / a[0])},
       {"period", c_number(is_gate ? b.count() / b[0] : 0)},
       {"shift", c_number(*c.output().exponent - *c.inputs[0].exponent - *c.inputs[1].exponent)},
       {"limit", c_number(mantissa_limit(c.output().bits))}});
  writer.statement("dev_multiply(" + multiply + ");");
  return {};
}

// A batch norm that no layer took in.
Status write_scale_offset(CWriter& writer, const OpContext& c) {
  const Tensor &multiplier = c.parameters[0].mantissa, &offset = c.parameters[1].mantissa;
  const int64_t channels = c.output().shape.last();
  const std::vector<int64_t> multipliers(multiplier.as<int32_t>(),
                                         multiplier.as<int32_t>() + channels);
  const std::vector<int64_t> offsets(offset.as<int64_t>(), offset.as<int64_t>() + channels);
  writer.include("device/runtime/products.h");
  const std::string scale =
      writer.structure("DevScaleOffset", "scale",
                       {{"in", writer.input()},
                        {"out", writer.output()},
                        {"count", c_number(c.output().count())},
                        {"channels", c_number(channels)},
                        {"multipliers", writer.table("int32_t", "multipliers", multipliers)},
                        {"offsets", writer.table("int64_t", "offsets", offsets)},
                        {"shift", c_number(*c.output().exponent - *multiplier.exponent)},
                        {"limit", c_number(mantissa_limit(c.output().bits))},
                        {"relu", c.mode.relu ? "true" : "false"}});
  writer.statement("dev_scale_offset(" + scale + ");");
  return {};
}

constexpr FrozenRow kElementRows[] = {{"normalise_input", write_pixels},
                                      {"quantise_input", write_numbers},
                                      {"relu", write_relu},
                                      {"add", write_add},
                                      {"add_half_up", write_add_half_up},
                                      {"widen", write_widened},
                                      {"multiply", write_multiply},
                                      {"scale_offset", write_scale_offset},
                                      {"relu6", write_table},
                                      {"leaky_relu", write_table},
                                      {"sigmoid", write_table},
                                      {"tanh", write_table},
                                      {"hard_sigmoid", write_table},
                                      {"hard_swish", write_table},
                                      {"gelu", write_table},
                                      {"gelu_tanh", write_table},
                                      {"silu", write_table},
                                      {"elu", write_table},
                                      {"softplus", write_table},
                                      {"mish", write_table},
                                      {"concat", write_concat},
                                      {"pad", write_pad}};

}  // namespace

std::span<const FrozenRow> element_rows() { return kElementRows; }

}  // namespace mantissa::device
