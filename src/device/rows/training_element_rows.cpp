// Inputs, element-wise operators, moves and losses of training programs.
#include "device/rows/training_parts.h"
#include "device/rows/training_rows.h"
#include "numerics/rounding.h"
#include "ops/attributes.h"
#include "ops/pixels.h"

namespace mantissa::device {
namespace {

const Value& input_value(const TrainingWriter& writer, const Operand& operand) {
  const Graph& graph = writer.graph();
  return graph.values[static_cast<size_t>(graph.inputs[static_cast<size_t>(operand.index)])];
}

Status write_train_pixels(TrainingWriter& writer, const Instruction& i) {
  const auto& of = attributes<ops::InputAttributes>(writer, i);
  std::vector<int64_t> means(static_cast<size_t>(i.output().shape.last()));
  std::copy(of.means.begin(), of.means.end(), means.begin());
  writer.include("device/operators/elements.h");
  const std::string out = writer.tensor(i.output(), "out");
  const std::string pixels =
      writer.structure("DevTrainingPixels", "pixels",
                       {{"pixels", writer.input(i.inputs()[0], "uint8_t")},
                        {"means", writer.table("int32_t", "means", means)},
                        {"fraction", c_number(of.fraction_bits)},
                        {"exponent", c_number(ops::kPixelExponent - of.fraction_bits)}});
  writer.statement("dev_train_pixels" + rounding(writer) + "(step, " + pixels + ", " + out + ");");
  return {};
}

Status write_train_numbers(TrainingWriter& writer, const Instruction& i) {
  writer.include("device/operators/elements.h");
  const std::string out = writer.tensor(i.output(), "out");
  writer.statement("dev_train_numbers(step, " + writer.input(i.inputs()[0], "int16_t") + ", " +
                   c_number(input_value(writer, i.inputs()[0]).exponent) + ", " + out + ");");
  return {};
}

Status write_train_relu(TrainingWriter& writer, const Instruction& i) {
  writer.include("device/operators/elements.h");
  const std::string in = writer.tensor(i.inputs()[0], "in");
  writer.statement("dev_train_relu(" + in + ", " + writer.tensor(i.output(), "out") + ");");
  return {};
}

Status write_masked(TrainingWriter& writer, const Instruction& i) {
  writer.include("device/operators/elements.h");
  const std::string out =
      i.output().exists() ? writer.tensor(i.output(), "out") : std::string("NULL");
  const std::string grad_out = writer.tensor(i.grad_output(), "grad_out");
  const std::string grad_in = writer.tensor(written_gradient(i), "grad_in");
  writer.statement("dev_train_masked(" + out + ", " + grad_out + ", " + grad_in + ");");
  return {};
}

Status write_train_add(TrainingWriter& writer, const Instruction& i) {
  writer.include("device/operators/elements.h");
  const std::string a = writer.tensor(i.inputs()[0], "a");
  const std::string b = writer.tensor(i.inputs()[1], "b");
  const std::string out = writer.tensor(i.output(), "out");
  writer.statement("dev_train_add" + rounding(writer) + "(step, " + a + ", " + b + ", " +
                   (i.relu ? "true" : "false") + ", " + out + ");");
  return {};
}

Status write_train_sum(TrainingWriter& writer, const Instruction& i) {
  writer.include("device/operators/elements.h");
  const std::string a = writer.tensor(i.inputs()[0], "a");
  const std::string b = writer.tensor(i.inputs()[1], "b");
  const std::string sum = writer.tensor(written_gradient(i), "sum");
  writer.statement("dev_train_sum(step, " + a + ", " + b + ", " + sum + ");");
  return {};
}

Status write_round(TrainingWriter& writer, const Instruction& i) {
  writer.include("device/operators/elements.h");
  const std::string wide = writer.tensor(i.inputs()[0], "wide");
  const std::string out = writer.tensor(written_gradient(i), "out");
  writer.statement("dev_train_round(step, " + wide + ", " + out + ");");
  return {};
}

Status write_round_at_random(TrainingWriter& writer, const Instruction& i) {
  writer.include("device/operators/elements.h");
  const std::string wide = writer.tensor(i.inputs()[0], "wide");
  const Operand& written = written_gradient(i);
  const std::string out = writer.tensor(written, "out");
  const int key = writer.program().exponents[static_cast<size_t>(written.exponent)].key;
  writer.statement("dev_train_round_at_random(step, " + wide + ", " + c_number(key) + ", " + out +
                   ");");
  return {};
}

// A DevDropout of a value or a gradient.
std::string dropout(TrainingWriter& writer, const Instruction& i, const std::string& in) {
  constexpr int64_t kOne = 65536;  // probability 1
  const int64_t dropped = attributes<ops::DropoutAttributes>(writer, i).dropped;
  writer.include("device/operators/elements.h");
  return writer.structure(
      "DevDropout", "dropout",
      {{"in", in},
       {"node", c_number(i.node)},
       {"dropped", c_number(dropped)},
       {"scale", "INT64_C(" + c_number(divide_rne(kOne << 30, kOne - dropped)) + ")"}});
}

Status write_dropout(TrainingWriter& writer, const Instruction& i) {
  const std::string of = dropout(writer, i, writer.tensor(i.inputs()[0], "in"));
  writer.statement("dev_train_dropout(step, " + of + ", " + writer.tensor(i.output(), "out") +
                   ");");
  return {};
}

Status write_dropout_gradient(TrainingWriter& writer, const Instruction& i) {
  const std::string of = dropout(writer, i, writer.tensor(i.grad_output(), "grad_out"));
  const std::string grad_in = writer.tensor(written_gradient(i), "grad_in");
  writer.statement("dev_train_dropout_gradient(step, " + of + ", " + grad_in + ");");
  return {};
}

std::string padding(TrainingWriter& writer, const Instruction& i, const Shape& in,
                    const Shape& out) {
  const auto& of = attributes<ops::PadAttributes>(writer, i);
  writer.include("device/operators/moves.h");
  return writer.constant("DevPadding", "padding",
                         {{"in_height", c_number(in[1])},
                          {"in_width", c_number(in[2])},
                          {"out_height", c_number(out[1])},
                          {"out_width", c_number(out[2])},
                          {"top", c_number(of.top)},
                          {"left", c_number(of.left)}});
}

Status write_train_pad(TrainingWriter& writer, const Instruction& i) {
  const std::string of = padding(writer, i, i.inputs()[0].shape, i.output().shape);
  const std::string in = writer.tensor(i.inputs()[0], "in");
  writer.statement("dev_train_pad(" + of + ", " + in + ", " + writer.tensor(i.output(), "out") +
                   ");");
  return {};
}

Status write_pad_gradient(TrainingWriter& writer, const Instruction& i) {
  const Operand& grad = written_gradient(i);
  const std::string of = padding(writer, i, grad.shape, i.grad_output().shape);
  const std::string grad_out = writer.tensor(i.grad_output(), "grad_out");
  writer.statement("dev_train_pad_gradient(" + of + ", " + grad_out + ", " +
                   writer.tensor(grad, "grad_in") + ");");
  return {};
}

// A DevFactors of two inputs.
std::string factors(TrainingWriter& writer, const Instruction& i) {
  const Shape &a = i.inputs()[0].shape, &b = i.inputs()[1].shape;
  writer.include("device/operators/multiply.h");
  return writer.constant("DevFactors", "factors",
                         {{"image", c_number(a.count() / a[0])},
                          {"period", c_number(a.count() == b.count() ? 0 : b.count() / b[0])}});
}

Status write_train_multiply(TrainingWriter& writer, const Instruction& i) {
  const std::string of = factors(writer, i);
  const std::string a = writer.tensor(i.inputs()[0], "a");
  const std::string b = writer.tensor(i.inputs()[1], "b");
  const std::string out = writer.tensor(i.output(), "out");
  writer.statement("dev_train_multiply(step, " + of + ", " + a + ", " + b + ", " + out + ");");
  return {};
}

Status write_multiply_gradient(TrainingWriter& writer, const Instruction& i) {
  const std::string of = factors(writer, i);
  const std::string grad_out = writer.tensor(i.grad_output(), "grad_out");
  const bool gates = i.inputs()[0].shape.count() != i.inputs()[1].shape.count();
  for (size_t k = 0; k < 2; ++k) {
    if (!i.grad_inputs()[k].exists()) continue;
    const std::string name(1, k == 0 ? 'a' : 'b');
    const std::string other = writer.tensor(i.inputs()[1 - k], "times_" + name);
    const std::string grad_in = writer.tensor(i.grad_inputs()[k], "grad_" + name);
    writer.statement(std::string(k == 1 && gates ? "dev_train_gate" : "dev_train_multiply") +
                     "_gradient(step, " + of + ", " + grad_out + ", " + other + ", " + grad_in +
                     ");");
  }
  return {};
}

// Calls write(first channel) for each part that exists, in a block where `part` is its tensor.
template <typename Write>
void for_each_part(TrainingWriter& writer, std::span<const Operand> parts, const Write& write) {
  int64_t first = 0;
  writer.include("device/operators/moves.h");
  for (const Operand& part : parts) {
    if (part.exists()) {
      writer.statement("{");
      writer.tensor(part, "part");
      write(c_number(first));
      writer.statement("}");
    }
    first += part.shape.last();
  }
}

Status write_train_concat(TrainingWriter& writer, const Instruction& i) {
  std::vector<int64_t> exponents;
  for (const Operand& part : i.inputs()) exponents.push_back(part.exponent);
  const std::string out = writer.tensor(i.output(), "out");
  writer.statement("dev_train_largest(m->exponents, " +
                   writer.table("int16_t", "exponents", exponents) + ", " +
                   c_number(std::ssize(exponents)) + ", " + out + ");");
  for_each_part(writer, i.inputs(), [&](const std::string& first) {
    writer.statement("dev_train_part(&part, " + out + ", " + first + ");");
  });
  return {};
}

Status write_concat_gradient(TrainingWriter& writer, const Instruction& i) {
  const std::string grad_out = writer.tensor(i.grad_output(), "grad_out");
  for_each_part(writer, i.grad_inputs(), [&](const std::string& first) {
    writer.statement("dev_train_slice(" + grad_out + ", " + first + ", &part);");
  });
  return {};
}

// A loss; declares the logits.
std::string loss(TrainingWriter& writer, const Instruction& i) {
  const std::string logits = writer.tensor(i.inputs()[0], "logits");
  const bool weighs = i.inputs().size() > 2;
  CMembers members = {{"logits", logits}};
  writer.include("device/operators/losses.h");
  const bool is_softmax = std::string_view(i.op->name) == "softmax_cross_entropy";
  const bool has_targets = std::string_view(i.op->name) == "regression_error";
  if (has_targets) {
    members.push_back({"targets", writer.input(i.inputs()[1], "int16_t")});
    members.push_back({"target_exponent", c_number(input_value(writer, i.inputs()[1]).exponent)});
  } else {
    members.push_back({"labels", writer.input(i.inputs()[1], "int32_t")});
  }
  if (weighs) members.push_back({"weights", writer.input(i.inputs()[2], "int16_t")});
  if (is_softmax) {
    members.push_back(
        {"smoothing", c_number(attributes<ops::LossAttributes>(writer, i).smoothing_q16)});
  }
  return writer.structure(is_softmax ? "DevSoftmax" : "DevSquares", "loss", members);
}

std::string_view loss_name(const Instruction& i) {
  return std::string_view(i.op->name) == "softmax_cross_entropy" ? "dev_softmax_" : "dev_squares_";
}

// C has the square of errors alone.
Status check_penalty(TrainingWriter& writer, const Instruction& i) {
  if (std::string_view(i.op->name) != "regression_error") return {};
  const auto& own = attributes<ops::RegressionAttributes>(writer, i);
  if (own.penalty == ops::Penalty::kSquared) return {};
  return invalid_input("node '" + i.name + "' (regression_error): C has the penalty 'squared' alone yet");
}

Status write_loss(TrainingWriter& writer, const Instruction& i) {
  MANTISSA_RETURN_IF_ERROR(check_penalty(writer, i));
  const std::string of = loss(writer, i);
  writer.statement(std::string(loss_name(i)) + "loss(step, " + of + ");");
  return {};
}

Status write_loss_gradient(TrainingWriter& writer, const Instruction& i) {
  const std::string of = loss(writer, i);
  const std::string grad = writer.tensor(written_gradient(i), "grad");
  writer.statement(std::string(loss_name(i)) + "gradient(step, " + of + ", " + grad + ");");
  return {};
}

constexpr TrainingRow kTrainingElementRows[] = {
    {"normalise_input", &OpRows::forward, write_train_pixels},
    {"quantise_input", &OpRows::forward, write_train_numbers},
    {"relu", &OpRows::forward, write_train_relu},
    {"relu", &OpRows::grad_input, write_masked},
    {"norm_relu", &OpRows::forward, write_train_relu},
    {"add", &OpRows::forward, write_train_add},
    {"add", &OpRows::grad_input, write_masked},
    {"multiply", &OpRows::forward, write_train_multiply},
    {"multiply", &OpRows::grad_input, write_multiply_gradient},
    {"sum_gradients", &OpRows::grad_input, write_train_sum},
    {"round_gradient", &OpRows::grad_input, write_round},
    {"round_gradient_stochastic", &OpRows::grad_input, write_round_at_random},
    {"dropout", &OpRows::forward, write_dropout},
    {"dropout", &OpRows::grad_input, write_dropout_gradient},
    {"pad", &OpRows::forward, write_train_pad},
    {"pad", &OpRows::grad_input, write_pad_gradient},
    {"concat", &OpRows::forward, write_train_concat},
    {"concat", &OpRows::grad_input, write_concat_gradient},
    {"softmax_cross_entropy", &OpRows::forward, write_loss},
    {"softmax_cross_entropy", &OpRows::grad_input, write_loss_gradient},
    {"mean_squared_error", &OpRows::forward, write_loss},
    {"mean_squared_error", &OpRows::grad_input, write_loss_gradient},
    {"regression_error", &OpRows::forward, write_loss},
    {"regression_error", &OpRows::grad_input, write_loss_gradient}};

}  // namespace

std::span<const TrainingRow> training_element_rows() { return kTrainingElementRows; }

}  // namespace mantissa::device
