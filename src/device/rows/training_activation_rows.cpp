// Point-wise functions of training programs.
#include <algorithm>

#include "device/rows/training_parts.h"
#include "device/rows/training_rows.h"
#include "ops/attributes.h"

namespace mantissa::device {
namespace {

// A function of the reference, by its operator.
struct PointRow {
  std::string_view op, function;
  bool wants_table = true;
};
constexpr PointRow kPoints[] = {{"relu6", "ref_relu6_function", false},
                                {"leaky_relu", "ref_leaky_relu_function"},
                                {"sigmoid", "ref_sigmoid_function"},
                                {"tanh", "ref_tanh_function"},
                                {"hard_sigmoid", "ref_hard_sigmoid_function"},
                                {"hard_swish", "ref_hard_swish_function"},
                                {"gelu", "ref_gelu_function"},
                                {"gelu_tanh", "ref_gelu_tanh_function"},
                                {"silu", "ref_silu_function"},
                                {"elu", "ref_elu_function"},
                                {"softplus", "ref_softplus_function"},
                                {"mish", "ref_mish_function"}};

const PointRow& point_row(const Instruction& i) {
  return *std::ranges::find(kPoints, i.op->name, &PointRow::op);
}

// A result of each mantissa, if there are more elements than these.
int64_t table_work(const Graph&, const Instruction& i) {
  constexpr int64_t kMantissas = 256;
  const bool pays = point_row(i).wants_table && i.inputs()[0].shape.count() > kMantissas;
  return pays ? kMantissas * int64_t{sizeof(int64_t)} : 0;
}

// A DevPoint.
std::string point(TrainingWriter& writer, const Instruction& i) {
  writer.include("device/operators/activations.h");
  const std::string in = writer.tensor(i.inputs()[0], "in");
  CMembers members = {{"function", "&" + std::string(point_row(i).function)}, {"in", in}};
  const std::string_view op = i.op->name;
  if (op == "leaky_relu" || op == "elu") {
    const Fraction& slope = op == "elu"
                                ? attributes<ops::EluAttributes>(writer, i).fraction
                                : attributes<ops::LeakyReluAttributes>(writer, i).fraction;
    members.push_back(
        {"slope", "{" + c_number(slope.numerator) + ", " + c_number(slope.denominator) + "}"});
  }
  if (table_work(writer.graph(), i) > 0)
    members.push_back({"table", work_memory(writer, "int64_t")});
  return writer.structure("DevPoint", "point", members);
}

Status write_point(TrainingWriter& writer, const Instruction& i) {
  const std::string of = point(writer, i);
  writer.statement("dev_train_point(step, " + of + ", " + writer.tensor(i.output(), "out") + ");");
  return {};
}

template <const char* kCall>
Status write_point_gradient(TrainingWriter& writer, const Instruction& i) {
  const std::string of = point(writer, i);
  const std::string grad_out = writer.tensor(i.grad_output(), "grad_out");
  writer.statement(std::string(kCall) + of + ", " + grad_out + ", " +
                   writer.tensor(written_gradient(i), "grad_in") + ");");
  return {};
}
constexpr char kGradient[] = "dev_train_point_gradient(step, ", kMask[] = "dev_train_point_mask(";

constexpr TrainingRow kTrainingActivationRows[] = {
    {"relu6", &OpRows::forward, write_point},
    {"relu6", &OpRows::grad_input, write_point_gradient<kMask>},
    {"leaky_relu", &OpRows::forward, write_point, table_work},
    {"leaky_relu", &OpRows::grad_input, write_point_gradient<kGradient>, table_work},
    {"sigmoid", &OpRows::forward, write_point, table_work},
    {"sigmoid", &OpRows::grad_input, write_point_gradient<kGradient>, table_work},
    {"tanh", &OpRows::forward, write_point, table_work},
    {"tanh", &OpRows::grad_input, write_point_gradient<kGradient>, table_work},
    {"hard_sigmoid", &OpRows::forward, write_point, table_work},
    {"hard_sigmoid", &OpRows::grad_input, write_point_gradient<kGradient>, table_work},
    {"hard_swish", &OpRows::forward, write_point, table_work},
    {"hard_swish", &OpRows::grad_input, write_point_gradient<kGradient>, table_work},
    {"gelu", &OpRows::forward, write_point, table_work},
    {"gelu", &OpRows::grad_input, write_point_gradient<kGradient>, table_work},
    {"gelu_tanh", &OpRows::forward, write_point, table_work},
    {"gelu_tanh", &OpRows::grad_input, write_point_gradient<kGradient>, table_work},
    {"silu", &OpRows::forward, write_point, table_work},
    {"silu", &OpRows::grad_input, write_point_gradient<kGradient>, table_work},
    {"elu", &OpRows::forward, write_point, table_work},
    {"elu", &OpRows::grad_input, write_point_gradient<kGradient>, table_work},
    {"softplus", &OpRows::forward, write_point, table_work},
    {"softplus", &OpRows::grad_input, write_point_gradient<kGradient>, table_work},
    {"mish", &OpRows::forward, write_point, table_work},
    {"mish", &OpRows::grad_input, write_point_gradient<kGradient>, table_work}};

}  // namespace

std::span<const TrainingRow> training_activation_rows() { return kTrainingActivationRows; }

}  // namespace mantissa::device
