// Batch norm of training programs.
#include "base/checked.h"
#include "device/rows/training_parts.h"
#include "device/rows/training_rows.h"
#include "ops/attributes.h"

namespace mantissa::device {
namespace {

// Multipliers, multipliers of inputs, and offsets.
constexpr int64_t kWorkBytes = 16;  // of a channel
int64_t norm_work(const Graph& graph, const Instruction& i) {
  return graph.parameters[static_cast<size_t>(i.parameters()[0].index)].shape.count() * kWorkBytes;
}

// A DevNorm; `out` is "NULL" where it is not read.
std::string norm(TrainingWriter& writer, const Instruction& i, const std::string& in,
                 const std::string& out) {
  const int scale = i.parameters()[0].index, offset = i.parameters()[1].index;
  const std::string place =
      writer.constant("DevNormPlace", "norm",
                      {{"scale", writer.data(scale)},
                       {"scale_exponent", writer.exponents(scale)},
                       {"offset", writer.data(offset)},
                       {"offset_exponent", writer.exponents(offset)},
                       {"running_mean", writer.data(i.parameters()[2].index)},
                       {"running_variance", writer.data(i.parameters()[3].index)},
                       {"saved", c_number(writer.offset(i.first(Role::kSaved)))},
                       {"relu", i.relu ? "true" : "false"}});
  writer.include("device/training/norms.h");
  return writer.declared(
      "DevNorm", "norm",
      "dev_norm(m, " + place + ", " + in + ", " + out + ", " + c_number(writer.work()) + ")");
}

Status write_norm(TrainingWriter& writer, const Instruction& i) {
  const std::string in = writer.tensor(i.inputs()[0], "in");
  const std::string out = writer.tensor(i.output(), "out");
  writer.statement(std::string(i.again ? "dev_norm_again" : "dev_norm_forward") + rounding(writer) +
                   "(step, " + norm(writer, i, in, out) + ");");
  return {};
}

// The names of the gradient and of the operands of both passes.
std::string gradient_norm(TrainingWriter& writer, const Instruction& i) {
  const std::string in = writer.tensor(i.inputs()[0], "in");
  const bool reads_out = i.relu && i.output().exists();
  return norm(writer, i, in, reads_out ? writer.tensor(i.output(), "out") : "NULL");
}

Status write_norm_grad_weights(TrainingWriter& writer, const Instruction& i) {
  const std::string of = gradient_norm(writer, i);
  const std::string grad_out = writer.tensor(i.grad_output(), "grad_out");
  const std::string scale = writer.sums(i.sums()[0], "scale_sums", true);
  const std::string offset = writer.sums(i.sums()[1], "offset_sums", true);
  writer.statement("dev_norm_grad_weights(" + of + ", " + grad_out + ", " + scale + ", " + offset +
                   ");");
  return {};
}

Status write_norm_grad_input(TrainingWriter& writer, const Instruction& i) {
  const std::string of = gradient_norm(writer, i);
  const std::string grad_out = writer.tensor(i.grad_output(), "grad_out");
  const std::string grad_in = writer.tensor(i.grad_inputs()[0], "grad_in");
  writer.statement("dev_norm_grad_input(step, " + of + ", " + grad_out + ", " + grad_in + ");");
  return {};
}

// The forward pass updates them.
Status write_norm_statistics(TrainingWriter&, const Instruction&) { return {}; }

// A DevInversion of a norm.
std::string inversion(TrainingWriter& writer, const Instruction& i, const std::string& of) {
  const int64_t channels = norm_work(writer.graph(), i) / kWorkBytes;
  const int64_t room = attributes<ops::BatchNormAttributes>(writer, i).room;
  writer.include("device/operators/inverted_norms.h");
  return writer.structure("DevInversion", "inversion",
                          {{"norm", of},
                           {"odd", rounding(writer).empty() ? "false" : "true"},
                           {"room", c_number(divide_up(channels, room))}});
}

Status write_inverted(TrainingWriter& writer, const Instruction& i) {
  const std::string in = writer.tensor(i.inputs()[0], "in");
  const std::string of = norm(writer, i, in, writer.tensor(i.output(), "out"));
  writer.statement(std::string(i.again ? "dev_inverted_again" : "dev_inverted_forward") +
                   "(step, " + inversion(writer, i, of) + ");");
  return {};
}

Status write_inverted_grad_weights(TrainingWriter& writer, const Instruction& i) {
  const std::string of = norm(writer, i, "NULL", writer.tensor(i.output(), "out"));
  const std::string grad_out = writer.tensor(i.grad_output(), "grad_out");
  const std::string scale = writer.sums(i.sums()[0], "scale_sums", true);
  const std::string offset = writer.sums(i.sums()[1], "offset_sums", true);
  writer.statement("dev_inverted_grad_weights(" + inversion(writer, i, of) + ", " + grad_out +
                   ", " + scale + ", " + offset + ");");
  return {};
}

Status write_inverted_grad_input(TrainingWriter& writer, const Instruction& i) {
  const std::string of = norm(writer, i, "NULL", writer.tensor(i.output(), "out"));
  const std::string grad_out = writer.tensor(i.grad_output(), "grad_out");
  const std::string grad_in = writer.tensor(i.grad_inputs()[0], "grad_in");
  writer.statement("dev_inverted_grad_input(step, " + inversion(writer, i, of) + ", " + grad_out +
                   ", " + grad_in + ");");
  return {};
}

constexpr TrainingRow kTrainingNormRows[] = {
    {"batch_norm", &OpRows::forward, write_norm, norm_work},
    {"batch_norm", &OpRows::grad_weights, write_norm_grad_weights, norm_work},
    {"batch_norm", &OpRows::grad_input, write_norm_grad_input, norm_work},
    {"batch_norm", &OpRows::statistics, write_norm_statistics},
    {"batch_norm_inverted", &OpRows::forward, write_inverted, norm_work},
    {"batch_norm_inverted", &OpRows::grad_weights, write_inverted_grad_weights, norm_work},
    {"batch_norm_inverted", &OpRows::grad_input, write_inverted_grad_input, norm_work},
    {"batch_norm_inverted", &OpRows::statistics, write_norm_statistics}};

}  // namespace

std::span<const TrainingRow> training_norm_rows() { return kTrainingNormRows; }

}  // namespace mantissa::device
