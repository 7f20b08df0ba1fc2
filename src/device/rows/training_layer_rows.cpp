// Convolutions, linear layers and optimisers of training programs.
#include "device/rows/convolution_members.h"
#include "device/rows/training_parts.h"
#include "device/rows/training_rows.h"
#include "ops/attributes.h"
#include "ops/convolutions/convolution_shape.h"

namespace mantissa::device {
namespace {

const Attributes& attributes_of(const TrainingWriter& writer, const Instruction& i) {
  return writer.graph().nodes[static_cast<size_t>(i.node)].attributes;
}

// The shape between an operand of inputs and one of results.
std::string layer_shape(TrainingWriter& writer, const Instruction& i, const Shape& in,
                        const Shape& out) {
  const Shape& weights =
      writer.graph().parameters[static_cast<size_t>(i.parameters()[0].index)].shape;
  const kernels::ConvolutionShape s =
      ops::convolution_shape(attributes_of(writer, i).as<ops::LayerAttributes>(), in, out, weights);
  return writer.constant("DevConvolution", "shape", convolution_members(s));
}

// A DevLayer. `in` is its input's name, or "NULL" where it is not read.
std::string layer(TrainingWriter& writer, const Instruction& i, const std::string& in,
                  const Shape& in_shape, const Shape& out_shape) {
  const int weights = i.parameters()[0].index;
  const ParameterState& state = writer.layout().parameters[static_cast<size_t>(weights)];
  const auto& tensors = writer.layout().tensors;
  const bool has_bias = i.parameters().size() > 1;
  const int bias = has_bias ? i.parameters()[1].index : -1;
  const int64_t bias_bits =
      has_bias ? writer.program().parameter_grids[static_cast<size_t>(bias)].bits : 0;
  const std::string place = writer.constant(
      "DevLayerPlace", "layer",
      {{"shape", layer_shape(writer, i, in_shape, out_shape)},
       {"weights", writer.data(weights)},
       {"exponents", writer.exponents(weights)},
       {"bias", has_bias ? writer.data(bias) : kNotKept},
       {"bias_exponent", has_bias ? writer.exponents(bias) : kNotKept},
       {"blocks", c_number(tensors[static_cast<size_t>(state.exponent)].shape.count())},
       {"bias_bits", c_number(bias_bits)}});
  writer.include("device/training/layers.h");
  return writer.declared(
      "DevLayer", "layer",
      "dev_layer(m, " + place + ", " + in + ", " + c_number(writer.work()) + ")");
}

// Four numbers for each output channel.
int64_t layer_work(const Graph&, const Instruction& i) {
  return i.output().shape.last() * 4 * int64_t{sizeof(int32_t)};
}

Status write_forward(TrainingWriter& writer, const Instruction& i) {
  const std::string in = writer.tensor(i.inputs()[0], "in");
  const std::string out = writer.tensor(i.output(), "out");
  const std::string of = layer(writer, i, in, i.inputs()[0].shape, i.output().shape);
  const bool is_wide = i.output().type == DataType::kInt32;
  writer.statement(std::string(is_wide ? "dev_layer_sums" : "dev_layer_forward") +
                   rounding(writer) + "(step, " + of + ", " + out + ");");
  return {};
}

Status write_grad_input(TrainingWriter& writer, const Instruction& i) {
  const std::string grad_out = writer.tensor(i.grad_output(), "grad_out");
  const std::string grad_in = writer.tensor(i.grad_inputs()[0], "grad_in");
  const std::string of = layer(writer, i, "NULL", i.grad_inputs()[0].shape, i.grad_output().shape);
  writer.statement("dev_layer_grad_input(step, " + of + ", " + grad_out + ", " + grad_in + ");");
  return {};
}

Status write_grad_weights(TrainingWriter& writer, const Instruction& i) {
  const std::string in = writer.tensor(i.inputs()[0], "in");
  const std::string grad_out = writer.tensor(i.grad_output(), "grad_out");
  const std::string of = layer(writer, i, in, i.inputs()[0].shape, i.grad_output().shape);
  const Graph& graph = writer.graph();
  for (const Operand& sums : i.sums()) {
    const int parameter = writer.program().exponents[static_cast<size_t>(sums.exponent)].of;
    const bool is_bias = graph.parameters[static_cast<size_t>(parameter)].storage == Storage::kBias;
    const std::string at = writer.sums(sums, is_bias ? "bias_sums" : "sums", is_bias);
    if (is_bias) {
      writer.statement("dev_layer_grad_bias(" + grad_out + ", " + at + ");");
      continue;
    }
    const bool adds = sums.access == Access::kAdds;
    writer.statement("dev_layer_grad_weights(step, " + of + ", " + grad_out + ", " + at + ", " +
                     (adds ? "true" : "m->step.micro_batch > 0") + ");");
  }
  return {};
}

template <const char* kFunction>
Status write_update(TrainingWriter& writer, const Instruction& i) {
  writer.include("device/training/updates.h");
  const std::string parameter = writer.parameter(i.parameters()[0], i.sums()[0], "p");
  writer.statement(std::string(kFunction) + "(step, " + parameter + ");");
  return {};
}
constexpr char kSgd[] = "dev_update_sgd", kMomentum[] = "dev_update_momentum",
               kNesterov[] = "dev_update_nesterov", kAdam[] = "dev_update_adam",
               kAdamW[] = "dev_update_adamw";

// Before the updates; a parameter's sums stay as they are.
Status write_gradient_norm(TrainingWriter& writer, const Instruction& i) {
  writer.include("device/training/gradient_norm.h");
  writer.statement("RefReal squares = ref_real(0);");
  for (size_t k = 0; k < i.parameters().size(); ++k) {
    writer.statement("{");
    const std::string parameter = writer.parameter(i.parameters()[k], i.sums()[k], "p");
    writer.statement("dev_add_squares(step, " + parameter + ", &squares);");
    writer.statement("}");
  }
  writer.statement("dev_clip_gradients(step, squares, " + c_real(writer.scalars().clip_norm) +
                   ");");
  return {};
}

constexpr TrainingRow kTrainingLayerRows[] = {
    {"linear", &OpRows::forward, write_forward, layer_work},
    {"linear", &OpRows::grad_input, write_grad_input},
    {"linear", &OpRows::grad_weights, write_grad_weights},
    {"convolution", &OpRows::forward, write_forward, layer_work},
    {"convolution", &OpRows::grad_input, write_grad_input},
    {"convolution", &OpRows::grad_weights, write_grad_weights},
    {"gradient_norm", &OpRows::forward, write_gradient_norm},
    {"update_sgd", &OpRows::forward, write_update<kSgd>},
    {"update_momentum", &OpRows::forward, write_update<kMomentum>},
    {"update_nesterov", &OpRows::forward, write_update<kNesterov>},
    {"update_adam", &OpRows::forward, write_update<kAdam>},
    {"update_adamw", &OpRows::forward, write_update<kAdamW>}};

}  // namespace

std::span<const TrainingRow> training_layer_rows() { return kTrainingLayerRows; }

}  // namespace mantissa::device
