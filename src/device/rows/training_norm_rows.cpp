// Batch norm of training programs.
#include "device/rows/training_rows.h"

namespace mantissa::device {
namespace {

int64_t channels_of(const TrainingWriter& writer, const Instruction& i) {
  return writer.graph().parameters[static_cast<size_t>(i.parameters()[0].index)].shape.count();
}

// Multipliers, multipliers of inputs, and offsets.
int64_t norm_work(const Graph& graph, const Instruction& i) {
  return graph.parameters[static_cast<size_t>(i.parameters()[0].index)].shape.count() * 16;
}

// A DevNorm; `out` is "NULL" where it is not read.
std::string norm(TrainingWriter& writer, const Instruction& i, const std::string& in,
                 const std::string& out) {
  const int64_t channels = channels_of(writer, i), bytes = 8 * channels;
  const Operand& saved = i.first(Role::kSaved);
  const int scale = i.parameters()[0].index, offset = i.parameters()[1].index;
  CMembers members = {{"in", in},
                      {"out", out},
                      {"relu", i.relu ? "true" : "false"},
                      {"scale", writer.data(scale, "int16_t")},
                      {"scale_exponent", writer.exponents(scale)},
                      {"offset", writer.data(offset, "int16_t")},
                      {"offset_exponent", writer.exponents(offset)},
                      {"mean", writer.arena(saved, "uint64_t")},
                      {"inverse_sigma", writer.arena(saved, "uint64_t", bytes)},
                      {"sum_grad", writer.arena(saved, "int64_t", 2 * bytes)},
                      {"sum_grad_in", writer.arena(saved, "int64_t", 3 * bytes)}};
  if (i.first(Role::kStatistics).exists() && !i.again) {
    members.push_back({"record", writer.arena(i.first(Role::kStatistics), "uint64_t")});
  }
  members.push_back({"multiplier", writer.work("int32_t")});
  members.push_back({"in_multiplier", writer.work("int32_t", 4 * channels)});
  members.push_back({"wide_offset", writer.work("int64_t", 8 * channels)});
  writer.include("device/training/norms.h");
  return writer.structure("DevNorm", "norm", members);
}

Status write_norm(TrainingWriter& writer, const Instruction& i) {
  const std::string in = writer.tensor(i.inputs()[0], "in");
  const std::string out = writer.tensor(i.output(), "out");
  writer.statement(std::string(i.again ? "dev_norm_again" : "dev_norm_forward") + "(step, " +
                   norm(writer, i, in, out) + ");");
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

Status write_norm_statistics(TrainingWriter& writer, const Instruction& i) {
  writer.include("device/training/norms.h");
  writer.statement("dev_norm_statistics(step, " +
                   writer.arena(i.first(Role::kStatistics), "uint64_t") + ", " +
                   c_number(channels_of(writer, i)) + ",");
  writer.statement("                    " + writer.data(i.parameters()[2].index, "uint64_t") +
                   ", " + writer.data(i.parameters()[3].index, "uint64_t") + ");");
  return {};
}

constexpr TrainingRow kTrainingNormRows[] = {
    {"batch_norm", &OpRows::forward, write_norm, norm_work},
    {"batch_norm", &OpRows::grad_weights, write_norm_grad_weights, norm_work},
    {"batch_norm", &OpRows::grad_input, write_norm_grad_input, norm_work},
    {"batch_norm", &OpRows::statistics, write_norm_statistics}};

}  // namespace

std::span<const TrainingRow> training_norm_rows() { return kTrainingNormRows; }

}  // namespace mantissa::device
