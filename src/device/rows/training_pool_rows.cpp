// Pools of training programs.
#include "device/rows/training_parts.h"
#include "device/rows/training_rows.h"
#include "ops/attributes.h"
#include "ops/pooling/pool_axes.h"
#include "ops/pooling/window_means.h"

namespace mantissa::device {
namespace {

std::string pool_shape(TrainingWriter& writer, const Instruction& i, const Shape& in) {
  writer.include("device/operators/elements.h");
  return writer.constant("RefMaxPoolShape", "pool",
                         {{"in_height", c_number(in[1])},
                          {"in_width", c_number(in[2])},
                          {"channels", c_number(in[3])},
                          {"window", c_number(attributes<ops::PoolAttributes>(writer, i).window)}});
}

Status write_train_max_pool(TrainingWriter& writer, const Instruction& i) {
  const Shape& shape = i.inputs()[0].shape;
  const std::string pool = pool_shape(writer, i, shape);
  const std::string in = writer.tensor(i.inputs()[0], "in");
  const std::string out = writer.tensor(i.output(), "out");
  writer.statement("dev_train_max_pool(" + pool + ", " + in + ", " + out + ", " +
                   c_number(shape[0]) + ");");
  return {};
}

Status write_max_pool_gradient(TrainingWriter& writer, const Instruction& i) {
  const Shape& shape = written_gradient(i).shape;
  const std::string pool = pool_shape(writer, i, shape);
  const std::string in = writer.tensor(i.inputs()[0], "in");
  const std::string grad_out = writer.tensor(i.grad_output(), "grad_out");
  const std::string grad_in = writer.tensor(written_gradient(i), "grad_in");
  writer.statement("dev_train_max_pool_gradient(" + pool + ", " + in + ", " + grad_out + ", " +
                   grad_in + ", " + c_number(shape[0]) + ");");
  return {};
}

std::string images(TrainingWriter& writer, const std::string& from, const std::string& to,
                   const Shape& of) {
  const Shape shape = ops::as_images(of);
  writer.include("device/operators/elements.h");
  return writer.structure("DevImages", "images",
                          {{"from", from}, {"to", to}, {"pixels", c_number(shape[1] * shape[2])}});
}

Status write_image_average(TrainingWriter& writer, const Instruction& i) {
  const std::string in = writer.tensor(i.inputs()[0], "in");
  const std::string out = writer.tensor(i.output(), "out");
  writer.statement("dev_train_image_average" + rounding(writer) + "(step, " +
                   images(writer, in, out, i.inputs()[0].shape) + ");");
  return {};
}

Status write_image_average_gradient(TrainingWriter& writer, const Instruction& i) {
  const std::string grad_out = writer.tensor(i.grad_output(), "grad_out");
  const std::string grad_in = writer.tensor(written_gradient(i), "grad_in");
  writer.statement("dev_train_image_average_gradient(step, " +
                   images(writer, grad_out, grad_in, written_gradient(i).shape) + ");");
  return {};
}

// The windows over images of this shape, [images, height, width, channels].
kernels::PoolShape window_shape(const TrainingWriter& writer, const Instruction& i, const Shape& in,
                                const Shape& out) {
  return ops::pool_shape(attributes<ops::PoolAttributes>(writer, i), in, out);
}

// The members of a DevWindows.
CMembers windows_members(const kernels::PoolShape& s) {
  const auto axis = [](const kernels::PoolAxis& a, int64_t size, int64_t windows) {
    return "{" + c_number(size) + ", " + c_number(windows) + ", " + c_number(a.window) + ", " +
           c_number(a.stride) + ", " + c_number(a.padding) + "}";
  };
  return {{"vertical", axis(s.vertical, s.in_height, s.out_height)},
          {"horizontal", axis(s.horizontal, s.in_width, s.out_width)},
          {"channels", c_number(s.channels)}};
}

std::string windows(TrainingWriter& writer, const kernels::PoolShape& s) {
  writer.include("device/operators/window_pools.h");
  return writer.constant("DevWindows", "windows", windows_members(s));
}

Status write_window_maxima(TrainingWriter& writer, const Instruction& i) {
  const Operand& input = i.inputs()[0];
  const std::string of = windows(writer, window_shape(writer, i, input.shape, i.output().shape));
  const std::string in = writer.tensor(input, "in"), out = writer.tensor(i.output(), "out");
  writer.statement("dev_train_window_maxima(" + of + ", " + in + ", " + out + ");");
  return {};
}

// A byte of each output.
int64_t taps_work(const Graph&, const Instruction& i) { return i.grad_output().shape.count(); }

Status write_window_maxima_gradient(TrainingWriter& writer, const Instruction& i) {
  const Operand& grad = written_gradient(i);
  const std::string of =
      windows(writer, window_shape(writer, i, grad.shape, i.grad_output().shape));
  const std::string in = writer.tensor(i.inputs()[0], "in");
  const std::string grad_out = writer.tensor(i.grad_output(), "grad_out");
  const std::string grad_in = writer.tensor(grad, "grad_in");
  writer.statement("dev_train_window_maxima_gradient(step, " + of + ", " + in + ", " + grad_out +
                   ", " + work_memory(writer, "int8_t") + ", " + grad_in + ");");
  return {};
}

// A DevMeans whose multipliers have `bits` bits.
std::string means(TrainingWriter& writer, const Instruction& i, const kernels::PoolShape& s,
                  int bits) {
  const bool padded = attributes<ops::PoolAttributes>(writer, i).count_padding;
  const int64_t least = ops::least_cells(s, padded), most = s.window_cells();
  const ops::Reciprocals reciprocals(least, most, bits);
  writer.include("device/operators/window_pools.h");
  return writer.constant(
      "DevMeans", "means",
      {{"windows", c_structure(windows_members(s), 4)},
       {"counts_padding", padded ? "true" : "false"},
       {"least", c_number(least)},
       {"multipliers", writer.table("int32_t", "multipliers",
                                    std::span(reciprocals.of)
                                        .subspan(static_cast<size_t>(least),
                                                 static_cast<size_t>(most - least + 1)))},
       {"exponent", c_number(reciprocals.exponent)}});
}

Status write_window_means(TrainingWriter& writer, const Instruction& i) {
  const Operand& input = i.inputs()[0];
  const std::string of =
      means(writer, i, window_shape(writer, i, input.shape, i.output().shape), ops::kMeanBits);
  const std::string in = writer.tensor(input, "in"), out = writer.tensor(i.output(), "out");
  writer.statement("dev_train_window_means(step, " + of + ", " + in + ", " + out + ");");
  return {};
}

Status write_window_means_gradient(TrainingWriter& writer, const Instruction& i) {
  const Operand& grad = written_gradient(i);
  const auto shape = window_shape(writer, i, grad.shape, i.grad_output().shape);
  const int bits = writer.program().exponents[static_cast<size_t>(i.grad_output().exponent)].bits;
  const std::string of = means(writer, i, shape, ops::gradient_multiplier_bits(shape, bits));
  const std::string grad_out = writer.tensor(i.grad_output(), "grad_out");
  const std::string grad_in = writer.tensor(grad, "grad_in");
  writer.statement("dev_train_window_means_gradient(step, " + of + ", " + grad_out + ", " +
                   grad_in + ");");
  return {};
}

constexpr TrainingRow kTrainingPoolRows[] = {
    {"max_pool", &OpRows::forward, write_train_max_pool},
    {"max_pool", &OpRows::grad_input, write_max_pool_gradient},
    {"global_average_pool", &OpRows::forward, write_image_average},
    {"global_average_pool", &OpRows::grad_input, write_image_average_gradient},
    {"overlapping_max_pool", &OpRows::forward, write_window_maxima},
    {"overlapping_max_pool", &OpRows::grad_input, write_window_maxima_gradient, taps_work},
    {"average_pool", &OpRows::forward, write_window_means},
    {"average_pool", &OpRows::grad_input, write_window_means_gradient}};

}  // namespace

std::span<const TrainingRow> training_pool_rows() { return kTrainingPoolRows; }

}  // namespace mantissa::device
