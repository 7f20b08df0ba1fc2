// FunctionProto.
#include "onnx/files/functions.h"

namespace mantissa::onnx {
namespace {

Status read_field(ReadContext& context, const WireField& field, FunctionData& function) {
  const auto text = [&](std::string& to) -> Status {
    MANTISSA_ASSIGN(to, read_text(context, field));
    return {};
  };
  switch (field.key) {
    case wire_key(1, WireType::kBytes):
      return text(function.name);
    case wire_key(4, WireType::kBytes):
      return text(function.inputs.emplace_back());
    case wire_key(5, WireType::kBytes):
      return text(function.outputs.emplace_back());
    case wire_key(7, WireType::kBytes):
      return read_node(context, field.bytes, 1, function.nodes.emplace_back());
    case wire_key(9, WireType::kBytes):
      return read_opset(context, field.bytes, function.opsets);
    case wire_key(10, WireType::kBytes):
      return text(function.domain);
    case wire_key(11, WireType::kBytes):
      return read_attribute(context, field.bytes, 1, function.defaults.emplace_back());
    case wire_key(13, WireType::kBytes):
      return text(function.overload);
    default:
      return {};
  }
}

}  // namespace

Status read_function(ReadContext& context, std::span<const std::byte> message,
                     FunctionData& function) {
  MANTISSA_ASSIGN(const FieldCounts counts, count_fields(context, message));
  MANTISSA_RETURN_IF_ERROR(context.budget.take_nodes(counts[7]));
  MANTISSA_RETURN_IF_ERROR(context.budget.take_attributes(counts[11]));
  MANTISSA_RETURN_IF_ERROR(context.budget.take_strings(counts[4] + counts[5]));
  // Lists grow while they are read, to at most twice their size, beside the one before.
  constexpr int64_t kGrowth = 3;
  MANTISSA_RETURN_IF_ERROR(context.budget.take_bytes(
      kGrowth *
      (counts[7] * int64_t{sizeof(NodeData)} + counts[11] * int64_t{sizeof(NodeAttribute)} +
       counts[9] * 160 + (counts[4] + counts[5]) * int64_t{sizeof(std::string)})));
  WireReader reader(message);
  WireField field;
  while (reader.next(field)) {
    MANTISSA_RETURN_IF_ERROR(read_field(context, field, function));
  }
  if (function.domain == "ai.onnx") function.domain.clear();
  return end_of(reader);
}

}  // namespace mantissa::onnx
