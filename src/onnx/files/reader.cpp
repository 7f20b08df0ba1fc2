#include "onnx/files/reader.h"

#include <set>
#include <utility>

#include "base/files/file_bytes.h"
#include "onnx/files/check_names.h"
#include "onnx/files/functions.h"
#include "onnx/files/read_context.h"
#include "onnx/files/read_graph.h"

namespace mantissa::onnx {
namespace {

using Bytes = std::span<const std::byte>;

constexpr uint32_t text_key(uint32_t number) { return wire_key(number, WireType::kBytes); }
constexpr uint32_t number_key(uint32_t number) { return wire_key(number, WireType::kVarint); }

// The list's place for as many more elements, once the budget allows them.
template <typename T>
Status reserve(ReadContext& context, std::vector<T>& list, int64_t count) {
  constexpr int64_t kBlockBytes = 16;
  MANTISSA_RETURN_IF_ERROR(
      context.budget.take_bytes(count * static_cast<int64_t>(sizeof(T)) + kBlockBytes));
  list.reserve(static_cast<size_t>(count));
  return {};
}

Status read_dimension(ReadContext& context, Bytes message, Dimension& dimension) {
  WireReader reader(message);
  WireField field;
  while (reader.next(field)) {
    if (field.key == number_key(1)) dimension.size = static_cast<int64_t>(field.value);
    if (field.key == text_key(2)) {
      MANTISSA_ASSIGN(dimension.name, read_text(context, field));
    }
  }
  // A negative number means the same as none.
  if (dimension.size < 0) dimension.size = -1;
  return end_of(reader);
}

Status read_shape(ReadContext& context, Bytes message, ValueData& value) {
  value.has_shape = true;
  MANTISSA_ASSIGN(const FieldCounts counts, count_fields(context, message));
  if (counts[1] > static_cast<int64_t>(kMostRank)) {
    return invalid_input(describe("value", value.name) + " has " + std::to_string(counts[1]) +
                         " dimensions; at most 8 are possible");
  }
  value.dims.clear();
  MANTISSA_RETURN_IF_ERROR(reserve(context, value.dims, counts[1]));
  WireReader reader(message);
  WireField field;
  while (reader.next(field)) {
    if (field.key != text_key(1)) continue;
    MANTISSA_RETURN_IF_ERROR(read_dimension(context, field.bytes, value.dims.emplace_back()));
  }
  return end_of(reader);
}

// TypeProto.Tensor. Types of elements of sequences, of maps and so on stay undefined.
Status read_tensor_type(ReadContext& context, Bytes message, ValueData& value) {
  WireReader reader(message);
  WireField field;
  while (reader.next(field)) {
    if (field.key == number_key(1) && field.value <= UINT8_MAX) {
      value.type = static_cast<ElementType>(field.value);
    } else if (field.key == text_key(2)) {
      MANTISSA_RETURN_IF_ERROR(read_shape(context, field.bytes, value));
    }
  }
  return end_of(reader);
}

Status read_value(ReadContext& context, Bytes message, ValueData& value) {
  MANTISSA_RETURN_IF_ERROR(count_fields(context, message));
  std::optional<Bytes> type;
  WireReader reader(message);
  WireField field;
  while (reader.next(field)) {
    if (field.key == text_key(1)) {
      MANTISSA_ASSIGN(value.name, read_text(context, field));
    } else if (field.key == text_key(2)) {
      type = field.bytes;
    }
  }
  MANTISSA_RETURN_IF_ERROR(end_of(reader));
  if (!type) return {};
  WireReader kinds(*type);
  while (kinds.next(field)) {
    if (field.key == text_key(1)) {
      MANTISSA_RETURN_IF_ERROR(read_tensor_type(context, field.bytes, value));
    }
    if (field.key == text_key(4)) value.kind = ValueKind::kSequence;
    if (field.key == text_key(9)) value.kind = ValueKind::kOptional;
  }
  return end_of(kinds);
}

Result<GraphData> read_graph(ReadContext& context, Bytes message, int nesting);

// The value of an attribute that its writer left out because it is 0 or empty.
AttributeData empty_attribute(AttributeType type) {
  switch (type) {
    case AttributeType::kFloat:
      return 0.0f;
    case AttributeType::kInt:
      return int64_t{0};
    case AttributeType::kString:
      return std::string();
    case AttributeType::kFloats:
      return std::vector<float>();
    case AttributeType::kInts:
      return std::vector<int64_t>();
    case AttributeType::kStrings:
      return std::vector<std::string>();
    default:
      return std::monostate();
  }
}

// The list in `value`, which becomes one if it is something else yet.
template <typename List>
List& list_in(AttributeData& value) {
  if (List* list = std::get_if<List>(&value)) return *list;
  return value.emplace<List>();
}

Status read_attribute_field(ReadContext& context, const WireField& field, int nesting,
                            NodeAttribute& attribute) {
  AttributeData& value = attribute.value;
  switch (field.key) {
    case text_key(1): {
      MANTISSA_ASSIGN(attribute.name, read_text(context, field));
      return {};
    }
    case wire_key(2, WireType::kFixed32):
      value = to_float(field);
      return {};
    case number_key(3):
      value = static_cast<int64_t>(field.value);
      return {};
    case text_key(4): {
      MANTISSA_ASSIGN(value, read_text(context, field));
      return {};
    }
    case text_key(5): {
      MANTISSA_RETURN_IF_ERROR(context.budget.take_tensors(1));
      MANTISSA_ASSIGN(value, read_tensor(context, field.bytes));
      return {};
    }
    case text_key(6): {
      MANTISSA_RETURN_IF_ERROR(context.budget.take_bytes(sizeof(GraphData)));
      MANTISSA_ASSIGN(GraphData graph, read_graph(context, field.bytes, nesting + 1));
      value = std::shared_ptr<const GraphData>(std::make_shared<GraphData>(std::move(graph)));
      return {};
    }
    case wire_key(7, WireType::kFixed32):
    case text_key(7):
      return add_floats(context, field, list_in<std::vector<float>>(value));
    case number_key(8):
    case text_key(8):
      return add_integers(context, field, list_in<std::vector<int64_t>>(value));
    case text_key(9): {
      MANTISSA_RETURN_IF_ERROR(context.budget.take_strings(1));
      MANTISSA_RETURN_IF_ERROR(context.budget.take_bytes(3 * sizeof(std::string)));
      MANTISSA_ASSIGN(std::string text, read_text(context, field));
      list_in<std::vector<std::string>>(value).push_back(std::move(text));
      return {};
    }
    case text_key(21): {
      MANTISSA_ASSIGN(attribute.refers_to, read_text(context, field));
      return {};
    }
    default:
      return {};
  }
}

}  // namespace

Status read_attribute(ReadContext& context, Bytes message, int nesting, NodeAttribute& attribute) {
  MANTISSA_RETURN_IF_ERROR(count_fields(context, message));
  auto type = AttributeType::kUndefined;
  WireReader reader(message);
  WireField field;
  while (reader.next(field)) {
    if (field.key == number_key(20) && field.value <= UINT8_MAX) {
      type = static_cast<AttributeType>(field.value);
    }
    MANTISSA_RETURN_IF_ERROR(read_attribute_field(context, field, nesting, attribute));
  }
  if (std::holds_alternative<std::monostate>(attribute.value)) {
    attribute.value = empty_attribute(type);
  }
  return end_of(reader);
}

namespace {

Status check_attribute_names(const NodeData& node) {
  std::set<std::string_view> names;
  for (const NodeAttribute& attribute : node.attributes) {
    if (names.insert(attribute.name).second) continue;
    return invalid_input(describe("node", node.name) + " (" + describe("operator", node.op_type) +
                         ") has " + describe("attribute", attribute.name) + " twice");
  }
  return {};
}

}  // namespace

Status read_node(ReadContext& context, Bytes message, int nesting, NodeData& node) {
  MANTISSA_ASSIGN(const FieldCounts counts, count_fields(context, message));
  if (counts[1] + counts[2] > kMostNodeValues) {
    return invalid_input("a node has " + std::to_string(counts[1] + counts[2]) +
                         " inputs and outputs; at most " + std::to_string(kMostNodeValues) +
                         " are possible");
  }
  MANTISSA_RETURN_IF_ERROR(context.budget.take_strings(counts[1] + counts[2]));
  MANTISSA_RETURN_IF_ERROR(context.budget.take_attributes(counts[5]));
  MANTISSA_RETURN_IF_ERROR(reserve(context, node.inputs, counts[1]));
  MANTISSA_RETURN_IF_ERROR(reserve(context, node.outputs, counts[2]));
  MANTISSA_RETURN_IF_ERROR(reserve(context, node.attributes, counts[5]));
  WireReader reader(message);
  WireField field;
  while (reader.next(field)) {
    switch (field.key) {
      case text_key(1): {
        MANTISSA_ASSIGN(std::string name, read_text(context, field));
        node.inputs.push_back(std::move(name));
        break;
      }
      case text_key(2): {
        MANTISSA_ASSIGN(std::string name, read_text(context, field));
        node.outputs.push_back(std::move(name));
        break;
      }
      case text_key(3): {
        MANTISSA_ASSIGN(node.name, read_text(context, field));
        break;
      }
      case text_key(4): {
        MANTISSA_ASSIGN(node.op_type, read_text(context, field));
        break;
      }
      case text_key(5):
        MANTISSA_RETURN_IF_ERROR(
            read_attribute(context, field.bytes, nesting, node.attributes.emplace_back()));
        break;
      case text_key(7): {
        MANTISSA_ASSIGN(node.domain, read_text(context, field));
        if (node.domain == "ai.onnx") node.domain.clear();
        break;
      }
      case text_key(8): {
        MANTISSA_ASSIGN(node.overload, read_text(context, field));
        break;
      }
      default:
        break;
    }
  }
  MANTISSA_RETURN_IF_ERROR(end_of(reader));
  return check_attribute_names(node);
}

namespace {

Status read_graph_field(ReadContext& context, const WireField& field, int nesting,
                        GraphData& graph) {
  switch (field.key) {
    case text_key(1):
      return read_node(context, field.bytes, nesting, graph.nodes.emplace_back());
    case text_key(2): {
      MANTISSA_ASSIGN(graph.name, read_text(context, field));
      return {};
    }
    case text_key(5): {
      MANTISSA_ASSIGN(TensorData tensor, read_tensor(context, field.bytes));
      graph.initialisers.push_back(std::move(tensor));
      return {};
    }
    case text_key(11):
      return read_value(context, field.bytes, graph.inputs.emplace_back());
    case text_key(12):
      return read_value(context, field.bytes, graph.outputs.emplace_back());
    case text_key(13):
      return read_value(context, field.bytes, graph.values.emplace_back());
    case text_key(15):
      return invalid_input("has sparse initialisers, which are not supported: store them dense");
    default:
      return {};
  }
}

Result<GraphData> read_graph(ReadContext& context, Bytes message, int nesting) {
  if (nesting > kMostNesting) {
    return invalid_input("graphs within graphs more than " + std::to_string(kMostNesting) +
                         " deep");
  }
  MANTISSA_ASSIGN(const FieldCounts counts, count_fields(context, message));
  MANTISSA_RETURN_IF_ERROR(context.budget.take_nodes(counts[1]));
  MANTISSA_RETURN_IF_ERROR(context.budget.take_tensors(counts[5]));
  MANTISSA_RETURN_IF_ERROR(context.budget.take_values(counts[11] + counts[12] + counts[13]));
  GraphData graph;
  MANTISSA_RETURN_IF_ERROR(reserve(context, graph.nodes, counts[1]));
  MANTISSA_RETURN_IF_ERROR(reserve(context, graph.initialisers, counts[5]));
  MANTISSA_RETURN_IF_ERROR(reserve(context, graph.inputs, counts[11]));
  MANTISSA_RETURN_IF_ERROR(reserve(context, graph.outputs, counts[12]));
  MANTISSA_RETURN_IF_ERROR(reserve(context, graph.values, counts[13]));
  WireReader reader(message);
  WireField field;
  while (reader.next(field)) {
    MANTISSA_RETURN_IF_ERROR(read_graph_field(context, field, nesting, graph));
  }
  MANTISSA_RETURN_IF_ERROR(end_of(reader));
  return graph;
}

}  // namespace

Status read_opset(ReadContext& context, Bytes message, Opsets& opsets) {
  std::string domain;
  int64_t version = 0;
  WireReader reader(message);
  WireField field;
  while (reader.next(field)) {
    if (field.key == text_key(1)) {
      MANTISSA_ASSIGN(domain, read_text(context, field));
    } else if (field.key == number_key(2)) {
      version = static_cast<int64_t>(field.value);
    }
  }
  if (domain == "ai.onnx") domain.clear();
  opsets[domain] = version;
  return end_of(reader);
}

namespace {

Status read_metadata(ReadContext& context, Bytes message, ModelData& model) {
  std::string key;
  std::string value;
  WireReader reader(message);
  WireField field;
  while (reader.next(field)) {
    if (field.key == text_key(1)) {
      MANTISSA_ASSIGN(key, read_text(context, field));
    } else if (field.key == text_key(2)) {
      MANTISSA_ASSIGN(value, read_text(context, field));
    }
  }
  model.metadata[key] = std::move(value);
  return end_of(reader);
}

Status read_model_fields(ReadContext& context, Bytes message, ModelData& model) {
  MANTISSA_ASSIGN(const FieldCounts counts, count_fields(context, message));
  if (counts[7] != 1) {
    return invalid_input(counts[7] == 0 ? "no graph in it: not an ONNX file, or cut off"
                                        : "several graphs in it, where ONNX has one");
  }
  // Each makes an entry of a map.
  MANTISSA_RETURN_IF_ERROR(context.budget.take_bytes((counts[8] + counts[14]) * 160));
  std::vector<FunctionData> functions;
  MANTISSA_RETURN_IF_ERROR(reserve(context, functions, counts[25]));
  WireReader reader(message);
  WireField field;
  while (reader.next(field)) {
    switch (field.key) {
      case number_key(1):
        model.ir_version = static_cast<int64_t>(field.value);
        break;
      case text_key(2): {
        MANTISSA_ASSIGN(model.producer_name, read_text(context, field));
        break;
      }
      case text_key(3): {
        MANTISSA_ASSIGN(model.producer_version, read_text(context, field));
        break;
      }
      case text_key(7): {
        MANTISSA_ASSIGN(model.graph, read_graph(context, field.bytes, 1));
        break;
      }
      case text_key(8):
        MANTISSA_RETURN_IF_ERROR(read_opset(context, field.bytes, model.opsets));
        break;
      case text_key(14):
        MANTISSA_RETURN_IF_ERROR(read_metadata(context, field.bytes, model));
        break;
      case text_key(25):
        MANTISSA_RETURN_IF_ERROR(read_function(context, field.bytes, functions.emplace_back()));
        break;
      default:
        break;
    }
  }
  MANTISSA_RETURN_IF_ERROR(end_of(reader));
  return inline_functions(functions, context.budget, model);
}

}  // namespace

Result<ModelData> parse_model(Bytes bytes, std::shared_ptr<const void> owner,
                              const std::filesystem::path& folder) {
  ReadContext context{folder, std::move(owner), {}, {}};
  ModelData model;
  MANTISSA_RETURN_IF_ERROR(read_model_fields(context, bytes, model));
  MANTISSA_RETURN_IF_ERROR(check_names(model.graph));
  return model;
}

Result<TensorData> parse_tensor(Bytes bytes, std::shared_ptr<const void> owner,
                                const std::filesystem::path& folder) {
  ReadContext context{folder, std::move(owner), {}, {}};
  return read_tensor(context, bytes);
}

Result<ModelData> read_model(const std::filesystem::path& path) {
  MANTISSA_ASSIGN(std::shared_ptr<const FileBytes> file, FileBytes::read(path, kMostFileBytes));
  Result<ModelData> model = parse_model(file->bytes(), file, path.parent_path());
  if (model.ok()) return model;
  return make_error(model.error().code, "'" + path.string() + "': " + model.error().message,
                    model.error().where);
}

}  // namespace mantissa::onnx
