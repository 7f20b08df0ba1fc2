#include "run/logs/tensor_log.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

namespace mantissa {
namespace {

using OrderedJson = nlohmann::ordered_json;

const char* kind_name(ObservedKind kind) {
  switch (kind) {
    case ObservedKind::kValue:
      return "value";
    case ObservedKind::kGradient:
      return "gradient";
    case ObservedKind::kParameter:
      return "parameter";
    default:
      return "parameter gradient";
  }
}

int magnitude_bits(DataType type) {
  // Sums of gradients fail the step from 2^60 on.
  return type == DataType::kInt64 ? 60 : static_cast<int>(8 * element_bytes(type)) - 1;
}

// Up to the largest that occurs.
OrderedJson counts_json(const BitLengths& bits) {
  return std::vector<int64_t>(bits.by_length.begin(), bits.by_length.begin() + bits.largest() + 1);
}

}  // namespace

ObservedTensor observed_tensor(const Graph& graph, const Program& program,
                               const TensorObservation& seen) {
  const Instruction& instruction = program.instructions[seen.instruction];
  std::string name;
  int bits = 0;
  switch (seen.kind) {
    case ObservedKind::kValue: {
      const Operand& value = instruction.outputs()[seen.operand];
      const bool is_narrow = value.type == DataType::kInt8 || value.type == DataType::kInt16;
      name = graph.values[value.exponent].name;
      bits = is_narrow ? bits_of(program, value) - 1 : magnitude_bits(value.type);
      break;
    }
    case ObservedKind::kGradient: {
      const Operand& gradient = instruction.grad_inputs()[seen.operand];
      name = program.buffers[gradient.index].name;
      bits = bits_of(program, gradient) - 1;
      break;
    }
    default: {
      const int parameter = instruction.parameters()[0].index;
      name = graph.parameters[parameter].name;
      bits = seen.kind == ObservedKind::kParameterGradient
                 ? magnitude_bits(DataType::kInt64)
                 : program.parameter_grids[parameter].bits - 1;
    }
  }
  return {name, kind_name(seen.kind), instruction.name + " (" + instruction.op->name + ")", bits};
}

double mean_bits(const BitLengths& bits) {
  const int64_t elements = bits.elements();
  if (elements == 0) return 0;
  return std::nearbyint(1000.0 * static_cast<double>(bits.sum()) / static_cast<double>(elements)) /
         1000;
}

Result<TensorLog> TensorLog::open(const std::filesystem::path& path, const Graph& graph,
                                  const Program& program, int64_t last_step, int64_t every,
                                  bool bit_counts) {
  OrderedJson header = {{"step", 0}, {"tensors", OrderedJson::array()}};
  const Observations observations(program);
  for (const TensorObservation& seen : observations.tensors()) {
    const ObservedTensor tensor = observed_tensor(graph, program, seen);
    header["tensors"].push_back({{"name", tensor.name},
                                 {"kind", tensor.kind},
                                 {"written_by", tensor.written_by},
                                 {"bits", tensor.bits}});
  }
  MANTISSA_ASSIGN(JsonLines lines, JsonLines::open(path, last_step, every));
  if (lines.first() == header.dump()) {
    std::string gap = lines.gap();
    return TensorLog(std::move(lines), std::move(gap), bit_counts);
  }
  std::string gap = lines.first().empty()
                        ? lines.gap()
                        : path.string() + " begins anew: it was of a program with other tensors";
  MANTISSA_ASSIGN(JsonLines empty, JsonLines::open(path, -1, every));
  MANTISSA_RETURN_IF_ERROR(empty.write(header));
  return TensorLog(std::move(empty), std::move(gap), bit_counts);
}

Status TensorLog::write(int64_t step, std::span<const TensorObservation> tensors) {
  OrderedJson line = {{"step", step}};
  const auto column = [&](const char* name, auto&& number) {
    OrderedJson& numbers = line[name] = OrderedJson::array();
    for (const TensorObservation& seen : tensors) numbers.push_back(number(seen));
  };
  column("elements", [](const auto& seen) { return seen.bits.elements(); });
  column("exponent", [](const auto& seen) { return seen.exponent; });
  column("saturated", [](const auto& seen) { return seen.saturated; });
  column("largest_bits", [](const auto& seen) { return seen.bits.largest(); });
  column("mean_bits", [](const auto& seen) { return mean_bits(seen.bits); });
  column("re_executions", [](const auto& seen) { return seen.re_executions; });
  column("mispredictions", [](const auto& seen) { return seen.mispredictions; });
  if (bit_counts_) column("bit_counts", [](const auto& seen) { return counts_json(seen.bits); });
  return lines_.write(line);
}

}  // namespace mantissa
