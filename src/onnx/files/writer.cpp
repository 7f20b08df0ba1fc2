#include "onnx/files/writer.h"

#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "base/checked.h"
#include "base/files/atomic_file.h"

namespace mantissa::onnx {
namespace {

constexpr int64_t kMostBytes = (int64_t{1} << 31) - 1;

// Protobuf's wire types.
enum class Wire : uint32_t { kVarint = 0, kBytes = 2, kFixed32 = 5 };

// One message: fields are appended.
class Message {
 public:
  void number(uint32_t field, int64_t value) {
    key(field, Wire::kVarint);
    varint(static_cast<uint64_t>(value));
  }
  void real(uint32_t field, float value) {
    key(field, Wire::kFixed32);
    fixed(value);
  }
  void bytes(uint32_t field, std::string_view value) {
    key(field, Wire::kBytes);
    varint(value.size());
    text_ += value;
  }
  // Strings that are empty by default are left out.
  void text(uint32_t field, std::string_view value) {
    if (!value.empty()) bytes(field, value);
  }
  void message(uint32_t field, const Message& value) { bytes(field, value.text_); }
  void numbers(uint32_t field, std::span<const int64_t> values) {
    if (values.empty()) return;
    Message packed;
    for (const int64_t value : values) packed.varint(static_cast<uint64_t>(value));
    message(field, packed);
  }
  void reals(uint32_t field, std::span<const float> values) {
    if (values.empty()) return;
    Message packed;
    for (const float value : values) packed.fixed(value);
    message(field, packed);
  }
  std::string take() { return std::move(text_); }

 private:
  void key(uint32_t field, Wire wire) { varint(field << 3 | static_cast<uint32_t>(wire)); }
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) text_ += static_cast<char>(value | 0x80);
    text_ += static_cast<char>(value);
  }
  void fixed(float value) {
    char raw[sizeof(value)];
    std::memcpy(raw, &value, sizeof(value));
    text_.append(raw, sizeof(value));
  }

  std::string text_;
};

Result<Message> tensor_message(const TensorData& tensor) {
  const std::string name = "tensor '" + tensor.name + "'";
  const int bits = element_bits(tensor.type);
  if (bits == 0) return invalid_input(name + " has elements that cannot be written");
  std::optional<int64_t> elements = 1;
  for (const int64_t dim : tensor.dims) {
    elements = dim < 0 || !elements ? std::nullopt : checked_mul(*elements, dim);
  }
  const auto all_bits = elements ? checked_mul<int64_t>(*elements, bits) : std::nullopt;
  if (!all_bits || divide_up<int64_t>(*all_bits, 8) != std::ssize(tensor.bytes)) {
    return invalid_input(name + " has not the bytes of its type and dims");
  }
  Message message;
  message.numbers(1, tensor.dims);
  message.number(2, static_cast<int64_t>(tensor.type));
  message.text(8, tensor.name);
  message.bytes(9, {reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size()});
  return message;
}

Result<Message> graph_message(const GraphData& graph);

// Appends the value and its type.
struct ValueWriter {
  Message& to;

  Status typed(AttributeType type) {
    to.number(20, static_cast<int64_t>(type));
    return {};
  }
  Status operator()(std::monostate) { return invalid_input("an attribute has no value"); }
  Status operator()(float value) {
    to.real(2, value);
    return typed(AttributeType::kFloat);
  }
  Status operator()(int64_t value) {
    to.number(3, value);
    return typed(AttributeType::kInt);
  }
  Status operator()(const std::string& value) {
    to.bytes(4, value);
    return typed(AttributeType::kString);
  }
  Status operator()(const TensorData& value) {
    MANTISSA_ASSIGN(const Message tensor, tensor_message(value));
    to.message(5, tensor);
    return typed(AttributeType::kTensor);
  }
  Status operator()(const std::shared_ptr<const GraphData>& value) {
    if (value == nullptr) return invalid_input("an attribute has no graph");
    MANTISSA_ASSIGN(const Message graph, graph_message(*value));
    to.message(6, graph);
    return typed(AttributeType::kGraph);
  }
  Status operator()(const std::vector<float>& value) {
    to.reals(7, value);
    return typed(AttributeType::kFloats);
  }
  Status operator()(const std::vector<int64_t>& value) {
    to.numbers(8, value);
    return typed(AttributeType::kInts);
  }
  Status operator()(const std::vector<std::string>& value) {
    for (const std::string& each : value) to.bytes(9, each);
    return typed(AttributeType::kStrings);
  }
};

Result<Message> node_message(const NodeData& node) {
  Message message;
  for (const std::string& input : node.inputs) message.bytes(1, input);
  for (const std::string& output : node.outputs) message.bytes(2, output);
  message.text(3, node.name);
  message.bytes(4, node.op_type);
  for (const NodeAttribute& attribute : node.attributes) {
    Message value;
    value.bytes(1, attribute.name);
    const Status written = std::visit(ValueWriter{value}, attribute.value);
    if (!written.ok()) {
      return invalid_input("node '" + node.name + "', attribute '" + attribute.name +
                           "': " + written.error().message);
    }
    message.message(5, value);
  }
  message.text(7, node.domain);
  return message;
}

Message value_message(const ValueData& value) {
  Message tensor;
  tensor.number(1, static_cast<int64_t>(value.type));
  if (value.has_shape) {
    Message shape;
    for (const Dimension& dim : value.dims) {
      Message size;
      if (!dim.name.empty()) {
        size.bytes(2, dim.name);
      } else if (dim.size >= 0) {
        size.number(1, dim.size);
      }
      shape.message(1, size);
    }
    tensor.message(2, shape);
  }
  Message type, message;
  type.message(1, tensor);
  message.bytes(1, value.name);
  message.message(2, type);
  return message;
}

Result<Message> graph_message(const GraphData& graph) {
  Message message;
  for (const NodeData& node : graph.nodes) {
    MANTISSA_ASSIGN(const Message one, node_message(node));
    message.message(1, one);
  }
  message.text(2, graph.name);
  for (const TensorData& tensor : graph.initialisers) {
    MANTISSA_ASSIGN(const Message one, tensor_message(tensor));
    message.message(5, one);
  }
  for (const ValueData& value : graph.inputs) message.message(11, value_message(value));
  for (const ValueData& value : graph.outputs) message.message(12, value_message(value));
  for (const ValueData& value : graph.values) message.message(13, value_message(value));
  return message;
}

}  // namespace

Result<std::string> model_bytes(const ModelData& model) {
  Message message;
  message.number(1, model.ir_version);
  message.text(2, model.producer_name);
  message.text(3, model.producer_version);
  MANTISSA_ASSIGN(const Message graph, graph_message(model.graph));
  message.message(7, graph);
  for (const auto& [domain, version] : model.opsets) {
    Message opset;
    opset.text(1, domain);
    opset.number(2, version);
    message.message(8, opset);
  }
  for (const auto& [key, value] : model.metadata) {
    Message entry;
    entry.bytes(1, key);
    entry.bytes(2, value);
    message.message(14, entry);
  }
  std::string bytes = message.take();
  if (std::ssize(bytes) <= kMostBytes) return bytes;
  return invalid_input("the model is larger than 2 GiB, the most that an ONNX file can be");
}

Status write_model(const std::filesystem::path& path, const ModelData& model) {
  MANTISSA_ASSIGN(const std::string bytes, model_bytes(model));
  return write_text_atomically(path, bytes);
}

}  // namespace mantissa::onnx
