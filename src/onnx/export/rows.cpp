#include "onnx/export/rows.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "onnx/export/inputs.h"
#include "ops/ops.h"
#include "ops/sequences/recurrent_input.h"

namespace mantissa::onnx {

Result<std::vector<std::string>> inputs_of_one_form(const ExportContext& context,
                                                    const Node& node) {
  std::vector<std::string> inputs;
  const Exported& first = context.input(node);
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const Exported& in = context.input(node, i);
    if (in.form != first.form) return invalid_input("reads a sequence and a vector");
    if (in.side != first.side && in.form != Form::kVector) {
      return invalid_input("reads positions of two sequences, whose lengths may differ");
    }
    inputs.push_back(in.name);
  }
  return inputs;
}

Exported with_form(const ExportContext& context, const Node& node, std::string tensor) {
  return {std::move(tensor), context.input(node).form};
}

std::string within_range(ExportContext& context, int value, const std::string& tensor) {
  const ExportedNetwork& network = context.network;
  if (network.exponents.empty() || network.has_row_exponents) return tensor;
  const std::string clipped = "/within_range", name = tensor + clipped;
  ExportBuilder& to = context.builder;
  if (tensor.ends_with(clipped)) return tensor;
  if (to.makes(name)) return name;
  const int limit = context.limit(value), exponent = context.exponent(value);
  const float most = std::ldexp(static_cast<float>(limit), exponent);
  const std::string bounds = "most_" + std::to_string(limit) + "_" + std::to_string(exponent);
  return to.clip(name, tensor, most, bounds);
}

std::string padding(ExportBuilder& to, const std::string& mask) {
  const std::string name = mask + "/hidden";
  if (to.makes(name)) return name;
  const std::string seen = to.cast(mask + "/seen", mask, ElementType::kFloat);
  return to.add("Sub", name, {to.power(0), seen});
}

std::string positions(ExportContext& context, Side side, int64_t length) {
  ExportBuilder& to = context.builder;
  const std::string open = length_name(side), name = "positions/of_" + open;
  if (to.makes(name)) return name;
  const auto& inputs = to.graph.inputs;
  const auto input = std::find_if(inputs.begin(), inputs.end(), [&](const ValueData& each) {
    return each.dims[1].name == open;
  });
  if (input == inputs.end()) {
    std::vector<int64_t> all(static_cast<size_t>(length));
    std::iota(all.begin(), all.end(), int64_t{0});
    return to.list("positions/" + std::to_string(length), all);
  }
  const std::string zero = to.numbers<int64_t>("positions/zero", ElementType::kInt64, {}, {0});
  const std::string one = to.numbers<int64_t>("positions/one", ElementType::kInt64, {}, {1});
  const std::string shape = to.add("Shape", name + "/shape", {input->name});
  const std::string count = to.add("Gather", name + "/count", {shape, one});
  return to.add("Range", name, {zero, count, one});
}

Status check_lengths(const ExportContext& context, const Node& node, size_t i, Side side) {
  const Exported& lengths = context.input(node, i);
  if (lengths.form == Form::kMask && lengths.side == side) return {};
  return invalid_input("reads the lengths of another sequence");
}

bool feeds_gates_alone(const ExportContext& context, int value) {
  const std::vector<int>& readers = context.readers[static_cast<size_t>(value)];
  const auto reads_gates = [&](int n) {
    const Node& reader = context.graph.nodes[n];
    const bool is_recurrent =
        reader.op == &ops::kRnn || reader.op == &ops::kLstm || reader.op == &ops::kGru;
    return is_recurrent && reader.inputs[ops::kGatesInput] == value &&
           std::count(reader.inputs.begin(), reader.inputs.end(), value) == 1;
  };
  return !readers.empty() && !context.graph.is_output(value) &&
         std::all_of(readers.begin(), readers.end(), reads_gates);
}

}  // namespace mantissa::onnx
